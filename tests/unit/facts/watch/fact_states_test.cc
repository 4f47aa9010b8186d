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
  EXPECT_EQ(
      Text(states.Take({Link("lo", kUp | IFF_LOOPBACK), Link("eth0", kUp),
                        Link("eth1", IFF_UP), Link("veth9", kUp, "veth", 3),
                        Link("uplink", kUp, "veth")},
                       true)),
      "");
  EXPECT_EQ(Text(states.Take({Link("eth0", kUp)}, false)), "");
  EXPECT_EQ(Text(states.Take({Link("eth0", IFF_UP)}, false)),
            "interface eth0: up -> no carrier");
  EXPECT_EQ(Text(states.Take({Link("eth0", 0), Link("eth0", kUp)}, false)),
            "interface eth0: no carrier -> down, "
            "interface eth0: down -> up");
  EXPECT_EQ(Text(states.TakeGone({Link("eth1", 0), Link("veth9", 0)})),
            "interface eth1: no carrier -> gone");
  EXPECT_EQ(Text(states.TakeGone({Link("eth1", 0)})), "");
  // Interfaces that come later are not watched; one that comes back is.
  EXPECT_EQ(Text(states.Take({Link("new0", kUp)}, false)), "");
  EXPECT_EQ(Text(states.Take({Link("new0", 0), Link("eth1", kUp)}, false)),
            "interface eth1: gone -> up");
  // Events were lost: what the whole table lacks is gone.
  EXPECT_EQ(Text(states.Take({Link("eth0", kUp), Link("uplink", kUp)}, true)),
            "interface eth1: up -> gone");
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
