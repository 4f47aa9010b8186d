// Shared by the limiter's tests: limits, and a function that plays tables.
#ifndef ROLLCALL_TESTS_UNIT_CORE_HANDSHAKE_LIMITER_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_CORE_HANDSHAKE_LIMITER_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/core/handshake_limiter.h"
#include "tests/unit/time_at.h"

namespace rollcall {

inline SourceAddress Address(uint8_t last) {
  return SourceAddressOfIpv4({10, 0, 0, last});
}

inline const char* Word(Fate fate) {
  switch (fate) {
    case Fate::kHandedOn:
      return "in";
    case Fate::kSilent:
      return "silent";
    case Fate::kGarbage:
      return "garbage";
    case Fate::kCrowded:
      return "crowded";
    case Fate::kImpatient:
      return "impatient";
    case Fate::kHungUp:
      return "gone";
    case Fate::kDisplaced:
      return "displaced";
  }
  return "?";
}

inline std::string Text(const HandshakeLimiter::Verdicts& verdicts) {
  return absl::StrJoin(
      verdicts, ", ",
      [](std::string* out, const HandshakeLimiter::Verdict& verdict) {
        absl::StrAppend(out, Word(verdict.fate), " ", verdict.id);
      });
}

// The limits are small, so that a table can show everything.
inline ConnectionLimits SmallLimits() {
  ConnectionLimits limits;
  limits.waiting_max = 5;
  limits.waiting_per_address_max = 3;
  limits.silence = absl::Seconds(5);
  limits.patience = absl::Seconds(10);
  limits.handshakes_per_second = 2;
  limits.handshakes_burst = 4;
  limits.handshakes_per_address_per_second = 1;
  limits.handshakes_per_address_burst = 2;
  limits.addresses_max = 8;
  return limits;
}

// No rate limits; the other limits are as small as above.
inline ConnectionLimits OpenListener() {
  ConnectionLimits limits = SmallLimits();
  limits.handshakes_per_second = limits.handshakes_burst = 1000;
  limits.handshakes_per_address_per_second = 1000;
  limits.handshakes_per_address_burst = 1000;
  return limits;
}

struct Row {
  double at;
  // Connection 1 in the examples: "arrive 1 a" (from address a), "ask 1",
  // "garbage 1", "gone 1", "free 1" (it has authenticated or is gone),
  // "introduce 1", "charge
  // 700 a" (address a has sent 700 bytes in vain). Also
  // "room", "limit 2" (two may wait), "tick", and "next" (asks for the next
  // deadline).
  const char* event;
  const char* expect;
};

inline std::string Apply(HandshakeLimiter& limiter, const Row& row) {
  const std::vector<std::string> words = absl::StrSplit(row.event, ' ');
  HandshakeLimiter::Id id = 0;
  if (words.size() > 1) id = std::stoull(words[1]);
  if (words[0] == "arrive") {
    const auto from = static_cast<uint8_t>(words[2][0]);
    return Text(limiter.Arrive(id, Address(from), At(row.at)));
  }
  if (words[0] == "free") {
    return Text(limiter.Release(id, At(row.at)));
  }
  if (words[0] == "charge") {
    const auto from = static_cast<uint8_t>(words[2][0]);
    limiter.Charge(Address(from), id, At(row.at));
    return "";
  }
  if (words[0] == "introduce") {
    return Text(limiter.Introduce(id, At(row.at)));
  }
  if (words[0] == "ask") return Text(limiter.Ask(id, At(row.at)));
  if (words[0] == "room") return Text(limiter.MakeRoom());
  if (words[0] == "limit") return Text(limiter.Limit(id));
  if (words[0] == "tick") return Text(limiter.Tick(At(row.at)));
  if (words[0] == "next") {
    if (limiter.NextDeadline() == absl::InfiniteFuture()) return "never";
    return absl::StrCat(
        absl::ToDoubleSeconds(limiter.NextDeadline() - absl::UnixEpoch()));
  }
  limiter.Leave(id, words[0] == "gone" ? Fate::kHungUp : Fate::kGarbage);
  return "";
}

inline void Play(const ConnectionLimits& limits, const std::vector<Row>& rows) {
  HandshakeLimiter limiter(limits);
  for (const Row& row : rows) {
    EXPECT_EQ(Apply(limiter, row), row.expect) << row.at << ": " << row.event;
    EXPECT_LE(limiter.counts().waiting, limits.waiting_max) << row.at;
    EXPECT_LE(limiter.addresses(), limits.addresses_max) << row.at;
  }
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_CORE_HANDSHAKE_LIMITER_FIXTURE_H_
