#include "client/cli/flags/setting_values.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/flags/argv.h"
#include "daemon/base/durations.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/admission/job_variables.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// A time limit; zero: no limit.
absl::StatusOr<absl::Duration> ParseTimeLimit(const std::string& flag,
                                              const std::string& text,
                                              absl::Duration most) {
  if (text == "never" || text == "0" || text == "0s") {
    return absl::ZeroDuration();
  }
  return ParseDurationFlag(flag, text, most);
}

// A flag that takes a time, its text, and the setting that it fills.
struct TimeRow {
  const char* flag;
  const std::string& text;
  bool may_be_never;
  google::protobuf::Duration* (v1::JobSettings::*setting)();
  absl::Duration most = Limits::wait_max;
};

absl::Status ReadTime(const TimeRow& row, v1::JobSettings& to) {
  if (row.text.empty()) return absl::OkStatus();
  const absl::StatusOr<absl::Duration> time =
      row.may_be_never ? ParseTimeLimit(row.flag, row.text, row.most)
                       : ParseDurationFlag(row.flag, row.text, row.most);
  if (!time.ok()) return time.status();
  ToProto(*time, (to.*row.setting)());
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadSettings(const SettingsText& text, v1::JobSettings& to) {
  if (!text.nodes.empty()) {
    auto nodes = ParseNodes(text.nodes);
    if (!nodes.ok()) return nodes.status();
    to.set_nodes_min(nodes->min);
    to.set_nodes_max(nodes->max);
  }
  if (!text.max_restarts_option->empty()) {
    to.set_max_restarts(text.max_restarts);
  }
  if (text.grow == "boundary") {
    to.set_grow(v1::GROW_BOUNDARY);
  } else if (text.grow == "never") {
    to.set_grow(v1::GROW_NEVER);
  } else if (!text.grow.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--grow takes boundary or never, not '", text.grow, "'"));
  }
  if (text.preflight == "off") {
    to.set_preflight(v1::PREFLIGHT_OFF);
  } else if (text.preflight == "warn") {
    to.set_preflight(v1::PREFLIGHT_WARN);
  } else if (text.preflight == "strict") {
    to.set_preflight(v1::PREFLIGHT_STRICT);
  } else if (!text.preflight.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--preflight takes off, warn or strict, not '", text.preflight, "'"));
  }
  if (text.node_check) to.set_node_check(true);
  for (const std::string& word : text.env) {
    v1::JobVariable variable;
    const size_t end = word.find('=');
    variable.set_name(word.substr(0, end));
    absl::Status good = AdmitJobVariableName(variable.name());
    if (end != std::string::npos) {
      variable.set_value(word.substr(end + 1));
      good = AdmitJobVariable(variable);
    }
    if (!good.ok()) return good;
    SetJobVariable(variable, to);
  }
  if (absl::Status few =
          AdmitCount("--env", to.environment_size(), Limits::job_variables_max);
      !few.ok()) {
    return few;
  }
  using S = v1::JobSettings;
  const TimeRow rows[] = {
      {"--join-timeout", text.join_timeout, false, &S::mutable_join_timeout},
      {"--last-call", text.last_call, true, &S::mutable_last_call,
       Limits::grace_max},
      {"--hang-timeout", text.hang_timeout, true, &S::mutable_hang_timeout},
      {"--start-timeout", text.start_timeout, true, &S::mutable_start_timeout},
      {"--setup-timeout", text.setup_timeout, false, &S::mutable_setup_timeout},
      {"--notice-time", text.notice_time, false, &S::mutable_notice_time},
      {"--ping-interval", text.ping_interval, true, &S::mutable_ping_interval},
      {"--linger", text.linger, false, &S::mutable_linger},
  };
  for (const TimeRow& row : rows) {
    if (absl::Status read = ReadTime(row, to); !read.ok()) return read;
  }
  const absl::Duration join_timeout = to.has_join_timeout()
                                          ? FromProto(to.join_timeout())
                                          : Limits().join_timeout;
  if (FromProto(to.last_call()) > join_timeout) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--last-call ", text.last_call, " is longer than the --join-timeout (",
        absl::FormatDuration(join_timeout),
        "), after which a node that leaves would end the job; raise "
        "--join-timeout"));
  }
  const absl::Duration interval = FromProto(to.ping_interval());
  if (interval > absl::ZeroDuration() && interval < Limits().probe_timeout) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ping-interval takes at least ",
                     absl::FormatDuration(Limits().probe_timeout),
                     ", as long as a round of probes may take, or never; got ",
                     text.ping_interval));
  }
  if (!text.requeue_option->empty()) {
    to.set_requeue_exit_code(text.requeue_exit_code);
  }
  return absl::OkStatus();
}

}  // namespace rollcall
