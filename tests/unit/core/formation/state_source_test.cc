#include "daemon/core/formation/state_source.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/core/nodes.h"

namespace rollcall {
namespace {

// Returns "source 1; not 0 2". The numbers are the claims' indices.
std::string Choose(const std::vector<StateClaim>& claims) {
  const StateChoice choice = ChooseStateSource(claims);
  std::string text = choice.source.has_value()
                         ? absl::StrCat("source ", *choice.source)
                         : "none";
  for (const size_t at : choice.disbelieved) {
    absl::StrAppend(&text, "; not ", at);
  }
  return text;
}

TEST(StateSource, IsTheHighestStepThatFitsTheOthers) {
  constexpr uint64_t kMax = ~uint64_t{0};
  using enum StateClaim::From;
  struct {
    const char* what;
    std::vector<StateClaim> claims;
    const char* expect;
  } const kRows[] = {
      {"nobody", {}, "none"},
      {"one", {{5, kEnded}}, "source 0"},
      {"the lower seat of equals", {{5, kEnded}, {5, kEnded}}, "source 0"},
      {"two that differ: nobody can say",
       {{5, kEnded}, {900, kEnded}},
       "source 1"},
      {"three, one step apart",
       {{5, kEnded}, {6, kEnded}, {5, kEnded}},
       "source 1"},
      {"three, one far above",
       {{5, kEnded}, {900, kEnded}, {6, kEnded}},
       "source 2; not 1"},
      {"two steps above is too far",
       {{5, kEnded}, {7, kEnded}, {5, kEnded}},
       "source 0; not 1"},
      {"the largest number",
       {{5, kEnded}, {5, kEnded}, {kMax, kEnded}},
       "source 0; not 2"},
      {"all at the largest",
       {{kMax, kEnded}, {kMax, kEnded}, {kMax, kEnded}},
       "source 0"},
      {"one far behind is no harm",
       {{0, kEnded}, {900, kEnded}, {901, kEnded}},
       "source 2"},
      {"four: the lower middle",
       {{5, kEnded}, {5, kEnded}, {7, kEnded}, {7, kEnded}},
       "source 0; not 2; not 3"},
      {"a newcomer beside a member",
       {{5, kEnded}, {900, kNewcomer}},
       "source 0; not 1"},
      {"newcomers make no median",
       {{5, kEnded}, {900, kNewcomer}, {900, kNewcomer}, {900, kNewcomer}},
       "source 0; not 1; not 2; not 3"},
      {"newcomers alone", {{5, kNewcomer}, {900, kNewcomer}}, "source 1"},
      {"one of the ended world, three behind it of earlier ones",
       {{47, kEarlier}, {49, kEnded}, {47, kEarlier}, {47, kEarlier}},
       "source 1"},
      {"one of an earlier world, far above the ended one",
       {{5, kEnded}, {5, kEnded}, {5, kEnded}, {900, kEarlier}},
       "source 0; not 3"},
      {"one of an earlier world, and too few of the ended one",
       {{5, kEnded}, {5, kEnded}, {9, kEarlier}},
       "source 2"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Choose(row.claims), row.expect) << row.what;
  }
}

struct Holder {
  std::string node;
  // The completed step of local rank 1; no value: no rank holds the state.
  std::optional<uint64_t> step;
  uint64_t served_in = 0;
};

// Returns "rank 3 step 7; not b c by the median". Each node has two ranks.
std::string ChooseIn(const std::vector<Holder>& holders,
                     const Generations& generations) {
  v1::World world;
  Membership membership;
  for (const Holder& holder : holders) {
    v1::Member& member = *world.add_members();
    member.set_node(holder.node);
    member.set_ranks(2);
    member.set_first_rank(2 * static_cast<uint32_t>(world.members_size() - 1));
    Node& node = AddMember(membership, holder.node, world.members_size() - 1);
    node.served_in = holder.served_in;
    if (!holder.step.has_value()) continue;
    node.ranks.state_held.emplace().set_completed_step(*holder.step);
    node.ranks.state_held->set_local_rank(1);
  }
  const SourceChoice choice = ChooseSource(world, membership, generations);
  std::string text = choice.source.has_value()
                         ? absl::StrCat("rank ", choice.source->rank(),
                                        " step ", choice.source->step())
                         : "none";
  if (!choice.doubts.empty()) text += "; not";
  for (const SourceChoice::Doubt& doubt : choice.doubts) {
    const bool far = doubt.text.find(" median ") != std::string::npos;
    absl::StrAppend(&text, " ", doubt.node, far ? " by the median" : "");
    EXPECT_NE(doubt.text.find(doubt.node), std::string::npos) << doubt.text;
  }
  return text;
}

// Generations 1 to `ran` have run, and the next one is proposed.
Generations After(uint64_t ran) {
  Generations generations;
  for (uint64_t i = 0; i < ran; ++i) {
    generations.Next();
    generations.Committed();
  }
  generations.Next();
  return generations;
}

TEST(StateSource, IsARankOfTheNodeWithTheChosenClaim) {
  const Generations after_2 = After(2);
  // The run continues from its journal, so no world is known to have run.
  const Generations restored(3);
  struct {
    const char* what;
    std::vector<Holder> holders;
    Generations generations;
    const char* expect;
  } const kRows[] = {
      {"no rank holds the state",
       {{"a", {}, 2}, {"b", {}, 2}},
       after_2,
       "none"},
      {"node rank 0", {{"a", 7, 2}, {"b", 7, 2}}, after_2, "rank 1 step 7"},
      {"node ranks without the state are skipped",
       {{"a", {}, 2}, {"b", {}, 2}, {"c", 7, 2}},
       after_2,
       "rank 5 step 7"},
      {"step 0", {{"a", 0, 2}}, after_2, "rank 1 step 0"},
      {"a newcomer",
       {{"a", 7, 2}, {"b", 900, 0}},
       after_2,
       "rank 1 step 7; not b"},
      {"newcomers before any world",
       {{"a", 7, 0}, {"b", 900, 0}},
       After(0),
       "rank 3 step 900"},
      {"the claim that is not believed has another index than its node",
       {{"a", {}, 2}, {"b", 900, 2}, {"c", 5, 2}, {"d", 5, 2}},
       after_2,
       "rank 5 step 5; not b by the median"},
      {"of an earlier world: it makes no median",
       {{"a", 5, 2}, {"b", 5, 2}, {"c", 900, 1}},
       after_2,
       "rank 5 step 900"},
      {"of an earlier world, above a median",
       {{"a", 5, 2}, {"b", 5, 2}, {"c", 5, 2}, {"d", 900, 1}},
       after_2,
       "rank 1 step 5; not d by the median"},
      {"the daemon cannot know which nodes were in a world",
       {{"a", 5, 0}, {"b", 5, 0}, {"c", 900, 0}},
       restored,
       "rank 5 step 900"},
      {"the same, beside one that was",
       {{"a", 5, 2}, {"b", 900, 0}},
       restored,
       "rank 3 step 900"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(ChooseIn(row.holders, row.generations), row.expect) << row.what;
  }
}

TEST(StateSource, NamesAFewOfTheClaimsThatAreNotBelieved) {
  std::vector<Holder> holders = {{"a", 7, 1}};
  for (int i = 0; i < 12; ++i) holders.push_back({absl::StrCat("n", i), 9});
  EXPECT_EQ(ChooseIn(holders, After(1)),
            "rank 1 step 7; not n0 n1 n2 n3 n4 n5 n6 n7");
}

}  // namespace
}  // namespace rollcall
