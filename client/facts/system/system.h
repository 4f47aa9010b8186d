// The system part of the facts: names, kernel, limits, memory, boot id, clock,
// and whether this is a container.
//
// Reads files of the kernel and of this machine's root folder. A fact that
// cannot be read is unset and has a MissingFact. The run's folders are not read
// here, because a network file system may not answer.
#ifndef ROLLCALL_CLIENT_FACTS_SYSTEM_SYSTEM_H_
#define ROLLCALL_CLIENT_FACTS_SYSTEM_SYSTEM_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

void GatherSystem(v1::Facts& facts);

// Sets wall_clock to now. Called again when a Hello is sent, which may be long
// after its facts were gathered.
void SetWallClock(v1::Facts& facts);

// Sets swap_bytes and swap_used_bytes from the text of /proc/meminfo; leaves
// them unset if it has no lines about swap. Pure.
void ReadSwap(absl::string_view meminfo, v1::SystemLimits& limits);

// Whether RLIMIT_MEMLOCK does not apply to this process: it has CAP_IPC_LOCK in
// the initial user namespace. False if that cannot be read.
bool MayLockMemory();

// Decides it from the texts of /proc/self/status and /proc/self/uid_map. Pure.
bool MayLockMemory(absl::string_view status, absl::string_view uid_map);

// Signs that this process runs in a container.
struct ContainerSigns {
  bool dockerenv = false;     // /.dockerenv
  bool containerenv = false;  // /run/.containerenv
  bool singularity = false;   // /.singularity.d
  bool kubernetes = false;    // A service account, or KUBERNETES_SERVICE_HOST.
  std::string manager_word;   // /run/host/container-manager or
                              // /run/systemd/container
  std::string variable;       // The variable `container` of this process.
  std::string cgroup;         // /proc/self/cgroup
};

// "kubernetes", "podman", "docker", "apptainer", "lxc"...; empty: there is no
// sign of a container. Pure.
std::string ContainerKind(const ContainerSigns& signs);

// The space of the file system on which `folder` is, or would be created. The
// path is returned as given. NOT_FOUND and other codes: the system's error.
// Blocks as long as the file system does not answer.
absl::StatusOr<v1::FolderSpace> ReadFolderSpace(const std::string& folder);

// The machine's boot id, which is the same in all of its containers; empty:
// unknown.
std::string BootId();

// Inode number of /proc/self/ns/<name>, which identifies the namespace; 0:
// unknown.
uint64_t NamespaceInode(const char* name);

// The word in brackets of "always [madvise] never"; empty: none. Pure.
std::string ChosenWord(absl::string_view text);

// Why a file has no usable value: its read error, or the text that it has.
std::string WhyUnread(const std::string& path);

// At most `bytes_max` bytes of a file, for the kernel's small text files.
// Empty: it cannot be read.
std::string ReadSmallFile(const std::string& path, size_t bytes_max = 64 << 10);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_SYSTEM_SYSTEM_H_
