// Ranking: assigns seats to nodes.
//
// Pure. Seats are sticky: a survivor keeps its seat, an empty seat goes to the
// first candidate in order, and a node that comes back has no claim to its
// former seat. Nodes of one NVLink domain are adjacent in that order.
#ifndef ROLLCALL_DAEMON_CORE_RANKING_H_
#define ROLLCALL_DAEMON_CORE_RANKING_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall {

// Natural order: digits compare as numbers, so node2 < node10. It is a total
// order: names that are equal as numbers (n1, n01) compare as text.
bool NaturalLess(std::string_view a, std::string_view b);

struct Candidate {
  std::string node;
  int seat = -1;          // The seat it holds; -1: none.
  bool launcher = false;  // Gets seat 0 if that is free.
  std::string domain;     // NVLink domain; empty: shared with no other node.
};

struct Seated {
  std::string node;
  uint32_t seat;
};

// Assigns seats 0 to seats_max-1. Candidates without a seat are taken in this
// order: the launcher, the other nodes of its domain, then domain by domain,
// where the position of a domain is that of its first node in natural order.
// Returns the seated candidates by seat; the index of each is its node rank.
// Requires that the seats that candidates hold differ and are below seats_max.
std::vector<Seated> AssignSeats(const std::vector<Candidate>& candidates,
                                uint32_t seats_max);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_RANKING_H_
