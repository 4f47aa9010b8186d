#include "client/cli/place.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/launch/addresses.h"
#include "client/launch/launch_folder.h"
#include "daemon/core/admission.h"
#include "daemon/security/join_string.h"

extern char** environ;

namespace rollcall {
namespace {

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<JobAddress> FromJoinString(const std::string& text) {
  auto join = DecodeJoinString(absl::StripAsciiWhitespace(text).data());
  if (!join.ok()) return join.status();
  JobAddress address;
  address.endpoints.assign(join->endpoints().begin(), join->endpoints().end());
  address.job = join->job();
  address.token = join->token();
  return address;
}

absl::StatusOr<JobAddress> FromEndpoint(const WhereFlags& where) {
  if (where.job.empty()) {
    return absl::InvalidArgumentError("--endpoint needs --job ID");
  }
  if (absl::Status good = AdmitJobId(where.job); !good.ok()) return good;
  auto endpoint = ParseHostPort(where.endpoint);
  if (!endpoint.ok()) return endpoint.status();
  auto token = GivenToken(where.token_file);
  if (!token.ok()) return token.status();
  if (!token->has_value()) {
    return absl::InvalidArgumentError(
        "--endpoint needs a token: --token-file FILE, or ROLLCALL_TOKEN in the "
        "environment");
  }
  return JobAddress{{FormatHostPort(*endpoint)}, where.job, **token};
}

absl::StatusOr<JobAddress> FromState(const std::string& folder,
                                     const std::string& job) {
  auto running = ReadRunningJob(folder);
  if (!running.ok()) {
    return absl::NotFoundError(
        absl::StrCat(job.empty() ? "no job" : absl::StrCat("no job ", job),
                     " runs on this machine (there is no ", folder,
                     "/daemon.json); elsewhere, give its join string"));
  }
  auto address = FromJoinString(running->join_string);
  // Whatever the others reach it by: here it is this one.
  if (address.ok()) address->endpoints = {running->endpoint};
  return address;
}

}  // namespace

std::vector<std::string> PlainEnvironment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (absl::StartsWith(*entry, "ROLLCALL_JOIN=") ||
        absl::StartsWith(*entry, "ROLLCALL_TOKEN=")) {
      continue;
    }
    environment.push_back(*entry);
  }
  return environment;
}

void UseSystemResolver() { setenv("GRPC_DNS_RESOLVER", "native", 0); }

absl::StatusOr<std::string> NodeName(const std::string& flag) {
  if (!flag.empty()) return flag;
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0') {
    return absl::InvalidArgumentError(
        "this machine has no hostname; give this node a name with --name");
  }
  if (absl::Status good = AdmitNodeName(host); !good.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "this machine's hostname cannot name its node: ", good.message(),
        "; give it one with --name"));
  }
  return host;
}

uint32_t RanksHere(const std::string& flag, const v1::Facts& facts) {
  uint32_t ranks = 0;
  if (absl::SimpleAtoi(flag, &ranks)) return ranks;
  const uint32_t gpus = std::max<uint32_t>(
      facts.gpu_count(), static_cast<uint32_t>(facts.gpus_size()));
  return std::clamp<uint32_t>(gpus, 1, Limits::ranks_per_node_max);
}

absl::StatusOr<std::optional<v1::JoinToken>> GivenToken(
    const std::string& file) {
  std::string text = Variable("ROLLCALL_TOKEN");
  if (!file.empty()) {
    auto read = ReadSmallFile(file);
    if (!read.ok()) return read.status();
    text = *std::move(read);
  }
  if (file.empty() && text.empty()) return std::nullopt;
  auto token = ParseTokenText(std::string(absl::StripAsciiWhitespace(text)));
  if (!token.ok()) return token.status();
  return *std::move(token);
}

absl::StatusOr<JobAddress> JobToJoin(const WhereFlags& where) {
  if (!where.join_string.empty()) return FromJoinString(where.join_string);
  if (!where.endpoint.empty()) return FromEndpoint(where);
  const std::string join = Variable("ROLLCALL_JOIN");
  if (!join.empty()) return FromJoinString(join);
  return absl::InvalidArgumentError(
      "which job? give the join string that `rollcall launch` printed (or set "
      "ROLLCALL_JOIN), or --endpoint HOST:PORT --job ID");
}

absl::StatusOr<JobAddress> JobToSee(const WhereFlags& where) {
  if (!where.join_string.empty() || !where.endpoint.empty()) {
    return JobToJoin(where);
  }
  if (!where.state.empty()) return FromState(where.state, where.job);
  if (!where.job.empty()) {
    if (absl::Status good = AdmitJobId(where.job); !good.ok()) return good;
    return FromState(absl::StrCat(StateRoot(), "/", where.job), where.job);
  }
  if (!Variable("ROLLCALL_JOIN").empty()) return JobToJoin(where);
  const std::vector<RunningJob> running = RunningJobs(StateRoot());
  if (running.size() == 1) {
    return FromState(absl::StrCat(StateRoot(), "/", running[0].job),
                     running[0].job);
  }
  std::string names;
  for (const RunningJob& job : running) absl::StrAppend(&names, " ", job.job);
  return absl::NotFoundError(
      running.empty()
          ? "no job runs on this machine; elsewhere, give its join string"
          : absl::StrCat("several jobs run here; choose one with --job:",
                         names));
}

}  // namespace rollcall
