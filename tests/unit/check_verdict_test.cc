// What findings come to, as tables.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trainer/check/verdict.h"

namespace rollcall {
namespace {

// Nodes a, b, ... of so many ranks each, whose links take 10 us, and an
// all-reduce of 1 MB with a bus bandwidth of 2 GB/s.
Findings Found(int nodes, int ranks_each, const std::string& transport) {
  Findings found;
  found.ranks = nodes * ranks_each;
  found.one_machine = false;
  for (int i = 0; i < nodes; ++i) {
    found.nodes.push_back(
        {std::string(1, 'a' + i), i * ranks_each, ranks_each, {}, 0});
  }
  found.transports.assign(found.ranks, transport);
  if (found.ranks > 1) {
    for (int i = 0; i < found.ranks; ++i) found.links.push_back({i, 10, 20});
  }
  for (const size_t bytes : {size_t{8}, size_t{1'000'000}}) {
    Row row;
    row.size = {bytes, bytes / 4};
    row.time_us = bytes / 2e3 * BusFactor(row.kind, found.ranks);
    found.rows.push_back(row);
  }
  return found;
}

void ExpectVerdict(const Findings& found, const Thresholds& thresholds,
                   Gravity gravity, const std::vector<std::string>& says = {}) {
  const Verdict verdict = Judge(found, thresholds);
  std::string reasons;
  for (const std::string& reason : verdict.reasons) reasons += reason + "\n";
  EXPECT_EQ(verdict.gravity, gravity) << reasons;
  EXPECT_EQ(verdict.reasons.empty(), gravity == Gravity::kOk) << reasons;
  for (const std::string& words : says) {
    EXPECT_NE(reasons.find(words), std::string::npos) << words << "\n"
                                                      << reasons;
  }
}

TEST(Verdict, TheNetThatIsUsed) {
  constexpr auto kOk = Gravity::kOk, kFatal = Gravity::kFatal;
  const Thresholds none, any{RequiredNet::kAny, {}, {}, {}},
      ib{RequiredNet::kInfiniband, {}, {}, {}},
      socket{RequiredNet::kSocket, {}, {}, {}};
  const Findings plain = Found(3, 1, "Socket");
  ExpectVerdict(plain, none, kOk);
  ExpectVerdict(plain, any, kOk);
  ExpectVerdict(plain, socket, kOk);
  ExpectVerdict(plain, ib, kFatal, {"rank 0 on a uses Socket", "IB"});

  const Findings fast = Found(3, 1, "IB");
  ExpectVerdict(fast, none, kOk);
  ExpectVerdict(fast, ib, kOk);
  ExpectVerdict(fast, socket, kFatal, {"rank 0 on a uses IB"});

  // One node with InfiniBand, or a GPU, that went over TCP.
  for (const bool gpu : {false, true}) {
    Findings fell = Found(3, 1, "Socket");
    if (gpu) {
      fell.nodes[1].gpus = 8;
    } else {
      fell.nodes[1].ports = {"mlx5_0:1 (ACTIVE)", "mlx5_1:1 (DOWN)"};
    }
    ExpectVerdict(fell, none, kFatal,
                  {"rank 1 on b fell back to TCP",
                   gpu ? "NCCL_DEBUG=INFO" : "mlx5_0:1 (ACTIVE), mlx5_1:1",
                   "--require-net socket"});
    ExpectVerdict(fell, any, kOk);
    ExpectVerdict(fell, socket, kOk);
    ExpectVerdict(fell, ib, kFatal);
    // Nothing leaves the machine.
    fell.one_machine = true;
    ExpectVerdict(fell, none, kOk);
    ExpectVerdict(fell, ib, kFatal);
  }
  Findings mixed = Found(3, 1, "IB");
  mixed.transports[2] = "Socket";
  ExpectVerdict(mixed, ib, kFatal, {"rank 2 on c"});
}

TEST(Verdict, BandwidthAndLatency) {
  const Findings found = Found(3, 1, "Socket");
  ExpectVerdict(found, {{}, 1.9, {}, {}}, Gravity::kOk);
  ExpectVerdict(found, {{}, 2.1, {}, {}}, Gravity::kFatal,
                {"1000000 bytes", "2 GB/s", "2.1"});
  ExpectVerdict(found, {{}, {}, 10, {}}, Gravity::kOk);
  ExpectVerdict(found, {{}, {}, 9, {}}, Gravity::kFatal,
                {"3 of 3 links take over 9 us"});
  Findings slow = found;
  slow.links[1].median_us = 25;
  ExpectVerdict(slow, {{}, {}, 20, {}}, Gravity::kFatal,
                {"1 of 3 links", "rank 1 on b - rank 2 on c (25.0 us)"});
  Findings unmeasured = found;
  unmeasured.links.clear();
  unmeasured.links_unmeasured = "no way back";
  ExpectVerdict(unmeasured, {}, Gravity::kOk);
  ExpectVerdict(unmeasured, {{}, {}, 20, {}}, Gravity::kFatal, {"no way back"});
}

TEST(Verdict, LinksThatStandOut) {
  constexpr auto kWarning = Gravity::kWarning;
  Findings found = Found(4, 1, "Socket");
  found.links[2].median_us = 39;
  ExpectVerdict(found, {}, Gravity::kOk);
  found.links[2].median_us = 41;
  ExpectVerdict(found, {}, kWarning, {"rank 2 on c - rank 3 on d (41.0 us)"});
  ExpectVerdict(found, {{}, {}, {}, 5}, Gravity::kOk);
  // Both links of one node: it is the node.
  found.links[1].median_us = 45;
  ExpectVerdict(found, {}, kWarning, {"look at c, its cable"});
  // Microseconds apart: a scheduler's whim.
  Findings quick = Found(4, 1, "IB");
  for (LinkTime& link : quick.links) link.median_us = 2;
  quick.links[0].median_us = 20;
  ExpectVerdict(quick, {}, Gravity::kOk);
  quick.links[0].median_us = 23;
  ExpectVerdict(quick, {}, kWarning, {"rank 0 on a - rank 1 on b"});
  // Links within a node are no measure for those between nodes.
  Findings wide = Found(3, 8, "IB");
  for (const int between : {7, 15, 23}) wide.links[between].median_us = 100;
  ExpectVerdict(wide, {}, Gravity::kOk);
  wide.links[15].median_us = 500;
  ExpectVerdict(wide, {}, kWarning,
                {"between nodes", "rank 15 on b - rank 16 on c"});
  wide.links[15].median_us = 100;
  wide.links[4].median_us = 99;
  ExpectVerdict(wide, {}, kWarning, {"within nodes", "rank 4 on a - rank 5"});
}

TEST(Verdict, WrongResultsAndBeingAlone) {
  Findings found = Found(2, 1, "Socket");
  found.links[0].median_us = 1000;
  found.rows[1].wrong = {{1, {3, 77, 5, -1}}};
  const Verdict verdict = Judge(found, {});
  EXPECT_EQ(verdict.gravity, Gravity::kFatal);
  ExpectVerdict(found, {}, Gravity::kFatal,
                {"all_reduce of 1000000 bytes", "3 wrong elements",
                 "rank 1 on b: element 77 is -1, expected 5"});

  Findings alone = Found(1, 1, "single");
  ExpectVerdict(alone, {}, Gravity::kOk);
  ExpectVerdict(alone, {RequiredNet::kAny, {}, {}, {}}, Gravity::kOk);
  ExpectVerdict(alone, {RequiredNet::kSocket, {}, {}, {}}, Gravity::kFatal);
  ExpectVerdict(alone, {{}, 1, {}, {}}, Gravity::kFatal);
  ExpectVerdict(alone, {{}, {}, 1, {}}, Gravity::kFatal);
}

}  // namespace
}  // namespace rollcall
