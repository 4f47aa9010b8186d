#include "client/launch/platform/evidence.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/launch/platform/job_name.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr uint32_t kRankMax = Limits::nodes_max - 1;
constexpr uint32_t kAttemptMax = 1u << 30;

void TakeText(const NodeEnvironment& environment, const char* name,
              Known<std::string>& to) {
  const std::string* text = Find(environment, name);
  if (text != nullptr) to = {*text, From(name, *text)};
}

absl::Status TakeNumber(const NodeEnvironment& environment, const char* name,
                        uint32_t most, Known<uint32_t>& to) {
  if (name == nullptr) return absl::OkStatus();
  const auto number = FindNumber(environment, name, most);
  if (!number.ok()) return number.status();
  if (*number) to = {**number, From(name, absl::StrCat(**number))};
  return absl::OkStatus();
}

// The launcher is the first host.
void TakeHosts(const NodeEnvironment& environment, const char* name,
               Known<std::string>& launcher) {
  const std::string* text = Find(environment, name);
  if (text == nullptr) return;
  const std::vector<std::string> hosts =
      absl::StrSplit(*text, absl::ByAnyChar(", \t\r\n"), absl::SkipEmpty());
  if (hosts.empty()) return;
  launcher = {hosts.front(), absl::StrCat("the first host of ", name)};
}

void TakeJob(const NodeEnvironment& environment, const char* name,
             Known<std::string>& to) {
  const std::string* text = Find(environment, name);
  const std::string id = text == nullptr ? "" : JobIdOf(*text);
  if (!id.empty()) to = {id, From(name, *text)};
}

}  // namespace

std::string From(absl::string_view name, absl::string_view value) {
  return absl::StrCat(name, "=", value);
}

absl::Status TakeVariables(const NodeEnvironment& environment,
                           const VariableNames& names, Evidence& to) {
  absl::Status read =
      TakeNumber(environment, names.node_rank, kRankMax, to.node_rank);
  read.Update(TakeNumber(environment, names.attempt, kAttemptMax, to.attempt));
  if (!read.ok()) return read;
  const auto take = [&](const char* name, Known<std::string>& text) {
    if (name != nullptr) TakeText(environment, name, text);
  };
  take(names.nodes, to.nodes);
  take(names.address, to.address);
  take(names.ranks, to.ranks);
  // A platform that counts GPUs has 0 for a node without GPUs.
  if (to.ranks.value == "0") to.ranks = {};
  if (names.hosts != nullptr) TakeHosts(environment, names.hosts, to.launcher);
  take(names.launcher, to.launcher);
  if (names.job != nullptr) TakeJob(environment, names.job, to.job);
  return absl::OkStatus();
}

}  // namespace rollcall
