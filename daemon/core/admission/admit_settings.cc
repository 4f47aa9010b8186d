// Admission of a job's settings.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/admission/job_variables.h"
#include "daemon/core/admission/message_parts.h"

namespace rollcall {

absl::Status AdmitSettings(const v1::JobSettings& s) {
  // An unset value reads as zero, which may be invalid, so only set values are
  // checked.
  if (s.has_nodes_min()) {
    RETURN_IF_REFUSED(
        AdmitRange("nodes_min", s.nodes_min(), 1, Limits::nodes_max));
  }
  if (s.has_nodes_max()) {
    RETURN_IF_REFUSED(
        AdmitRange("nodes_max", s.nodes_max(), 1, Limits::nodes_max));
  }
  if (s.has_nodes_min() && s.has_nodes_max() && s.nodes_min() > s.nodes_max()) {
    return Unfit("nodes_min", absl::StrCat("at most nodes_max ", s.nodes_max()),
                 s.nodes_min());
  }
  RETURN_IF_REFUSED(AdmitCount("max_restarts", s.max_restarts(), INT32_MAX));
  if (!v1::Grow_IsValid(s.grow())) {
    return Unfit("grow", "boundary or never",
                 absl::StrCat(static_cast<int>(s.grow())));
  }
  if (!v1::Preflight_IsValid(s.preflight())) {
    return Unfit("preflight", "off, warn or strict",
                 absl::StrCat(static_cast<int>(s.preflight())));
  }
  // 0 would report success for work that was not done.
  if (s.has_requeue_exit_code()) {
    RETURN_IF_REFUSED(
        AdmitRange("requeue_exit_code", s.requeue_exit_code(), 1, 255));
  }
  const struct {
    const char* field;
    const google::protobuf::Duration* value;  // Null: unset.
    absl::Duration most;
    double least_seconds = 0;
  } durations[] = {
#define DURATION(name) #name, s.has_##name() ? &s.name() : nullptr
      {DURATION(join_timeout), Limits::wait_max},
      {DURATION(stop_grace), Limits::wait_max},
      {DURATION(notice_time), Limits::wait_max},
      {DURATION(hang_timeout), Limits::wait_max},
      {DURATION(start_timeout), Limits::wait_max},
      {DURATION(setup_timeout), Limits::wait_max},
      {DURATION(last_call), Limits::grace_max},
      {DURATION(lease), Limits::grace_max, 0.1},
      {DURATION(prepare_timeout), Limits::grace_max, 0.1},
      {DURATION(daemon_grace), Limits::wait_max},
      {DURATION(reconnect_grace), Limits::grace_max},
      {DURATION(reattach_grace), Limits::grace_max},
      {DURATION(linger), Limits::wait_max},
      {DURATION(ping_interval), Limits::wait_max},
#undef DURATION
  };
  for (const auto& [field, value, most, least_seconds] : durations) {
    if (value == nullptr) continue;
    RETURN_IF_REFUSED(AdmitDuration(field, *value, least_seconds, most));
  }
  RETURN_IF_REFUSED(AdmitJobVariables(s));
  RETURN_IF_REFUSED(AdmitCount("expected_nodes", s.expected_nodes_size(),
                               Limits::expected_nodes_max));
  for (const std::string& node : s.expected_nodes()) {
    RETURN_IF_REFUSED(AdmitNodeName(node));
  }
  return absl::OkStatus();
}

}  // namespace rollcall
