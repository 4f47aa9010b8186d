// Ranking: who sits where.
//
// Pure. Seats are sticky: a survivor keeps its seat, an empty one goes to the
// candidate that is first in order, and a node that comes back has no claim.
// Nodes of one NVLink domain are adjacent in that order.
#ifndef ROLLCALL_DAEMON_CORE_RANKING_H_
#define ROLLCALL_DAEMON_CORE_RANKING_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall {

// Natural order: runs of digits compare as numbers, so node2 < node10. A total
// order: names that are equal as numbers (n1, n01) compare as text.
bool NaturalLess(std::string_view a, std::string_view b);

struct Candidate {
  std::string node;
  int seat = -1;          // The seat it holds; -1: none.
  bool launcher = false;  // Takes seat 0 where that is free.
  std::string domain;     // NVLink domain; empty: none but the node's own.
};

struct Seated {
  std::string node;
  uint32_t seat;
};

// Gives out seats 0 to seats_max-1. Order of those without one: the launcher,
// then the others of its domain, then domain by domain, each where its first
// node stands in natural order. Returns those who got one, by seat: the node
// rank of each is its index. Seats that candidates hold must differ and be
// below seats_max.
std::vector<Seated> AssignSeats(const std::vector<Candidate>& candidates,
                                uint32_t seats_max);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_RANKING_H_
