#include "client/facts/watch/fact_states.h"

#include <gtest/gtest.h>
#include <linux/if.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/facts/watch/fact_watch.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

std::string Text(const std::vector<v1::FactChange>& changes) {
  return absl::StrJoin(
      changes, ", ", [](std::string* out, const v1::FactChange& change) {
        absl::StrAppend(out, change.subject(), ": ", change.before(), " -> ",
                        change.after());
      });
}

NetworkLink Link(const std::string& name, uint32_t flags,
                 const std::string& kind = "", int master = 0) {
  NetworkLink link;
  link.index = 7;
  link.name = name;
  link.flags = flags;
  link.kind = kind;
  link.master = master;
  return link;
}

TEST(LinkStates, Story) {
  constexpr uint32_t kUp = IFF_UP | IFF_RUNNING;
  LinkStates states;
  EXPECT_EQ(Text(states.TakeAll(
                absl::OkStatus(),
                {Link("lo", kUp | IFF_LOOPBACK), Link("eth0", kUp),
                 Link("eth1", IFF_UP), Link("in_a_bridge", kUp, "veth", 3),
                 Link("uplink", kUp, "veth")})),
            "");
  EXPECT_EQ(Text(states.Take({Link("eth0", kUp)})), "");
  EXPECT_EQ(Text(states.Take({Link("eth0", IFF_UP)})),
            "interface eth0: up -> no carrier");
  EXPECT_EQ(Text(states.Take({Link("eth0", 0), Link("eth0", kUp)})),
            "interface eth0: no carrier -> down, "
            "interface eth0: down -> up");
  EXPECT_EQ(Text(states.TakeGone({Link("eth1", 0), Link("in_a_bridge", 0)})),
            "interface eth1: no carrier -> gone");
  EXPECT_EQ(Text(states.TakeGone({Link("eth1", 0)})), "");
  // Interfaces that come later are not watched; one that comes back is.
  EXPECT_EQ(Text(states.Take({Link("new0", kUp)})), "");
  EXPECT_EQ(Text(states.Take({Link("new0", 0), Link("eth1", kUp)})),
            "interface eth1: gone -> up");
  // Events were lost: what the whole table lacks is gone.
  EXPECT_EQ(Text(states.TakeAll(absl::OkStatus(),
                                {Link("eth0", kUp), Link("uplink", kUp)})),
            "interface eth1: up -> gone");
}

TEST(LinkStates, ATableThatCouldNotBeReadIsNotEmpty) {
  constexpr uint32_t kUp = IFF_UP | IFF_RUNNING;
  const absl::Status failed = absl::UnavailableError("no answer");
  LinkStates states;
  // It does not say which interfaces there are.
  states.TakeAll(failed, {Link("eth0", kUp)});
  states.TakeAll(absl::OkStatus(), {Link("eth0", kUp), Link("eth1", kUp)});
  EXPECT_EQ(Text(states.TakeAll(failed, {})), "");
  // What was read before the failure counts.
  EXPECT_EQ(Text(states.TakeAll(failed, {Link("eth0", 0)})),
            "interface eth0: up -> down");
  EXPECT_EQ(Text(states.Take({Link("eth1", 0)})), "interface eth1: up -> down");
}

// Those whose addresses no network plan uses.
TEST(LinkStates, InterfacesInsideTheMachineAreNotWatched) {
  constexpr uint32_t kUp = IFF_UP | IFF_RUNNING;
  const std::vector<std::string> inside = {"docker0",      "br-0123456789ab",
                                           "cali0123abcd", "lxc1234",
                                           "cni0",         "veth12ab34cd"};
  std::vector<NetworkLink> links = {Link("eth0", kUp, "veth"),
                                    Link("br-ex", kUp, "bridge")};
  for (const std::string& name : inside) links.push_back(Link(name, kUp));
  LinkStates states;
  states.TakeAll(absl::OkStatus(), links);
  EXPECT_EQ(Text(states.TakeAll(absl::OkStatus(), {})),
            "interface br-ex: up -> gone, interface eth0: up -> gone");
}

TEST(SpaceStates, Table) {
  constexpr uint64_t kMiB = 1 << 20;
  const struct {
    std::vector<uint64_t> free_mib;
    const char* expect;
  } kRows[] = {
      {{50, 20, 4, 3, 4}, "folder /a: 50 MiB free (50%) -> 4 MiB free (4%)"},
      // Low before the start.
      {{3, 2, 1}, ""},
      {{3, 2, 60}, "folder /a: 3 MiB free (3%) -> 60 MiB free (60%)"},
      {{3, 60, 2},
       "folder /a: 3 MiB free (3%) -> 60 MiB free (60%), "
       "folder /a: 60 MiB free (60%) -> 2 MiB free (2%)"},
  };
  for (const auto& row : kRows) {
    SpaceStates states("/a");
    std::vector<v1::FactChange> changes;
    for (const uint64_t free : row.free_mib) {
      if (const auto change = states.Take(free * kMiB, 100 * kMiB)) {
        changes.push_back(*change);
      }
    }
    EXPECT_EQ(Text(changes), row.expect);
  }
}

TEST(IsLowOnSpace, Table) {
  const struct {
    uint64_t free_bytes;
    uint64_t size_bytes;
    bool was_low;
    bool low;
  } kRows[] = {
      {64 << 20, 64 << 20, false, false},  // A small tmpfs.
      {3 << 20, 64 << 20, false, true},
      {4 * kGiB, 100 * kGiB, false, true},  // Less than 5%.
      {6 * kGiB, 100 * kGiB, false, false},
      {kGiB - 1, 10 * kGiB, false, true},  // Less than 1 GiB.
      {kGiB, 10 * kGiB, false, false},
      // It recovers at a fifth more.
      {kGiB + kGiB / 10, 10 * kGiB, true, true},
      {kGiB + kGiB / 5 + 1, 10 * kGiB, true, false},
      {0, 0, false, false},  // A file system without a size.
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(IsLowOnSpace(row.free_bytes, row.size_bytes, row.was_low),
              row.low)
        << row.free_bytes << " of " << row.size_bytes;
  }
  EXPECT_EQ(SpaceText(3 * kGiB, 100 * kGiB), "3 GiB free (3%)");
  EXPECT_EQ(SpaceText(0, 0), "0 B free (0%)");
}

TEST(FactLine, IsReadBackAndNothingElseIs) {
  const v1::FactChange change =
      MakeFactChange(v1::FACT_KIND_INTERFACE, "interface eth0", "up", "down");
  const auto read = ParseFactLine(FactLine(change));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->SerializeAsString(), change.SerializeAsString());
  for (const char* line : {"", "chatter", "////", "CgA="}) {
    EXPECT_FALSE(ParseFactLine(line).has_value()) << line;
  }
  // What is not watched any more is told from a change.
  EXPECT_EQ(ParseEndLine(EndLine("GPUs\nended")), "GPUs?ended");
  EXPECT_FALSE(ParseFactLine(EndLine("CgA=")).has_value());
  EXPECT_FALSE(ParseEndLine(FactLine(change)).has_value());
  // What the daemon would not admit.
  v1::FactChange none = change;
  none.set_count(0);
  EXPECT_FALSE(ParseFactLine(FactLine(none)).has_value());
  const v1::FactChange longest =
      MakeFactChange(v1::FACT_KIND_DISK_SPACE, std::string(9999, 'x'),
                     std::string(9999, 'y'), std::string(9999, '\n'));
  EXPECT_EQ(longest.subject().size(), Limits::fact_text_bytes_max);
  EXPECT_TRUE(ParseFactLine(FactLine(longest)).has_value());
  EXPECT_LT(FactLine(longest).size(), 4096u);  // PIPE_BUF
}

}  // namespace
}  // namespace rollcall
