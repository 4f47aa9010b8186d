#include "daemon/core/network_plan/probes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "tests/unit/core/network_plan/probes_fixture.h"

namespace rollcall {
namespace {

TEST_F(ProbesTest, ARoundIsOpenedForPairsThatWereNotProbed) {
  EXPECT_FALSE(Open("a", 0).open);
  // Two nodes on one machine do not probe each other.
  membership_.At("b").hello.mutable_facts()->set_boot_id("a");
  EXPECT_FALSE(Open("ab", 0).open);
  membership_.At("b").hello.mutable_facts()->set_boot_id("b");
  Probes without_key;
  EXPECT_FALSE(without_key
                   .Open(Plan("ab"), Probing::Pairs::kUnknown, true,
                         membership_, At(0), limits_)
                   .open);
  EXPECT_FALSE(probes_.UnderWay(At(0)));
  Probes::Round round = Open("ab", 0);
  EXPECT_TRUE(round.open);
  ASSERT_EQ(round.asked.size(), 2u);
  // The timeout is shorter than the round, so that reports arrive before the
  // round ends.
  EXPECT_EQ(round.asked[0].second.timeout().seconds(), 1);
  EXPECT_EQ(round.asked[0].second.timeout().nanos(), 500000000);
  EXPECT_TRUE(probes_.UnderWay(At(1)));
  EXPECT_EQ(probes_.UnderWayUntil(At(1)), At(2));
  // An open round is waited for, so a second one does not open.
  round = Open("abc", 1);
  EXPECT_TRUE(round.open);
  EXPECT_TRUE(round.asked.empty());
  EXPECT_TRUE(Answer("a", 1));
  EXPECT_TRUE(Answer("b", 1));
  EXPECT_FALSE(probes_.UnderWay(At(1)));
  round = Open("ab", 1);
  EXPECT_FALSE(round.open);
  EXPECT_TRUE(round.asked.empty());
  round = Open("ab", 1, Probing::Pairs::kAll);
  EXPECT_TRUE(round.open);
  EXPECT_EQ(round.asked.size(), 2u);
  EXPECT_FALSE(Answer("c", 1));
  probes_.Clear();
  EXPECT_EQ(probes_.Of("a"), nullptr);
  EXPECT_FALSE(probes_.UnderWay(At(1)));
}

// One-to-one address translation: the node sees connections to that address
// arrive at another address.
TEST_F(ProbesTest, AnAddressThatNoInterfaceHasIsTranslated) {
  for (const bool on_interface : {true, false}) {
    Begin();
    v1::Facts& facts = *membership_.At("b").hello.mutable_facts();
    facts.set_advertised_address("192.0.2.1");
    if (on_interface) {
      facts.mutable_interfaces(0)->add_addresses()->set_address("192.0.2.1");
    }
    Open("ab", 0);
    v1::Probed probed;
    probed.set_probe(asked_["a"].probe());
    v1::ProbeResult& result = *probed.add_results();
    result.set_node("b");
    result.set_address("192.0.2.1");
    result.set_answer(AnswerAt(asked_["b"], "10.0.0.2"));
    probes_.Take(membership_.At("a"), probed, false, membership_, At(0),
                 limits_);
    EXPECT_EQ(probes_.Of("b")->at("a").found.at("192.0.2.1").reached,
              !on_interface);
  }
}

TEST_F(ProbesTest, AReportCountsAndItsNodeMayHaveASeatAgain) {
  const absl::Time never = absl::InfiniteFuture();
  const absl::Time past = absl::InfinitePast();
  struct {
    const char* what;
    const char* node;
    double at;  // The round ends at 2.
    bool running;
    int members;  // c is a member if this is 3.
    bool excluded;
    bool others;  // The others have reported already.
    bool taken;
    absl::Time due;
    absl::Time held_until;
    bool known;
  } const kRows[] = {
      {"in time", "c", 1, false, 0, false, true, true, never, past, true},
      {"while a world runs: the last one", "c", 1, true, 2, false, true, true,
       At(1), past, true},
      {"while a world runs: others are missing", "c", 1, true, 2, false, false,
       true, never, past, true},
      {"late", "c", 3, false, 0, false, true, true, never, At(33), false},
      {"late, of a member", "c", 3, false, 3, false, true, true, never, past,
       false},
      {"late, of an excluded node", "c", 3, false, 0, true, true, true, never,
       past, false},
      {"late, while a world runs", "c", 3, true, 2, false, true, true, At(3),
       At(4), true},
      {"late, of a member of the running world", "c", 3, true, 3, false, true,
       true, At(3), past, true},
      {"late, of an excluded node while a world runs", "c", 3, true, 2, true,
       true, true, At(3), past, true},
      {"of a node that was not asked", "d", 1, false, 0, false, true, false,
       never, past, false},
  };
  for (const auto& row : kRows) {
    Begin(row.members);
    Open("abc", 0, Probing::Pairs::kUnknown, false);
    if (row.others) {
      Answer("a", 0.5);
      Answer("b", 0.5);
    }
    Node& node = membership_.At(row.node);
    node.reason = "it is silent";
    if (row.excluded) membership_.Exclude(node);
    EXPECT_EQ(Answer(row.node, row.at, row.running), row.taken) << row.what;
    EXPECT_EQ(probes_.due(), row.due) << row.what;
    EXPECT_EQ(probes_.HeldUntil(row.node), row.held_until) << row.what;
    EXPECT_EQ(Knows(row.node, "a"), row.known) << row.what;
    EXPECT_EQ(node.reason.empty(), row.taken && !row.known) << row.what;
    EXPECT_FALSE(probes_.IsSilent(row.node, At(9))) << row.what;
  }
  // A report of an earlier round does not answer this one.
  Begin();
  Open("ab", 0);
  asked_["a"].set_probe(77);
  EXPECT_FALSE(Answer("a", 1));
  EXPECT_TRUE(probes_.Awaits("a"));
  EXPECT_FALSE(Answer("a", 3));
  // But the node that sent it is no longer silent.
  Begin();
  Open("abc", 0);
  Open("ab", 3, Probing::Pairs::kAll);
  EXPECT_TRUE(probes_.IsSilent("c", At(3)));
  EXPECT_TRUE(Answer("c", 3));
  EXPECT_FALSE(probes_.IsSilent("c", At(3)));
}

TEST_F(ProbesTest, AWorldThatCannotBePlannedIsProbedAgain) {
  struct {
    const char* what;
    bool probed;
    size_t needed;  // Of the pairs of four nodes; c is to be probed again.
    uint64_t served_in;
    bool repeats;
  } const kRows[] = {
      {"the first world", true, 0, 0, true},
      {"without results", false, 0, 0, false},
      {"enough others are there", true, 3, 0, false},
      {"too few others are there", true, 4, 0, true},
      {"enough others are there, and it was in a world", true, 3, 1, true},
  };
  for (const auto& row : kRows) {
    Begin();
    if (row.probed) ProbeAll("abcd", 0);
    membership_.At("c").served_in = row.served_in;
    EXPECT_EQ(probes_.MayRepeat({"c"}, row.needed, membership_, At(5)),
              row.repeats)
        << row.what;
    EXPECT_EQ(probes_.UnderWay(At(5)), row.repeats) << row.what;
    EXPECT_EQ(Knows("a", "c"), row.probed && !row.repeats) << row.what;
    if (!row.repeats) continue;
    // The round is repeated after a pause.
    EXPECT_EQ(probes_.UnderWayUntil(At(5)), At(6)) << row.what;
    EXPECT_FALSE(probes_.UnderWay(At(6))) << row.what;
  }
  // There are at most three rounds.
  for (const bool clear : {false, true}) {
    Begin();
    for (int round = 1; round <= 3; ++round) {
      ProbeAll("abcd", 0);
      EXPECT_EQ(probes_.MayRepeat({"c"}, 0, membership_, At(5)), round < 3)
          << round;
    }
    if (clear) {
      probes_.Clear();
      ProbeAll("abcd", 0);
    } else {
      probes_.Reset();
    }
    EXPECT_TRUE(probes_.MayRepeat({"c"}, 0, membership_, At(5)));
  }
}

TEST_F(ProbesTest, NodesThatDoNotAnswerMayHaveNoSeat) {
  Open("abc", 0);
  Answer("a", 1);
  EXPECT_EQ(probes_.Able(membership_, At(1)), 4u);
  EXPECT_EQ(probes_.WaitingText(),
            "probing addresses; no answer yet from b, c");
  EXPECT_FALSE(probes_.IsSilent("b", At(1)));
  EXPECT_EQ(probes_.Able(membership_, At(2)), 2u);
  EXPECT_TRUE(probes_.IsSilent("b", At(2)));
  // Excluded nodes and those without a stream are not counted twice.
  membership_.Exclude(membership_.At("b"));
  EXPECT_EQ(probes_.Able(membership_, At(2)), 2u);
  membership_.Disconnect(membership_.At("c"));
  EXPECT_EQ(probes_.Able(membership_, At(2)), 2u);
  Answer("b", 3);
  Answer("c", 3);
  EXPECT_EQ(probes_.WaitingText(), "");
}

TEST_F(ProbesTest, AHeldNodeIsProbedAgainAfterItsDelay) {
  const absl::Time never = absl::InfiniteFuture();
  struct {
    const char* what;
    double at;
    double sooner;
    bool running;
    bool expires;
    absl::Time held_until;
    absl::Time due;
  } const kRows[] = {
      {"before", 29.9, 0, false, false, At(30), never},
      {"for the next world", 30, 0, false, true, absl::InfinitePast(), never},
      {"while a world runs", 30, 0, true, true, never, At(30)},
      {"sooner", 5, 25, false, true, absl::InfinitePast(), never},
      {"before that", 4.9, 25, false, false, At(30), never},
  };
  for (const auto& row : kRows) {
    Begin();
    ProbeAll("abc", 0);
    probes_.Hold(membership_.At("c"), membership_, At(0), limits_);
    EXPECT_EQ(probes_.NextExpiry(), At(30));
    const std::vector<std::string> expired =
        probes_.Expire(absl::Seconds(row.sooner), row.running, At(row.at));
    EXPECT_EQ(absl::StrJoin(expired, ""), row.expires ? "c" : "") << row.what;
    EXPECT_EQ(probes_.HeldUntil("c"), row.held_until) << row.what;
    EXPECT_EQ(probes_.due(), row.due) << row.what;
    EXPECT_EQ(Knows("a", "c"), !row.expires) << row.what;
    EXPECT_TRUE(Knows("a", "b")) << row.what;
  }
  Begin();
  membership_.Exclude(membership_.At("c"));
  probes_.Hold(membership_.At("c"), membership_, At(0), limits_);
  EXPECT_EQ(probes_.held(), 0u);
}

TEST_F(ProbesTest, NodesThatCameAfterTheRoundAreTakenInLater) {
  struct {
    const char* what;
    const char* round;
    bool gathering;
    double attended;  // When node a attended; the round opened at 1.
    size_t needed;
    const char* expect;
  } const kRows[] = {
      {"enough are in the round", "ab", true, 0, 2, "ab"},
      {"too few are in the round", "ab", true, 0, 3, "abc"},
      {"one has attended again", "ab", true, 1.5, 1, "b"},
      {"while a world ran", "ab", false, 0, 1, "abc"},
  };
  for (const auto& row : kRows) {
    Begin();
    membership_.At("a").attended_at = At(row.attended);
    Open(row.round, 1, Probing::Pairs::kUnknown, row.gathering);
    std::string kept;
    for (const Candidate& candidate : probes_.WithoutLatecomers(
             {{"a"}, {"b"}, {"c"}}, row.needed, membership_)) {
      kept += candidate.node;
    }
    EXPECT_EQ(kept, row.expect) << row.what;
  }
}

TEST_F(ProbesTest, ABrokenStreamLosesTheRequestOrTheReport) {
  const absl::Time never = absl::InfiniteFuture();
  const absl::Time past = absl::InfinitePast();
  struct {
    const char* what;
    double at;      // All pairs are probed again from 10 to 12.
    bool answered;  // This node has already answered.
    bool others;    // The others have answered.
    bool running;
    int members;  // c is a member if this is 3.
    bool known;   // The results of the previous round are known.
    absl::Time held_until;
    absl::Time due;
  } const kRows[] = {
      {"it has answered", 11, true, true, true, 2, true, past, never},
      {"it is awaited", 11, false, true, false, 0, false, past, never},
      {"it is silent", 13, false, true, false, 0, false, At(43), never},
      {"it is awaited while a world runs", 11, false, true, true, 2, false,
       At(41), At(11)},
      {"it is silent while a world runs", 13, false, true, true, 2, false,
       At(43), At(13)},
      {"others are awaited as well", 11, false, false, true, 2, false, At(41),
       never},
      {"a member is awaited", 11, false, true, true, 3, true, past, At(11)},
      {"a member is silent", 13, false, true, true, 3, true, past, At(13)},
      {"a former member is awaited", 11, false, true, false, 3, false, past,
       never},
  };
  for (const bool moves : {false, true}) {
    for (const auto& row : kRows) {
      Begin(row.members);
      ProbeAll("abc", 0);
      Open("abc", 10, Probing::Pairs::kAll, false);
      if (row.others) {
        Answer("a", 10.5);
        Answer("b", 10.5);
      }
      if (row.answered) Answer("c", 10.5);
      if (moves) {
        probes_.Moved(membership_.At("c"), row.running, membership_, At(row.at),
                      limits_);
      } else {
        probes_.StreamBroke(membership_.At("c"), row.running, membership_,
                            At(row.at), limits_);
      }
      EXPECT_FALSE(probes_.Awaits("c")) << row.what;
      EXPECT_FALSE(probes_.IsSilent("c", At(99))) << row.what;
      // Results for previous addresses do not count.
      EXPECT_EQ(Knows("c", "a"), row.known && !moves) << row.what;
      EXPECT_EQ(Knows("a", "c"), row.known && !moves) << row.what;
      EXPECT_EQ(probes_.HeldUntil("c"), row.held_until) << row.what;
      EXPECT_EQ(probes_.due(), row.due) << row.what;
    }
  }
}

TEST_F(ProbesTest, ANewcomerIsProbedAtOnceIfNoOtherIsWaitedFor) {
  for (const bool fills : {true, false}) {
    Begin(2);
    probes_.Newcomer("c", fills, At(1), limits_);
    EXPECT_EQ(probes_.due(), fills ? At(1) : At(1) + limits_.arrivals_pause);
    EXPECT_EQ(probes_.HeldUntil("c"), absl::InfiniteFuture());
    probes_.Forget("c");
    EXPECT_EQ(probes_.HeldUntil("c"), absl::InfinitePast());
  }
}

TEST_F(ProbesTest, ARoundWaitsForTheOneBeforeAndForSuspects) {
  struct {
    const char* what;
    bool open;    // The round lasts from 0 to 2.
    int suspect;  // The suspect's seat; -1: a spare; -2: no suspect.
    double grace;
    absl::Time due;  // Asked at 1; InfinitePast: the round may open now.
  } const kRows[] = {
      {"neither", false, -2, 1, absl::InfinitePast()},
      {"a round is open", true, -2, 1, At(2)},
      {"a suspect has a seat", false, 0, 3, At(4)},
      {"a short grace", false, 0, 0.1, At(2)},
      {"a suspect has no seat", false, -1, 1, absl::InfinitePast()},
  };
  for (const auto& row : kRows) {
    Begin();
    limits_.reconnect_grace = absl::Seconds(row.grace);
    if (row.open) Open("ab", 0, Probing::Pairs::kUnknown, false);
    if (row.suspect > -2) {
      Node& node = membership_.At("d");
      node.seat = row.suspect;
      membership_.Disconnect(node);
      membership_.Suspect(node);
    }
    probes_.Newcomer("c", true, At(0), limits_);
    const bool may = row.due == absl::InfinitePast();
    EXPECT_EQ(probes_.MayOpen(membership_, At(1), limits_), may) << row.what;
    EXPECT_EQ(probes_.due(), may ? At(0) : row.due) << row.what;
  }
}

TEST_F(ProbesTest, ARoundWaitsForSuspectsForSoLong) {
  Begin();
  limits_.reconnect_grace = absl::Seconds(1);
  Node& node = membership_.At("d");
  node.seat = 0;
  membership_.Disconnect(node);
  membership_.Suspect(node);
  for (int round = 0; round < 2; ++round) {
    const int begun = 100 * round;
    probes_.Newcomer("c", true, At(begun), limits_);
    int second = 0;
    while (!probes_.MayOpen(membership_, At(begun + second), limits_)) {
      ASSERT_LT(++second, 100);
      EXPECT_EQ(probes_.due(), At(begun + second));
    }
    EXPECT_EQ(second, 60) << "arrivals_wait_max";
  }
}

}  // namespace
}  // namespace rollcall
