// The system part of the facts: names, kernel, limits, memory, boot id, clock,
// and whether this is a container.
//
// Reads files of the kernel and of this machine's own root; what cannot be read
// is unset, and a MissingFact. Folders of a run are not looked at here, since a
// network file system may not answer.
#ifndef ROLLCALL_CLIENT_FACTS_SYSTEM_H_
#define ROLLCALL_CLIENT_FACTS_SYSTEM_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

void GatherSystem(v1::Facts& facts);

// Sets wall_clock to now: once more when a Hello is said, which may be long
// after its facts were gathered.
void SetWallClock(v1::Facts& facts);

// Sets swap_bytes and swap_used_bytes from the text of /proc/meminfo; leaves
// them unset where it says nothing of swap. Pure.
void ReadSwap(absl::string_view meminfo, v1::SystemLimits& limits);

// Whether RLIMIT_MEMLOCK does not bind this process: it has CAP_IPC_LOCK in the
// machine's own user namespace. False where that cannot be read.
bool MayLockMemory();

// The same by the texts of /proc/self/status and /proc/self/uid_map. Pure.
bool MayLockMemory(absl::string_view status, absl::string_view uid_map);

// What a container shows of itself.
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

// "kubernetes", "podman", "docker", "apptainer", "lxc"...; empty: no sign.
// Pure.
std::string ContainerKind(const ContainerSigns& signs);

// Space of the file system that `folder` is on, or would be made on. The path
// stays as given. NOT_FOUND and others: the system's reason. May block for as
// long as a file system does not answer.
absl::StatusOr<v1::FolderSpace> ReadFolderSpace(const std::string& folder);

// The machine's boot id, the same in all of its containers; empty: unknown.
std::string BootId();

// Inode number of /proc/self/ns/<name>, which names the namespace; 0: unknown.
uint64_t NamespaceInode(const char* name);

// The word in brackets of "always [madvise] never"; empty: none. Pure.
std::string ChosenWord(absl::string_view text);

// Why a file has no value that is of use: it cannot be read, or what it says.
std::string WhyUnread(const std::string& path);

// At most `bytes_max` bytes of a file, as the kernel's small text files are
// read; empty where there is none.
std::string ReadSmallFile(const std::string& path, size_t bytes_max = 64 << 10);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_SYSTEM_H_
