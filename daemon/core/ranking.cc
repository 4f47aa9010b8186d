#include "daemon/core/ranking.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "daemon/base/check.h"

namespace rollcall {
namespace {

// Removes the leading digits from `text` and returns them without leading
// zeros.
std::string_view TakeNumber(std::string_view& text) {
  size_t length = 0;
  while (length < text.size() && absl::ascii_isdigit(text[length])) ++length;
  std::string_view number = text.substr(0, length);
  text.remove_prefix(length);
  const size_t zeros = std::min(number.find_first_not_of('0'), number.size());
  number.remove_prefix(zeros);
  return number;
}

// Returns a negative number, zero or a positive one; digits compare as numbers.
int NaturalCompare(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (absl::ascii_isdigit(a[0]) && absl::ascii_isdigit(b[0])) {
      const std::string_view x = TakeNumber(a);
      const std::string_view y = TakeNumber(b);
      if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
      if (const int order = x.compare(y); order != 0) return order;
      continue;
    }
    if (a[0] != b[0]) {
      return static_cast<unsigned char>(a[0]) < static_cast<unsigned char>(b[0])
                 ? -1
                 : 1;
    }
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return static_cast<int>(!a.empty()) - static_cast<int>(!b.empty());
}

}  // namespace

bool NaturalLess(std::string_view a, std::string_view b) {
  const int order = NaturalCompare(a, b);
  return order != 0 ? order < 0 : a < b;
}

namespace {

// Sorts NVLink domains by their first node in natural order.
void SortByPlace(std::vector<const Candidate*>& standing) {
  std::map<std::string_view, const Candidate*> first;  // By domain.
  const auto before = [](const Candidate* a, const Candidate* b) {
    if (a->launcher != b->launcher) return a->launcher;
    return NaturalLess(a->node, b->node);
  };
  for (const Candidate* candidate : standing) {
    if (candidate->domain.empty()) continue;
    const auto [at, fresh] = first.try_emplace(candidate->domain, candidate);
    if (!fresh && before(candidate, at->second)) at->second = candidate;
  }
  const auto head = [&](const Candidate* candidate) {
    return candidate->domain.empty() ? candidate : first.at(candidate->domain);
  };
  std::sort(standing.begin(), standing.end(),
            [&](const Candidate* a, const Candidate* b) {
              const Candidate* const head_a = head(a);
              const Candidate* const head_b = head(b);
              return head_a == head_b ? before(a, b) : before(head_a, head_b);
            });
}

}  // namespace

std::vector<Seated> AssignSeats(const std::vector<Candidate>& candidates,
                                uint32_t seats_max) {
  std::map<uint32_t, std::string> taken;
  std::vector<const Candidate*> standing;
  for (const Candidate& candidate : candidates) {
    if (candidate.seat < 0) {
      standing.push_back(&candidate);
      continue;
    }
    const auto seat = static_cast<uint32_t>(candidate.seat);
    CHECK_LT(seat, seats_max);
    CHECK(taken.emplace(seat, candidate.node).second);
  }
  SortByPlace(standing);
  uint32_t seat = 0;
  for (const Candidate* candidate : standing) {
    while (seat < seats_max && taken.contains(seat)) ++seat;
    if (seat == seats_max) break;
    taken.emplace(seat, candidate->node);
  }
  std::vector<Seated> seated;
  seated.reserve(taken.size());
  for (auto& [number, node] : taken) seated.push_back({node, number});
  return seated;
}

}  // namespace rollcall
