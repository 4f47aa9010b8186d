#include "client/cli/job_lookup.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/admin/addresses.h"
#include "client/agent/node_files/rank_environment.h"
#include "client/cli/commands.h"
#include "client/launch/platform/detectors.h"
#include "client/launch/platform/platform.h"
#include "client/launch/takeover/launch_folder.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/admission/job_variables.h"
#include "daemon/core/network_plan/plan_node.h"
#include "daemon/security/certificates/authority.h"
#include "daemon/security/certificates/identity.h"
#include "daemon/security/given_secrets.h"
#include "daemon/security/join_string.h"
#include "daemon/security/kept_tokens.h"
#include "daemon/security/secrets/token.h"

extern char** environ;

namespace rollcall {
namespace {

constexpr size_t kEndpointsMax = 16;

void Warn(const std::string& warning) {
  if (!warning.empty()) Complain(absl::StrCat("WARNING: ", warning));
}

Trust TrustOf(const WhereFlags& where) {
  Trust trust;
  std::string warning;
  // Errors in these files are left to the first connection, which reports them
  // better.
  if (!where.tls.key.empty()) {
    (void)CheckPrivateFile(where.tls.key, &warning);
  }
  Warn(warning);
  trust.ca_file = where.tls.ca;
  trust.cert_file = where.tls.cert;
  trust.key_file = where.tls.key;
  trust.server_name = where.tls_server_name;
  return trust;
}

absl::StatusOr<JobAddress> FromJoinString(const std::string& text,
                                          const WhereFlags& where) {
  const auto join = DecodeJoinString(text);
  if (!join.ok()) {
    // An altered join string means that no agent is admitted: UNAUTHENTICATED.
    if (!LooksSecret(std::string(absl::StripAsciiWhitespace(text)))) {
      return join.status();
    }
    return absl::UnauthenticatedError(join.status().message());
  }
  JobAddress address;
  address.endpoints.assign(join->endpoints().begin(), join->endpoints().end());
  address.job = join->job().empty() ? where.job : join->job();
  address.token = join->token();
  address.trust = TrustOf(where);
  address.trust.pin = join->ca_pin();
  address.trust.insecure = join->insecure();
  if (!where.job.empty() && where.job != address.job) {
    return absl::InvalidArgumentError(
        absl::StrCat("--job ", where.job, " and the join string, which is for ",
                     "job ", address.job, ", contradict; leave out --job"));
  }
  const bool own_pki = join->ca_pin().empty() && !join->insecure();
  if (own_pki && where.tls.ca.empty()) {
    return absl::InvalidArgumentError(
        "this daemon's certificate is of your own PKI: give --tls-ca, "
        "--tls-cert and --tls-key");
  }
  if (!own_pki && !where.tls.ca.empty()) {
    return absl::InvalidArgumentError(
        "this join string already says how to verify its daemon; leave out "
        "--tls-ca, --tls-cert and --tls-key");
  }
  return address;
}

absl::StatusOr<JobAddress> FromEndpoint(const WhereFlags& where,
                                        v1::Role role) {
  if (where.job.empty()) {
    return absl::InvalidArgumentError("--endpoint needs --job ID");
  }
  if (absl::Status good = AdmitJobId(where.job); !good.ok()) return good;
  if (!where.tls.ca.empty()) {
    return absl::InvalidArgumentError(
        "--tls-ca goes with a join string, which has the token; --endpoint is "
        "for a shared secret");
  }
  JobAddress address;
  for (const absl::string_view text : absl::StrSplit(where.endpoint, ',')) {
    const auto endpoint = ParseHostPort(text);
    if (!endpoint.ok()) return endpoint.status();
    address.endpoints.push_back(FormatHostPort(*endpoint));
  }
  if (address.endpoints.size() > kEndpointsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("--endpoint: expected at most ", kEndpointsMax,
                     " of HOST:PORT, got ", address.endpoints.size()));
  }
  std::string warning;
  const auto secret =
      GivenSecret(where.secret_file, where.given.secret, &warning);
  if (!secret.ok()) return secret.status();
  Warn(warning);
  if (!secret->has_value()) {
    return absl::InvalidArgumentError(
        "--endpoint needs the shared secret: --secret-file FILE, or "
        "ROLLCALL_SECRET in the environment; without one, give the join string "
        "that the launcher printed");
  }
  address.job = where.job;
  address.token = (*secret)->Token(role);
  const auto authority = Authority::FromSecret(**secret);
  if (!authority.ok()) return authority.status();
  address.trust.pin = authority->pin();
  return address;
}

absl::Status NotRunning(const std::vector<std::string>& folders,
                        const WhereFlags& where) {
  const std::string found =
      folders.empty()
          ? "this user has no home, and nothing below TMPDIR"
          : absl::StrCat("there is no ",
                         absl::StrJoin(folders, "/daemon.json and no "),
                         "/daemon.json");
  return absl::NotFoundError(absl::StrCat(
      where.job.empty() ? "no job" : absl::StrCat("no job ", where.job),
      " runs on this machine (", found, "); elsewhere, give its join string"));
}

// The first folder whose job's daemon runs; if there is none, the first folder
// that has a job.
std::optional<std::string> FindRunning(
    const std::vector<std::string>& folders) {
  std::optional<std::string> found;
  for (const std::string& folder : folders) {
    const auto running = ReadRunningJob(folder);
    if (!running.ok()) continue;
    if (IsLivingDaemon(running->daemon_pid)) return folder;
    if (!found) found = folder;
  }
  return found;
}

absl::StatusOr<JobAddress> FromState(const std::string& folder,
                                     const WhereFlags& where) {
  const auto running = ReadRunningJob(folder);
  if (!running.ok()) return NotRunning({folder}, where);
  const auto join = DecodeJoinString(running->join_string);
  if (!join.ok()) return join.status();
  const auto text = ReadPrivateFile(folder + kAdminTokenFile);
  if (!text.ok()) return text.status();
  auto token = ParseTokenText(*text);
  if (!token.ok()) return token.status();
  JobAddress address;
  // Other machines may reach the daemon at other addresses; this machine uses
  // this one.
  address.endpoints = {running->endpoint};
  address.endpoints_for_others.assign(join->endpoints().begin(),
                                      join->endpoints().end());
  address.job = running->job;
  address.token = *std::move(token);
  address.trust = running->trust;
  address.trust.pin = join->ca_pin();
  address.trust.insecure = join->insecure();
  address.state_folder = folder;
  return address;
}

}  // namespace

int FailAt(const JobAddress& address, const absl::Status& status) {
  const std::string stopped =
      absl::IsUnavailable(status) && !address.state_folder.empty()
          ? StoppedLauncher(address.state_folder)
          : "";
  if (stopped.empty()) return Fail(status);
  return Fail(
      absl::UnavailableError(absl::StrCat(status.message(), "; ", stopped)));
}

std::vector<std::string> PlainEnvironment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    environment.push_back(*entry);
  }
  return environment;
}

absl::Status TakeOwnVariables(v1::JobSettings& settings) {
  for (v1::JobVariable& variable : *settings.mutable_environment()) {
    if (variable.has_value()) continue;
    const char* own = getenv(variable.name().c_str());
    if (own == nullptr || *own == '\0') {
      return absl::InvalidArgumentError(absl::StrCat(
          "--env ", variable.name(), ": it is not set here; set it, or give ",
          variable.name(), "=VALUE"));
    }
    variable.set_value(own);
    if (absl::Status good = AdmitJobVariable(variable); !good.ok()) return good;
  }
  return absl::OkStatus();
}

absl::Status PassAttempt() {
  const auto attempt = DetectAttempt(VariablesOf(PlainEnvironment()));
  if (!attempt.ok()) return attempt.status();
  if (attempt->known()) {
    setenv(kAttemptVariable, absl::StrCat(attempt->value).c_str(), 1);
  }
  return absl::OkStatus();
}

void PrepareGrpc() {
  setenv("GRPC_DNS_RESOLVER", "native", 0);
  unsetenv("GRPC_TRACE");
}

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

std::string AdvertisedAddress(const std::vector<std::string>& environment) {
  const auto platforms = DetectAll(VariablesOf(environment));
  if (!platforms.ok()) return "";
  for (const Evidence& platform : *platforms) {
    if (!platform.address.known()) continue;
    return IsUnusable(platform.address.value) ? "" : platform.address.value;
  }
  return "";
}

std::string AbsolutePath(const std::string& path) {
  std::error_code failed;
  const std::string absolute =
      path.empty() ? "" : std::filesystem::absolute(path, failed).string();
  return failed ? path : absolute;
}

uint32_t RanksHere(const std::string& flag, const v1::Facts& facts) {
  uint32_t ranks = 0;
  if (absl::SimpleAtoi(flag, &ranks)) return ranks;
  // The GPUs that the command sees; `facts.gpus` has all GPUs of the node.
  return std::clamp<uint32_t>(facts.gpu_count(), 1, Limits::ranks_per_node_max);
}

absl::StatusOr<std::optional<SystemUser>> RankUser(const std::string& flag) {
  if (flag.empty()) return std::nullopt;
  absl::StatusOr<SystemUser> user = FindSystemUser(flag);
  absl::Status status = user.status();
  if (status.ok()) status = MayActAsOthers();
  if (status.ok()) return *std::move(user);
  const std::string text = absl::StrCat("--rank-user: ", status.message());
  if (absl::IsUnavailable(status)) return absl::UnavailableError(text);
  return absl::InvalidArgumentError(text);
}

absl::Status CheckLibrary(const std::string& path) {
  if (path.empty() || access(path.c_str(), R_OK) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--nccl-lib: cannot read ", path, ": ", strerror(errno),
                   "; leave it out to use the library that CMD would find"));
}

absl::StatusOr<JobAddress> JobToJoin(const WhereFlags& where, v1::Role role) {
  if (!where.join_string.empty() &&
      (!where.endpoint.empty() || !where.secret_file.empty())) {
    return absl::InvalidArgumentError(
        "a join string says all that --endpoint and --secret-file say; give "
        "one or the other");
  }
  if (where.join_string == "-") {
    const auto text = ReadGiven("the join string", "-");
    if (!text.ok()) return text.status();
    return FromJoinString(*text, where);
  }
  if (!where.join_string.empty()) {
    return FromJoinString(where.join_string, where);
  }
  if (!where.endpoint.empty()) return FromEndpoint(where, role);
  if (!where.given.join.empty()) return FromJoinString(where.given.join, where);
  return absl::InvalidArgumentError(
      "which job? give the join string that `rollcall launch` printed (or set "
      "ROLLCALL_JOIN), or --endpoint HOST:PORT --job ID --secret-file FILE");
}

absl::StatusOr<JobAddress> JobToSee(const WhereFlags& where, v1::Role role) {
  if (!where.join_string.empty() || !where.endpoint.empty()) {
    return JobToJoin(where, role);
  }
  if (!where.state.empty()) return FromState(where.state, where);
  if (!where.job.empty()) {
    if (absl::Status good = AdmitJobId(where.job); !good.ok()) return good;
    const std::vector<std::string> folders = LaunchFoldersOf(where.job);
    const auto folder = FindRunning(folders);
    if (folder.has_value()) return FromState(*folder, where);
    // No launcher on this machine runs this job. It may be one of several jobs
    // of a daemon: then ROLLCALL_JOIN names the daemon and --job the job.
    if (where.given.join.empty()) return NotRunning(folders, where);
  }
  if (!where.given.join.empty()) return JobToJoin(where, role);
  const std::vector<RunningJob> running =
      RunningJobs(RootsToSearch(RootsOf(ThisStateOrigin())));
  if (running.size() == 1) return FromState(running[0].folder, where);
  std::string names;
  for (const RunningJob& job : running) absl::StrAppend(&names, " ", job.job);
  return absl::NotFoundError(
      running.empty()
          ? "no job runs on this machine; elsewhere, give its join string"
          : absl::StrCat("several jobs run here; choose one with --job:",
                         names));
}

std::string JoinStringOf(const JobAddress& address, const std::string& job,
                         const v1::JoinToken& token) {
  v1::JoinString join;
  const std::vector<std::string>& endpoints =
      address.endpoints_for_others.empty() ? address.endpoints
                                           : address.endpoints_for_others;
  join.mutable_endpoints()->Add(endpoints.begin(), endpoints.end());
  join.set_job(job);
  join.set_ca_pin(address.trust.pin);
  join.set_insecure(address.trust.insecure);
  *join.mutable_token() = token;
  return EncodeJoinString(join);
}

}  // namespace rollcall
