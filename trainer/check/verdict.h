// Judge: turns a check's findings into a verdict.
//
// Pure. All ranks have the same findings and thresholds, so they get the same
// verdict.
#ifndef ROLLCALL_TRAINER_CHECK_VERDICT_H_
#define ROLLCALL_TRAINER_CHECK_VERDICT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/check/links.h"
#include "trainer/check/rows.h"
#include "trainer/check/thresholds.h"

namespace rollcall {

// An RDMA port of a node.
struct CheckedPort {
  std::string name;  // "mlx5_0:1"
  bool active = false;
  uint32_t rate_gbps = 0;  // Gigabits per second; 0: unknown.
};

// The part of a node's entry in the world that the verdict needs.
struct CheckedNode {
  std::string name;
  int first_rank = 0;
  int ranks = 0;
  std::vector<CheckedPort> ports;
  int gpus = 0;
};

// A set of a node's ports, by their places in CheckedNode::ports; ports after
// the first kUsedPortsMax are never left out.
inline constexpr size_t kUsedPortsMax = 64;
inline constexpr uint64_t kAllPortsUsed = ~uint64_t{0};

struct Findings {
  int ranks = 1;
  // By node rank, which is also the order of first ranks; empty: one rank
  // without an agent.
  std::vector<CheckedNode> nodes;
  // All nodes are on one machine, so no traffic uses its network.
  bool one_machine = true;
  std::vector<std::string> transports;  // By rank.
  // By rank: the ports of its node that NCCL may use there, see UsedPorts;
  // empty: all.
  std::vector<uint64_t> ports_used;
  std::vector<Row> rows;
  std::vector<LinkTime> links;
  // Why no links were measured; empty: they were measured, or there are none.
  std::string links_unmeasured;
};

enum class VerdictLevel {
  kOk = 0,
  kWarning = 10,
  kRetryable = 20,
  kFatal = 30
};
const char* NameOf(VerdictLevel level);

struct Verdict {
  VerdictLevel level = VerdictLevel::kOk;
  // One sentence each, the most severe first.
  std::vector<std::string> reasons;
};

Verdict Judge(const Findings& findings, const Thresholds& thresholds);

// The node that a rank runs on; null: it is not known.
const CheckedNode* NodeOf(const Findings& findings, int rank);
// A text such as "rank 2 on node-b".
std::string RankIn(const Findings& findings, int rank);
// A text such as "rank 1 on a - rank 2 on b".
std::string LinkIn(const Findings& findings, const LinkTime& link);

// The slowest link, and the median of similar links: links between nodes are
// compared only with each other, and so are links within a node. `link` is null
// if there is none.
struct SlowestLink {
  const LinkTime* link = nullptr;
  double median_us = 0;  // The median over all similar links.
  double times() const { return link->median_us / median_us; }
};
SlowestLink FindSlowest(const Findings& findings, bool between_nodes);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_VERDICT_H_
