// Counted: a number and what it counts, for a person.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_BASE_COUNTED_H_
#define ROLLCALL_DAEMON_BASE_COUNTED_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rollcall {

// `1 node`, `2 nodes`: only for things whose plural ends in s.
inline std::string Counted(uint64_t count, absl::string_view thing) {
  return absl::StrCat(count, " ", thing, count == 1 ? "" : "s");
}

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_COUNTED_H_
