// The text about the nodes that a job still needs. The launcher, agents and
// `status` all use it.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_BASE_TEXT_AWAITED_TEXT_H_
#define ROLLCALL_DAEMON_BASE_TEXT_AWAITED_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rollcall {

// A job that gathers nodes.
struct Awaited {
  // The nodes that attend and may get a seat.
  uint64_t here = 0;
  uint64_t nodes_min = 0;
  uint64_t nodes_max = 0;
  // Names of missing nodes, as far as they are known.
  std::vector<std::string> missing;
};

// `1 more to begin, room for 3 more`; only the first part if nodes_min equals
// nodes_max.
std::string NeededText(const Awaited& awaited);

// `1 node is here; 1 more to begin, room for 3 more; missing: c`.
std::string AwaitedText(const Awaited& awaited);

// `still running: a, b`.
std::string StillRunningText(const std::vector<std::string>& nodes);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_TEXT_AWAITED_TEXT_H_
