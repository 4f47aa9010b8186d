#include "daemon/core/hangs/hang_verdict.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

constexpr uint64_t kHigh = uint64_t{1} << 40;
constexpr uint64_t kMax = UINT64_MAX;

struct Standing {
  int node = 0;
  // The numbers of the last collectives that the rank has entered and left.
  uint64_t entered = 0;
  uint64_t left = 0;
  // kPlain: the rank has published a step, and cannot be asked. kStarts: the
  // rank has neither linked nor published a step.
  enum What {
    kAnswers,
    kSilent,
    kStopped,
    // The rank answers, and NCCL reports that it is behind.
    kCountsAndBehind,
    // The rank answers, but does not know which collectives it has left.
    kBegun,
    // The rank answers but counts nothing, and NCCL reports that it is behind.
    kLinkedBehind,
    kPlain,
    // As kPlain, and NCCL reports that the rank is behind or waits.
    kBehind,
    kWaits,
    kStarts,
    kStartsStopped
  } what = kAnswers;
};

// Returns "behind 1", "too far 2", "only ahead 2", "several 1" or "not begun
// 0", where the number is the claim's index. "; not 2" follows if claim 2 is
// not believed.
std::string Judge(const std::vector<Standing>& ranks) {
  std::vector<v1::RankStalled> said(ranks.size());
  std::vector<HangClaim> claims;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Standing::What what = ranks[i].what;
    const bool plain = what == Standing::kPlain || what == Standing::kBehind ||
                       what == Standing::kWaits;
    said[i].set_step(plain ? 7 : 0);
    if (what == Standing::kBehind || what == Standing::kCountsAndBehind ||
        what == Standing::kLinkedBehind) {
      said[i].set_nccl(v1::NCCL_PLACE_BEHIND);
    }
    if (what == Standing::kWaits) said[i].set_nccl(v1::NCCL_PLACE_WAITS);
    if (what < Standing::kPlain) {
      said[i].set_answered(ranks[i].what != Standing::kSilent);
      if (what != Standing::kLinkedBehind) {
        said[i].set_collective_entered(ranks[i].entered);
      }
      if (what != Standing::kBegun && what != Standing::kLinkedBehind) {
        said[i].set_collective_left(ranks[i].left);
      }
    }
    said[i].set_stopped(what == Standing::kStopped ||
                        what == Standing::kStartsStopped);
    claims.push_back({ranks[i].node, i + 1, &said[i]});
  }
  const HangVerdict verdict = JudgeHang(claims);
  using Kind = HangVerdict::Kind;
  std::string text = verdict.kind == Kind::kBehind     ? "behind "
                     : verdict.kind == Kind::kTooFar   ? "too far "
                     : verdict.kind == Kind::kNotBegun ? "not begun "
                     : verdict.kind == Kind::kSeveralBehindInNccl
                         ? "several "
                         : "only ahead ";
  absl::StrAppend(&text, verdict.claim);
  if (verdict.disbelieved.has_value()) {
    absl::StrAppend(&text, "; not ", *verdict.disbelieved);
  }
  return text;
}

TEST(HangVerdict, WhoBeganIt) {
  using enum Standing::What;
  struct {
    const char* what;
    std::vector<Standing> ranks;
    const char* expect;
  } const kRows[] = {
      {"one", {{0, 7, 6}}, "behind 0"},
      {"two that differ: nobody can say who is right",
       {{0, kHigh, kHigh}, {1, 7, 6}},
       "behind 1"},
      {"two others are ahead", {{0, 7, 6}, {1, 6, 6}, {2, 7, 6}}, "behind 1"},
      {"the first of two behind two",
       {{0, 7, 6}, {1, 6, 6}, {2, 6, 6}, {3, 7, 6}},
       "behind 1"},
      {"the same collective, left or not",
       {{0, 7, 6}, {1, 7, 7}, {2, 7, 7}},
       "behind 0"},
      {"only one node is ahead",
       {{0, 7, 6}, {1, 7, 6}, {2, 8, 7}},
       "only ahead 2"},
      {"as far as is believed",
       {{0, 7, 6}, {1, 7, 6}, {2, 7 + 1024, 7}},
       "only ahead 2"},
      {"further than is believed",
       {{0, 7, 6}, {1, 7, 6}, {2, 7 + 1025, 7}},
       "too far 2; not 2"},
      {"the largest number, said first",
       {{2, kMax, kMax}, {0, 7, 6}, {1, 7, 6}},
       "too far 0; not 0"},
      {"all near the largest number",
       {{0, kMax, 0}, {1, kMax, 0}, {2, kMax - 1, 0}},
       "behind 2"},
      {"too far beside one that two others wait for",
       {{0, 7, 6}, {1, 7, 6}, {2, kHigh, kHigh}, {3, 6, 6}},
       "behind 3; not 2"},
      {"too far beside one that a single node is ahead of",
       {{0, 6, 6}, {1, 7, 6}, {2, kHigh, kHigh}},
       "too far 2; not 2"},
      {"too far beside a stopped one",
       {{0, 7, 6}, {1, 7, 6, kStopped}, {2, kHigh, kHigh}, {3, 7, 6}},
       "behind 1; not 2"},
      {"too far beside one that does not answer",
       {{0, 7, 6}, {1, 0, 0, kSilent}, {2, kHigh, kHigh}, {3, 7, 6}},
       "behind 1; not 2"},
      {"one far behind", {{0, 9000, 0}, {1, 9000, 0}, {2, 3, 3}}, "behind 2"},
      {"nobody counts, but one",
       {{0, 0, 0}, {1, 0, 0}, {2, 5, 4}},
       "only ahead 2"},
      {"one that cannot be asked is ahead of all",
       {{0, 7, 6}, {1, 7, 6}, {2, 0, 0, kPlain}},
       "only ahead 2"},
      {"none can be asked: the first",
       {{0, 0, 0, kPlain}, {1, 0, 0, kPlain}, {2, 0, 0, kPlain}},
       "behind 0"},
      {"none can be asked, and NCCL says who is behind",
       {{0, 0, 0, kWaits}, {1, 0, 0, kWaits}, {2, 0, 0, kBehind}},
       "behind 2"},
      {"the first of one node's that are behind for NCCL",
       {{0, 0, 0, kWaits}, {1, 0, 0, kBehind}, {1, 0, 0, kBehind}},
       "behind 1"},
      {"two nodes are behind for NCCL, and nothing tells them apart",
       {{0, 0, 0, kWaits}, {1, 0, 0, kBehind}, {2, 0, 0, kBehind}},
       "several 1"},
      {"NCCL does not know all",
       {{0, 0, 0, kPlain}, {1, 0, 0, kBehind}, {2, 0, 0, kWaits}},
       "behind 1"},
      {"who waits in NCCL is not to blame",
       {{0, 0, 0, kWaits}, {1, 0, 0, kWaits}, {2, 0, 0, kPlain}},
       "behind 2"},
      {"of two nodes one waits in NCCL",
       {{0, 0, 0, kWaits}, {1, 0, 0, kPlain}},
       "behind 1"},
      {"a single node that waits in NCCL clears only itself",
       {{0, 0, 0, kWaits}, {1, 0, 0, kPlain}, {2, 0, 0, kPlain}},
       "only ahead 0"},
      {"all wait in NCCL", {{0, 0, 0, kWaits}, {1, 0, 0, kWaits}}, "behind 0"},
      {"what a rank counts itself is preferred",
       {{0, 7, 6, kCountsAndBehind}, {1, 6, 6}, {2, 7, 6}},
       "behind 1"},
      {"who knows only what it has begun may be far ahead",
       {{0, kHigh, 0, kBegun}, {1, 6, 0, kBegun}, {2, kHigh, 0, kBegun}},
       "behind 1"},
      {"and is believed",
       {{0, 6, 0, kBegun}, {1, 6, 0, kBegun}, {2, kHigh, 0, kBegun}},
       "only ahead 2"},
      {"what was begun is compared with what was entered",
       {{0, 9, 0, kBegun}, {1, 9, 8}, {2, 8, 7}},
       "behind 2"},
      {"and what was begun last is taken to be entered",
       {{0, 9, 8}, {1, 9, 0, kBegun}},
       "behind 0"},
      {"those behind for NCCL need not be alike otherwise",
       {{0, 0, 0, kWaits}, {1, 0, 0, kBehind}, {2, 0, 0, kLinkedBehind}},
       "several 2"},
      {"a stopped one comes before one that is behind for NCCL",
       {{0, 7, 6, kStopped}, {1, 0, 0, kBehind}, {2, 0, 0, kWaits}},
       "behind 0"},
      {"a node counts once, however many ranks it has",
       {{0, 7, 6}, {1, 7, 6}, {2, kHigh, 0}, {2, kHigh, 0}, {2, kHigh, 0}},
       "too far 2; not 2"},
      {"and is ahead once",
       {{0, 7, 6}, {1, 7, 6}, {2, 8, 7}, {2, 8, 7}, {2, 8, 7}},
       "only ahead 2"},
      {"one node's ranks are ahead",
       {{0, 6, 6}, {0, 7, 7}, {1, 6, 5}, {2, 6, 5}},
       "only ahead 1"},
      {"against its own rank a node is believed",
       {{0, 6, 5}, {0, 7, 7}, {1, 6, 5}, {2, 6, 5}},
       "behind 0"},
      {"one that has not begun, alone", {{0, 0, 0, kStarts}}, "behind 0"},
      {"one has not begun, and others wait in their first collective",
       {{0, 1, 0}, {1, 0, 0, kStarts}, {2, 1, 0}},
       "behind 1"},
      {"one has not begun, and a single other node waits",
       {{0, 1, 0}, {1, 0, 0, kStarts}},
       "behind 1"},
      {"one has not begun beside some that count nothing, or cannot be asked",
       {{0, 0, 0}, {1, 0, 0, kPlain}, {2, 0, 0, kStarts}},
       "behind 2"},
      {"one that does not answer has linked, and so is further",
       {{0, 0, 0, kSilent}, {1, 0, 0, kStarts}, {2, 1, 0}},
       "behind 1"},
      {"a stopped one is first all the same",
       {{0, 0, 0, kStarts}, {1, 7, 6, kStopped}, {2, 0, 0, kStarts}},
       "behind 1"},
      {"a stopped one among those that have not begun",
       {{0, 0, 0, kStarts}, {1, 0, 0, kStartsStopped}, {2, 0, 0, kStarts}},
       "behind 1"},
      {"none has begun",
       {{0, 0, 0, kStarts}, {1, 0, 0, kStarts}, {2, 0, 0, kStarts}},
       "not begun 0"},
      {"none of one node has begun",
       {{0, 0, 0, kStarts}, {0, 0, 0, kStarts}},
       "not begun 0"},
      {"two nodes have not begun, and nothing tells them apart",
       {{0, 1, 0}, {1, 0, 0, kStarts}, {2, 0, 0, kStarts}},
       "not begun 1"},
      {"two ranks of one node have not begun, and others wait for that node",
       {{0, 1, 0}, {1, 0, 0, kStarts}, {1, 0, 0, kStarts}},
       "behind 1"},
      {"too far beside one that has not begun",
       {{0, 7, 6}, {1, 0, 0, kStarts}, {2, kHigh, kHigh}, {3, 7, 6}},
       "behind 1; not 2"},
      {"two nodes agree on what cannot be",
       {{0, 7, 6}, {1, kHigh, 0}, {2, kHigh, 0}},
       "behind 0"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Judge(row.ranks), row.expect) << row.what;
  }
}

}  // namespace
}  // namespace rollcall
