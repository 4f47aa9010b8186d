// The system part of the facts: names, kernel, limits, boot id, clock.
#ifndef ROLLCALL_CLIENT_FACTS_SYSTEM_H_
#define ROLLCALL_CLIENT_FACTS_SYSTEM_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

void GatherSystem(v1::Facts& facts);

// The machine's boot id, the same in all of its containers; empty: unknown.
std::string BootId();

// Inode number of /proc/self/ns/<name>, which names the namespace; 0: unknown.
uint64_t NamespaceInode(const char* name);

// The word in brackets of "always [madvise] never"; empty: none. Pure.
std::string ChosenWord(absl::string_view text);

// At most `bytes_max` bytes of a file, as the kernel's small text files are
// read; empty where there is none.
std::string ReadSmallFile(const std::string& path, size_t bytes_max = 64 << 10);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_SYSTEM_H_
