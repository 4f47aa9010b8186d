#include "client/launch/takeover/launch_record.h"

#include <google/protobuf/util/json_util.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/launch/takeover/launch_folder.h"
#include "daemon/base/files/whole_file.h"
#include "daemon/core/limits.h"
#include "daemon/security/certificates/identity.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
// Enough for the names and pids of as many agents as a job can have.
constexpr size_t kLaunchRecordBytesMax = 16 << 20;

Json ToJson(const ProcessId& process) {
  return {{"pid", process.pid}, {"start", process.start_ticks}};
}

Json ToJson(const v1::JobSettings& settings) {
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(settings, &text);
  return Json::parse(text, nullptr, false);
}

// Each returns false if `key` is missing or has another type.
bool Read(const Json& json, const char* key, std::string& to) {
  if (!json.contains(key) || !json[key].is_string()) return false;
  to = json[key];
  return true;
}
bool Read(const Json& json, const char* key, bool& to) {
  if (!json.contains(key) || !json[key].is_boolean()) return false;
  to = json[key];
  return true;
}
template <typename Number>
bool ReadNumber(const Json& json, const char* key, uint64_t most, Number& to) {
  if (!json.contains(key) || !json[key].is_number_unsigned()) return false;
  const uint64_t number = json[key];
  if (number > most) return false;
  to = static_cast<Number>(number);
  return true;
}

bool ReadProcess(const Json& json, const char* key, ProcessId& to) {
  if (!json.contains(key) || !json[key].is_object()) return false;
  return ReadNumber(json[key], "pid", INT32_MAX, to.pid) &&
         ReadNumber(json[key], "start", UINT64_MAX, to.start_ticks);
}

// A record of an older rollcall has fewer fields.
bool ReadPlace(const Json& json, LaunchPlace& to) {
  if (!Read(json, "boot_id", to.boot_id)) return false;
  if (!json.contains("lock")) return true;
  return json["lock"].is_object() &&
         Read(json, "process_one", to.process_one) &&
         ReadNumber(json["lock"], "device", UINT64_MAX, to.lock_device) &&
         ReadNumber(json["lock"], "inode", UINT64_MAX, to.lock_inode);
}

bool ReadGone(const Json& json, std::vector<std::string>& to) {
  if (!json.contains("gone")) return true;
  if (!json["gone"].is_array()) return false;
  for (const Json& name : json["gone"]) {
    if (!name.is_string()) return false;
    to.push_back(name);
  }
  return to.size() <= Limits::nodes_max;
}

// A record of an older rollcall has no hosts.
bool ReadHosts(const Json& json, std::vector<Host>& to) {
  if (!json.contains("hosts")) return true;
  if (!json["hosts"].is_array()) return false;
  for (const Json& host : json["hosts"]) {
    Host read;
    if (!host.is_object() || !Read(host, "name", read.name) ||
        !Read(host, "target", read.target) ||
        !ReadNumber(host, "slots", Limits::ranks_per_node_max, read.slots)) {
      return false;
    }
    to.push_back(std::move(read));
  }
  return to.size() <= Limits::nodes_max;
}

bool ReadTerms(const Json& json, LaunchTerms& to) {
  if (json.contains("submit") && !Read(json, "submit", to.submit)) return false;
  if (!json.contains("settings") || !json["settings"].is_object() ||
      !json.contains("agent_flags") || !json["agent_flags"].is_array()) {
    return false;
  }
  for (const Json& flag : json["agent_flags"]) {
    if (!flag.is_string()) return false;
    to.agent_flags.push_back(flag);
  }
  return Read(json, "job", to.job) && Read(json, "listen", to.listen) &&
         Read(json, "wire", to.wire) && Read(json, "node", to.node) &&
         Read(json, "command_sha256", to.command_digest) &&
         ReadHosts(json, to.hosts) &&
         ReadNumber(json, "local_workers", Limits::nodes_max,
                    to.local_workers) &&
         google::protobuf::util::JsonStringToMessage(json["settings"].dump(),
                                                     &to.settings)
             .ok();
}

bool ReadAgents(const Json& json, std::vector<AgentRecord>& to) {
  if (!json.contains("agents") || !json["agents"].is_array()) return false;
  for (const Json& agent : json["agents"]) {
    AgentRecord record;
    if (!agent.is_object() || !Read(agent, "name", record.name) ||
        !Read(agent, "own", record.own) ||
        !ReadProcess(agent, "process", record.process)) {
      return false;
    }
    to.push_back(std::move(record));
  }
  return to.size() <= Limits::nodes_max;
}

}  // namespace

LaunchEnd EndOf(const LaunchPlace& then, const LaunchPlace& now) {
  if (then.boot_id != now.boot_id) return LaunchEnd::kReboot;
  const bool same_lock = then.lock_inode != 0 &&
                         then.lock_device == now.lock_device &&
                         then.lock_inode == now.lock_inode;
  // This launcher holds the lock. If the earlier launcher held the same lock,
  // it has ended. As process 1 of its pid namespace, it took all of its
  // children with it.
  if (then.process_one && same_lock && !now.boot_id.empty()) {
    return LaunchEnd::kNamespace;
  }
  return LaunchEnd::kUnknown;
}

std::string FormatLaunchRecord(const LaunchRecord& record) {
  Json agents = Json::array();
  for (const AgentRecord& agent : record.agents) {
    agents.push_back({{"name", agent.name},
                      {"own", agent.own},
                      {"process", ToJson(agent.process)}});
  }
  Json hosts = Json::array();
  for (const Host& host : record.terms.hosts) {
    hosts.push_back(
        {{"name", host.name}, {"target", host.target}, {"slots", host.slots}});
  }
  const Json json = {{"version", kVersion},
                     {"job", record.terms.job},
                     {"settings", ToJson(record.terms.settings)},
                     {"listen", record.terms.listen},
                     {"wire", record.terms.wire},
                     {"node", record.terms.node},
                     {"local_workers", record.terms.local_workers},
                     {"hosts", std::move(hosts)},
                     {"submit", record.terms.submit},
                     {"agent_flags", record.terms.agent_flags},
                     {"command_sha256", record.terms.command_digest},
                     {"ephemeral", record.ephemeral},
                     {"port", record.port},
                     {"boot_id", record.place.boot_id},
                     {"process_one", record.place.process_one},
                     {"lock",
                      {{"device", record.place.lock_device},
                       {"inode", record.place.lock_inode}}},
                     {"daemon", ToJson(record.daemon)},
                     {"agents", std::move(agents)},
                     {"gone", record.gone}};
  // A flag may contain any bytes. Invalid UTF-8 is replaced, so such a flag
  // never compares equal to its recorded text.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<LaunchRecord> ParseLaunchRecord(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  uint64_t version = 0;
  if (!json.is_object() || !ReadNumber(json, "version", UINT64_MAX, version)) {
    return absl::FailedPreconditionError("it is damaged");
  }
  if (version != kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("it has version ", version, ", this rollcall knows ",
                     kVersion, "; go on with the newer one"));
  }
  LaunchRecord record;
  if (!ReadTerms(json, record.terms) ||
      !Read(json, "ephemeral", record.ephemeral) ||
      !ReadNumber(json, "port", UINT16_MAX, record.port) ||
      !ReadPlace(json, record.place) ||
      !ReadProcess(json, "daemon", record.daemon) ||
      !ReadAgents(json, record.agents) || !ReadGone(json, record.gone)) {
    return absl::FailedPreconditionError("it is damaged");
  }
  return record;
}

absl::Status WriteLaunchRecord(const std::string& folder,
                               const LaunchRecord& record) {
  return WriteSecretFile(folder + kLaunchFile, FormatLaunchRecord(record));
}

absl::StatusOr<LaunchRecord> ReadLaunchRecord(const std::string& folder) {
  const std::string path = folder + kLaunchFile;
  const auto text = ReadWholeFile(path, kLaunchRecordBytesMax);
  if (!text.ok()) return absl::NotFoundError(text.status().message());
  auto record = ParseLaunchRecord(*text);
  if (record.ok()) return record;
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": ", record.status().message()));
}

}  // namespace rollcall
