// The text of a write error, with what the user needs to fix it.
//
// Any thread.
#ifndef ROLLCALL_DAEMON_BASE_FILES_WRITE_ERROR_H_
#define ROLLCALL_DAEMON_BASE_FILES_WRITE_ERROR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace rollcall {

// What a file system has free for this user.
struct FreeSpace {
  uint64_t free_bytes = 0;
  uint64_t size_bytes = 0;
  uint64_t free_files = 0;
  // 0: the file system does not count files.
  uint64_t files_max = 0;
};

// For the file system that `folder` is on. nullopt: statvfs failed.
std::optional<FreeSpace> FreeSpaceOf(const std::string& folder);

// The system's text for an errno. If there is no space left, also how much
// space `folder` has: "No space left on device (/state: 0 B of 64 KiB free)".
// Pure.
std::string WriteErrorText(int error, const std::string& folder,
                           const std::optional<FreeSpace>& space);
// The same for a file; asks the file system of the file's folder now. If that
// folder does not exist, the text says so.
std::string WriteErrorText(int error, const std::string& file);

// Writes all of `text`, and waits where a descriptor, which may be inherited
// and non-blocking, takes no more yet. Returns 0, or an errno; then a part may
// have been written.
int WriteWhole(int fd, absl::string_view text);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_FILES_WRITE_ERROR_H_
