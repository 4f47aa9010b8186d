// Why a file could not be written, as a person can act on it.
//
// Any thread.
#ifndef ROLLCALL_DAEMON_BASE_WRITE_ERROR_H_
#define ROLLCALL_DAEMON_BASE_WRITE_ERROR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace rollcall {

// What a file system has left for this user.
struct FreeSpace {
  uint64_t free_bytes = 0;
  uint64_t size_bytes = 0;
  uint64_t free_files = 0;
  // 0: it does not count files.
  uint64_t files_max = 0;
};

// Of the file system that a folder is on. nullopt: it cannot be asked.
std::optional<FreeSpace> FreeSpaceOf(const std::string& folder);

// The system's words for an errno; where space is lacking, also how much of it
// `folder` has: "No space left on device (/state: 0 B of 64 KiB free)". Pure.
std::string WriteErrorText(int error, const std::string& folder,
                           const std::optional<FreeSpace>& space);
// The same of a file, looking at its folder now.
std::string WriteErrorText(int error, const std::string& file);

// Writes all of it. 0, or an errno; what was written till then stays.
int WriteWhole(int fd, absl::string_view text);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_WRITE_ERROR_H_
