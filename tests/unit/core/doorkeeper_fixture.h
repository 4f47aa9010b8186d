// What the tests of the doorkeeper share: limits, and tables that are played.
#ifndef ROLLCALL_TESTS_UNIT_CORE_DOORKEEPER_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_CORE_DOORKEEPER_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/core/doorkeeper.h"

namespace rollcall {

inline absl::Time At(double seconds) {
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

inline DoorAddress Address(uint8_t last) {
  return DoorAddressOfIpv4({10, 0, 0, last});
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

inline std::string Text(const Doorkeeper::Verdicts& verdicts) {
  return absl::StrJoin(
      verdicts, ", ", [](std::string* out, const Doorkeeper::Verdict& verdict) {
        absl::StrAppend(out, Word(verdict.fate), " ", verdict.id);
      });
}

// Small, so that a table shows all of it.
inline DoorLimits SmallDoor() {
  DoorLimits limits;
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

// No rate, a door as small.
inline DoorLimits OpenDoor() {
  DoorLimits limits = SmallDoor();
  limits.handshakes_per_second = limits.handshakes_burst = 1000;
  limits.handshakes_per_address_per_second = 1000;
  limits.handshakes_per_address_burst = 1000;
  return limits;
}

struct Row {
  double at;
  // "arrive 1 a": connection 1 from address a. "ask 1", "garbage 1", "gone 1",
  // "free 1": it has authenticated or is gone, "room", "limit 2": two may wait,
  // "tick", "next": the next deadline is asked for.
  const char* event;
  const char* expect;
};

inline std::string Apply(Doorkeeper& door, const Row& row) {
  const std::vector<std::string> words = absl::StrSplit(row.event, ' ');
  Doorkeeper::Id id = 0;
  if (words.size() > 1) id = std::stoull(words[1]);
  if (words[0] == "arrive") {
    const auto from = static_cast<uint8_t>(words[2][0]);
    return Text(door.Arrive(id, Address(from), At(row.at)));
  }
  if (words[0] == "free") return Text(door.Release(id, At(row.at)));
  if (words[0] == "ask") return Text(door.Ask(id, At(row.at)));
  if (words[0] == "room") return Text(door.MakeRoom());
  if (words[0] == "limit") return Text(door.Limit(id));
  if (words[0] == "tick") return Text(door.Tick(At(row.at)));
  if (words[0] == "next") {
    if (door.NextDeadline() == absl::InfiniteFuture()) return "never";
    return absl::StrCat(
        absl::ToDoubleSeconds(door.NextDeadline() - absl::UnixEpoch()));
  }
  door.Leave(id, words[0] == "gone" ? Fate::kHungUp : Fate::kGarbage);
  return "";
}

inline void Play(const DoorLimits& limits, const std::vector<Row>& rows) {
  Doorkeeper door(limits);
  for (const Row& row : rows) {
    EXPECT_EQ(Apply(door, row), row.expect) << row.at << ": " << row.event;
    EXPECT_LE(door.counts().waiting, limits.waiting_max) << row.at;
    EXPECT_LE(door.addresses(), limits.addresses_max) << row.at;
  }
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_CORE_DOORKEEPER_FIXTURE_H_
