// The verdict for given findings, as tables.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trainer/check/used_ports.h"
#include "trainer/check/verdict.h"

namespace rollcall {
namespace {

// Nodes a, b, ... with `ranks` ranks each. All links take 10 us; an all-reduce
// of 1 MB has a bus bandwidth of 2 GB/s.
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
                   VerdictLevel level,
                   const std::vector<std::string>& says = {}) {
  const Verdict verdict = Judge(found, thresholds);
  std::string reasons;
  for (const std::string& reason : verdict.reasons) reasons += reason + "\n";
  EXPECT_EQ(verdict.level, level) << reasons;
  EXPECT_EQ(verdict.reasons.empty(), level == VerdictLevel::kOk) << reasons;
  for (const std::string& words : says) {
    EXPECT_NE(reasons.find(words), std::string::npos) << words << "\n"
                                                      << reasons;
  }
}

TEST(Verdict, RequiredNet) {
  constexpr auto kOk = VerdictLevel::kOk, kFatal = VerdictLevel::kFatal;
  const Thresholds none, any{"any", {}, {}, {}}, ib{"ib", {}, {}, {}},
      socket{"socket", {}, {}, {}};
  const Findings plain = Found(3, 1, "Socket");
  ExpectVerdict(plain, none, kOk);
  ExpectVerdict(plain, any, kOk);
  ExpectVerdict(plain, socket, kOk);
  ExpectVerdict(plain, ib, kFatal, {"rank 0 on a uses Socket", "required: ib"});

  const Findings fast = Found(3, 1, "IB");
  ExpectVerdict(fast, none, kOk);
  ExpectVerdict(fast, ib, kOk);
  ExpectVerdict(fast, socket, kFatal, {"rank 0 on a uses IB"});

  // One node with InfiniBand, or with a GPU, used TCP.
  for (const bool gpu : {false, true}) {
    Findings fell = Found(3, 1, "Socket");
    if (gpu) {
      fell.nodes[1].gpus = 8;
    } else {
      fell.nodes[1].ports = {{"mlx5_0:1", true, 400}, {"mlx5_1:1", false, 0}};
    }
    ExpectVerdict(fell, none, kFatal,
                  {"rank 1 on b fell back to TCP",
                   gpu ? "NCCL_DEBUG=INFO" : "mlx5_0:1, mlx5_1:1 (not active)",
                   "--require-net socket"});
    ExpectVerdict(fell, any, kOk);
    ExpectVerdict(fell, socket, kOk);
    ExpectVerdict(fell, ib, kFatal);
    // On one machine, no data leaves the machine.
    fell.one_machine = true;
    ExpectVerdict(fell, none, kOk);
    ExpectVerdict(fell, ib, kFatal);
  }
  Findings mixed = Found(3, 1, "IB");
  mixed.transports[2] = "Socket";
  ExpectVerdict(mixed, ib, kFatal, {"rank 2 on c"});
}

// Only networks are judged. What a rank uses within its node does not matter.
TEST(Verdict, NetsOfTransports) {
  const struct {
    const char* transport;  // Of rank 1; the other ranks meet the requirement.
    const char* others;
    const char* required;
    VerdictLevel level;
  } kRows[] = {
      {"IB/GDRDMA+P2P", "IB", "ib", VerdictLevel::kOk},
      {"IB+IB/GDRDMA+NVLS+SHM", "IB", "ib", VerdictLevel::kOk},
      {"P2P", "IB", "ib", VerdictLevel::kOk},
      {"NVLS+P2P", "Socket", "socket", VerdictLevel::kOk},
      {"IB+Socket", "IB", "ib", VerdictLevel::kFatal},
      {"Socket+P2P", "IB", "ib", VerdictLevel::kFatal},
      {"AWS Libfabric/GDRDMA+P2P", "Libfabric", "efa", VerdictLevel::kOk},
      {"Socket", "Libfabric", "efa", VerdictLevel::kFatal},
      {"IBext_v8/GDRDMA", "IBext_v8", "ibext_v8", VerdictLevel::kOk},
      {"IBext_v8/GDRDMA+P2P", "IB", "ib", VerdictLevel::kOk},
      {"IB", "IBext_v8", "ibext_v8", VerdictLevel::kFatal},
      {"CollNet+IB", "IB", "ib", VerdictLevel::kOk},
      {"NCCL", "IB", "ib", VerdictLevel::kFatal},
      {"NCCL", "NCCL", "any", VerdictLevel::kOk},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.transport);
    Findings found = Found(3, 1, row.others);
    found.transports[1] = row.transport;
    ExpectVerdict(
        found, {row.required, {}, {}, {}}, row.level,
        row.level == VerdictLevel::kOk
            ? std::vector<std::string>{}
            : std::vector<std::string>{"rank 1 on b uses ", row.required});
  }
  // A fallback to TCP is reported, whatever else the rank uses.
  Findings fell = Found(2, 1, "Socket+P2P");
  fell.nodes[0].gpus = 8;
  ExpectVerdict(fell, {}, VerdictLevel::kFatal, {"rank 0 on a fell back"});
  Findings unknown = Found(2, 1, "NCCL");
  ExpectVerdict(unknown, {"ib", {}, {}, {}}, VerdictLevel::kFatal,
                {"unset NCCL_DEBUG"});
  ExpectVerdict(
      unknown, {}, VerdictLevel::kWarning,
      {"the network of rank 0 on a is not known", "unset NCCL_DEBUG"});
  unknown.one_machine = true;
  ExpectVerdict(unknown, {}, VerdictLevel::kOk);
}

TEST(Verdict, BandwidthAndLatency) {
  const Findings found = Found(3, 1, "Socket");
  ExpectVerdict(found, {{}, 1.9, {}, {}}, VerdictLevel::kOk);
  ExpectVerdict(found, {{}, 2.1, {}, {}}, VerdictLevel::kFatal,
                {"1000000 bytes", "2 GB/s", "2.1"});
  ExpectVerdict(found, {{}, {}, 10, {}}, VerdictLevel::kOk);
  ExpectVerdict(found, {{}, {}, 9, {}}, VerdictLevel::kFatal,
                {"3 of 3 links take over 9 us"});
  Findings slow = found;
  slow.links[1].median_us = 25;
  ExpectVerdict(
      slow, {{}, {}, 20, {}}, VerdictLevel::kFatal,
      {"1 of 3 links takes over", "rank 1 on b - rank 2 on c (25.0 us)"});
  Findings unmeasured = found;
  unmeasured.links.clear();
  unmeasured.links_unmeasured = "no way back";
  ExpectVerdict(unmeasured, {}, VerdictLevel::kOk);
  ExpectVerdict(unmeasured, {{}, {}, 20, {}}, VerdictLevel::kFatal,
                {"no way back"});
}

TEST(Verdict, UsedPorts) {
  const std::vector<CheckedPort> ports = {{"mlx5_0:1", true, 400},
                                          {"mlx5_1:1", true, 400},
                                          {"mlx5_1:2", true, 100},
                                          {"bnxt_re0:1", false, 25}};
  const struct {
    const char* list;
    uint64_t used;  // Of the four.
  } kRows[] = {
      {"", 0b1111},           {"mlx5", 0b0111},
      {"mlx5_1", 0b0110},     {"=mlx5_0:1,mlx5_1:1", 0b0011},
      {"=mlx5_1", 0b0110},    {"^mlx5_1", 0b1001},
      {"^=mlx5_1:2", 0b1011}, {"=mlx5", 0b0000},
      {"none", 0b0000},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(UsedPorts(ports, row.list) & 0b1111, row.used) << row.list;
  }
  // Ports for which there is no bit are never left out.
  const std::vector<CheckedPort> many(kUsedPortsMax + 1, {"p:1", true, 1});
  EXPECT_EQ(UsedPorts(many, "q"), 0u);
  EXPECT_EQ(UsedPorts({}, "q"), kAllPortsUsed);
}

// Each of two nodes with two ranks has a fast port p and a slow one, q, by
// which 2 GB/s would be good.
TEST(Verdict, OnlyUsedPortsCount) {
  constexpr uint64_t kP = 1, kQ = 2, kNone = 0;
  const struct {
    const char* what;
    std::vector<uint64_t> used;  // By rank.
    VerdictLevel level;
  } kRows[] = {
      {"not known: all", {}, VerdictLevel::kOk},
      {"all", {kP | kQ, kP | kQ, kP | kQ, kP | kQ}, VerdictLevel::kOk},
      {"the fast ones", {kP, kP, kP, kP}, VerdictLevel::kWarning},
      {"one rank uses a slow one", {kP, kP, kP, kQ}, VerdictLevel::kOk},
      {"and so does the first", {kQ, kP, kP, kP}, VerdictLevel::kOk},
      {"only the second node names ports",
       {kP | kQ, kP | kQ, kP, kP},
       VerdictLevel::kOk},
      {"the slow ones", {kQ, kQ, kQ, kQ}, VerdictLevel::kOk},
      {"no port that is in the table",
       {kNone, kNone, kNone, kNone},
       VerdictLevel::kOk},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.what);
    Findings found = Found(2, 2, "IB");
    for (CheckedNode& node : found.nodes) {
      node.ports = {{"p", true, 400}, {"q", true, 50}};
    }
    found.ports_used = row.used;
    Row& largest = found.rows.back();
    constexpr size_t kBytes = 128 << 20;
    largest.size = {kBytes, kBytes / 4};
    largest.time_us = kBytes / 2e3 * BusFactor(largest.kind, found.ranks);
    ExpectVerdict(found, {}, row.level,
                  row.level == VerdictLevel::kWarning
                      ? std::vector<std::string>{"of p on a"}
                      : std::vector<std::string>{});
  }
  // A port behind the last bit counts.
  Findings wide = Found(2, 1, "IB");
  for (CheckedNode& node : wide.nodes) {
    node.ports.assign(kUsedPortsMax, {"p", false, 0});
    node.ports.push_back({"q", true, 400});
  }
  wide.ports_used = {kNone, kNone};
  Row& largest = wide.rows.back();
  largest.size = {128 << 20, 32 << 20};
  largest.time_us = (128 << 20) / 2e3 * BusFactor(largest.kind, wide.ranks);
  ExpectVerdict(wide, {}, VerdictLevel::kWarning, {"of q on a"});
}

// The bus bandwidth is 2 GB/s, a quarter of 64 Gb/s.
TEST(Verdict, PortRates) {
  constexpr auto kOk = VerdictLevel::kOk, kWarning = VerdictLevel::kWarning,
                 kFatal = VerdictLevel::kFatal;
  constexpr size_t kLarge = 128 << 20;
  const Thresholds none, low{{}, 0.1, {}, {}}, high{{}, 10, {}, {}};
  const struct {
    const char* what;
    const char* transport;
    std::vector<CheckedPort> ports;  // Of the second node.
    size_t bytes;
    bool one_machine;
    Thresholds thresholds;
    VerdictLevel level;
  } kRows[] = {
      {"fast enough", "IB", {{"p", true, 64}}, kLarge, false, none, kOk},
      {"slow", "IB", {{"p", true, 65}}, kLarge, false, none, kWarning},
      {"slow by RoCE from GPUs",
       "IB/GDRDMA+P2P",
       {{"p", true, 400}},
       kLarge,
       false,
       none,
       kWarning},
      {"by NVIDIA's plugin",
       "IBext_v8",
       {{"p", true, 400}},
       kLarge,
       false,
       none,
       kWarning},
      {"the slowest port counts",
       "IB",
       {{"q", true, 400}, {"p", true, 50}},
       kLarge,
       false,
       none,
       kOk},
      {"of those that are active",
       "IB",
       {{"q", false, 50}, {"p", true, 400}},
       kLarge,
       false,
       none,
       kWarning},
      {"and have a known rate",
       "IB",
       {{"q", true, 0}, {"p", true, 400}},
       kLarge,
       false,
       none,
       kWarning},
      {"no rate", "IB", {{"p", true, 0}}, kLarge, false, none, kOk},
      {"no port", "IB", {}, kLarge, false, none, kOk},
      {"latencies", "IB", {{"p", true, 400}}, kLarge - 4, false, none, kOk},
      {"one machine", "IB", {{"p", true, 400}}, kLarge, true, none, kOk},
      {"other network",
       "Slingshot",
       {{"p", true, 9}},
       kLarge,
       false,
       none,
       kOk},
      {"a partial one",
       "IB+Slingshot",
       {{"p", true, 400}},
       kLarge,
       false,
       none,
       kOk},
      {"no network", "P2P", {{"p", true, 400}}, kLarge, false, none, kOk},
      {"required", "IB", {{"p", true, 400}}, kLarge, false, low, kOk},
      {"and missed", "IB", {{"p", true, 65}}, kLarge, false, high, kFatal},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.what);
    Findings found = Found(3, 1, row.transport);
    found.one_machine = row.one_machine;
    found.nodes[0].ports = {{"r", true, 800}};
    if (row.ports.empty()) found.nodes[0].ports.clear();
    if (row.ports.size() == 1 && row.ports[0].rate_gbps == 0) {
      found.nodes[0].ports[0].active = false;
    }
    found.nodes[1].ports = row.ports;
    Row& largest = found.rows.back();
    largest.size = {row.bytes, row.bytes / 4};
    largest.time_us = row.bytes / 2e3 * BusFactor(largest.kind, found.ranks);
    ExpectVerdict(
        found, row.thresholds, row.level,
        row.level == kWarning
            ? std::vector<std::string>{"2 GB/s", "of p on b", "--min-busbw"}
            : std::vector<std::string>{});
  }
  // TCP is not held against an InfiniBand port; see RequiredNet.
  Findings tcp = Found(3, 1, "Socket");
  tcp.rows.back().size = {kLarge, kLarge / 4};
  tcp.nodes[1].ports = {{"p", true, 400}};
  ExpectVerdict(tcp, {"socket", {}, {}, {}}, kOk);
}

TEST(Verdict, OutlierLinks) {
  constexpr auto kWarning = VerdictLevel::kWarning;
  Findings found = Found(4, 1, "Socket");
  found.links[2].median_us = 39;
  ExpectVerdict(found, {}, VerdictLevel::kOk);
  found.links[2].median_us = 41;
  ExpectVerdict(found, {}, kWarning, {"rank 2 on c - rank 3 on d (41.0 us)"});
  ExpectVerdict(found, {{}, {}, {}, 5}, VerdictLevel::kOk);
  // Both slow links end at one node, so the node is named.
  found.links[1].median_us = 45;
  ExpectVerdict(found, {}, kWarning, {"look at c, its cable"});
  // A few microseconds are scheduling noise.
  Findings quick = Found(4, 1, "IB");
  for (LinkTime& link : quick.links) link.median_us = 2;
  quick.links[0].median_us = 20;
  ExpectVerdict(quick, {}, VerdictLevel::kOk);
  quick.links[0].median_us = 23;
  ExpectVerdict(quick, {}, kWarning, {"rank 0 on a - rank 1 on b"});
  // Links within a node are not compared with links between nodes.
  Findings wide = Found(3, 8, "IB");
  for (const int between : {7, 15, 23}) wide.links[between].median_us = 100;
  ExpectVerdict(wide, {}, VerdictLevel::kOk);
  wide.links[15].median_us = 500;
  ExpectVerdict(wide, {}, kWarning,
                {"between nodes", "rank 15 on b - rank 16 on c"});
  wide.links[15].median_us = 100;
  wide.links[4].median_us = 99;
  ExpectVerdict(wide, {}, kWarning, {"within nodes", "rank 4 on a - rank 5"});
}

TEST(Verdict, WrongResultsAndOneRank) {
  Findings found = Found(2, 1, "Socket");
  found.links[0].median_us = 1000;
  found.rows[1].wrong = {{1, {3, 77, 5, -1}}};
  const Verdict verdict = Judge(found, {});
  EXPECT_EQ(verdict.level, VerdictLevel::kFatal);
  ExpectVerdict(found, {}, VerdictLevel::kFatal,
                {"all_reduce of 1000000 bytes", "3 wrong elements",
                 "rank 1 on b: element 77 is -1, expected 5"});

  Findings alone = Found(1, 1, "single");
  ExpectVerdict(alone, {}, VerdictLevel::kOk);
  ExpectVerdict(alone, {"any", {}, {}, {}}, VerdictLevel::kOk);
  ExpectVerdict(alone, {"socket", {}, {}, {}}, VerdictLevel::kFatal);
  ExpectVerdict(alone, {{}, 1, {}, {}}, VerdictLevel::kFatal);
  ExpectVerdict(alone, {{}, {}, 1, {}}, VerdictLevel::kFatal);
}

}  // namespace
}  // namespace rollcall
