// Reads small files as text, each as a whole or not at all.
//
// Any thread; blocks.
#ifndef ROLLCALL_DAEMON_BASE_FILES_WHOLE_FILE_H_
#define ROLLCALL_DAEMON_BASE_FILES_WHOLE_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace rollcall {

// All bytes of a file. FAILED_PRECONDITION: it is a directory, or has more than
// `bytes_max` bytes. UNAVAILABLE: it cannot be opened or read. Messages name
// the path.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          size_t bytes_max = 1 << 20);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_FILES_WHOLE_FILE_H_
