#include "client/agent/node_files/world_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

// Keeps the fields in their documented order.
using Json = nlohmann::ordered_json;

Json PortJson(const v1::MemberPort& port) {
  Json gid = nullptr;
  if (port.has_gid()) {
    gid = {{"index", port.gid().index()},
           {"type", port.gid().type()},
           {"address", port.gid().address()}};
  }
  Json rail = nullptr;
  if (port.has_rail()) rail = port.rail();
  return {{"device", port.device()},
          {"port", port.port()},
          {"active", port.active()},
          {"link_layer", port.link_layer()},
          {"rate_gbps", port.rate_gbps()},
          {"lid", port.lid()},
          {"gid", gid},
          {"rail", rail}};
}

Json MemberJson(const v1::Member& member) {
  Json addresses = Json::array();
  for (const std::string& address : member.addresses()) {
    addresses.push_back(address);
  }
  Json infiniband = Json::array();
  for (const v1::MemberPort& port : member.ports()) {
    infiniband.push_back(PortJson(port));
  }
  Json gpus = Json::array();
  for (const v1::MemberGpus& of_model : member.gpus()) {
    gpus.push_back({{"model", of_model.model()}, {"count", of_model.count()}});
  }
  return {{"node", member.node()},
          {"hostname",
           member.hostname().empty() ? member.node() : member.hostname()},
          {"node_rank", member.node_rank()},
          {"address", member.address()},
          {"addresses", addresses},
          {"first_rank", member.first_rank()},
          {"ranks", member.ranks()},
          {"infiniband", infiniband},
          {"gpus", gpus}};
}

absl::Status Failed(const std::string& path, int error) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": ", std::strerror(error)));
}

// Returns 0 or an errno.
int Fill(int fd, const std::string& text, mode_t mode) {
  // Sets exactly `mode`, independent of the umask.
  if (fchmod(fd, mode) != 0) return errno;
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    at += static_cast<size_t>(n);
  }
  return 0;
}

}  // namespace

std::string WorldJson(const v1::World& world,
                      const v1::WorldCommit& world_commit) {
  Json nodes = Json::array();
  for (const v1::Member& member : world.members()) {
    nodes.push_back(MemberJson(member));
  }
  const Json json = {{"job", world.job()},
                     {"run", world.run()},
                     {"generation", world.generation()},
                     {"world_size", world.world_size()},
                     {"master_addr", world_commit.master_address()},
                     {"master_port", world_commit.master_port()},
                     {"nodes", nodes}};
  // A peer's text may be invalid UTF-8, which must not throw.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string HostfileText(const v1::World& world) {
  std::vector<std::string> order;
  std::map<std::string, uint32_t> slots;
  for (const v1::Member& member : world.members()) {
    const auto [at, is_new] = slots.emplace(member.address(), 0);
    if (is_new) order.push_back(member.address());
    at->second += member.ranks();
  }
  std::string text;
  for (const std::string& address : order) {
    absl::StrAppend(&text, address, " slots=", slots[address], "\n");
  }
  return text;
}

std::string NcclIdText(const v1::WorldCommit& world_commit) {
  std::string text;
  for (const std::string& id : world_commit.nccl_ids()) {
    absl::StrAppend(&text, absl::BytesToHexString(id), "\n");
  }
  return text;
}

absl::Status WriteFileAtomically(const std::string& path,
                                 const std::string& text, mode_t mode) {
  return WriteFileAt(AT_FDCWD, path, text, mode);
}

absl::Status WriteFileAt(int folder, const std::string& name,
                         const std::string& text, mode_t mode) {
  const std::string temporary = name + ".new";
  // An earlier process may have left this file.
  unlinkat(folder, temporary.c_str(), 0);
  const int fd =
      openat(folder, temporary.c_str(),
             O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode & 0600);
  if (fd < 0) return Failed(temporary, errno);
  const int error = Fill(fd, text, mode);
  close(fd);
  if (error == 0 &&
      renameat(folder, temporary.c_str(), folder, name.c_str()) == 0) {
    return absl::OkStatus();
  }
  const int why = error != 0 ? error : errno;
  unlinkat(folder, temporary.c_str(), 0);
  return Failed(name, why);
}

}  // namespace rollcall
