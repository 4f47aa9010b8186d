// Judge: what a check's findings come to.
//
// Pure. All ranks have the same findings and thresholds, and so one verdict.
#ifndef ROLLCALL_TRAINER_CHECK_VERDICT_H_
#define ROLLCALL_TRAINER_CHECK_VERDICT_H_

#include <string>
#include <vector>

#include "trainer/check/links.h"
#include "trainer/check/rows.h"
#include "trainer/check/thresholds.h"

namespace rollcall {

// A node's row of the world, as far as the verdict asks.
struct CheckedNode {
  std::string name;
  int first_rank = 0;
  int ranks = 0;
  std::vector<std::string> ports;  // "mlx5_0:1 (4: ACTIVE)"
  int gpus = 0;
};

struct Findings {
  int ranks = 1;
  // By node rank, and so by first rank; empty: alone without an agent.
  std::vector<CheckedNode> nodes;
  // All nodes are one machine, whose network nothing leaves.
  bool one_machine = true;
  std::vector<std::string> transports;  // By rank.
  std::vector<Row> rows;
  std::vector<LinkTime> links;
  // Why there are no links to judge; empty: there are, or none is.
  std::string links_unmeasured;
};

enum class Gravity { kOk = 0, kWarning = 10, kRetryable = 20, kFatal = 30 };
const char* NameOf(Gravity gravity);

struct Verdict {
  Gravity gravity = Gravity::kOk;
  // A sentence each, the gravest first.
  std::vector<std::string> reasons;
};

Verdict Judge(const Findings& findings, const Thresholds& thresholds);

// The node that a rank runs on, null where that is not known.
const CheckedNode* NodeOf(const Findings& findings, int rank);
// "rank 2 on node-b".
std::string RankIn(const Findings& findings, int rank);
// "rank 1 on a - rank 2 on b".
std::string LinkIn(const Findings& findings, const LinkTime& link);

// The slowest link, and how it is beside its like: links between nodes are not
// compared with those within one. Null `link`: there is none.
struct SlowestLink {
  const LinkTime* link = nullptr;
  double median_us = 0;  // Of all of its like.
  double times() const { return link->median_us / median_us; }
};
SlowestLink FindSlowest(const Findings& findings, bool between_nodes);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_VERDICT_H_
