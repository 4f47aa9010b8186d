// A number of bytes as text for people.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_BASE_TEXT_BYTES_TEXT_H_
#define ROLLCALL_DAEMON_BASE_TEXT_BYTES_TEXT_H_

#include <cstdint>
#include <string>

namespace rollcall {

// "64 KiB", "19.5 KiB", "unlimited" for 2^64-1.
std::string BytesText(uint64_t bytes);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_TEXT_BYTES_TEXT_H_
