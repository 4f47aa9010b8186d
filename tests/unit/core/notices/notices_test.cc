#include "daemon/core/notices/notices.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "tests/unit/core/nodes.h"

namespace rollcall {
namespace {

using Members = std::map<uint32_t, std::string>;
using Names = std::vector<std::string>;

const absl::Time kStart = absl::UnixEpoch();
constexpr v1::NoticeKind kGrow = v1::NOTICE_KIND_GROW;
constexpr v1::NoticeKind kDrain = v1::NOTICE_KIND_DRAIN;
constexpr v1::NoticeKind kPreempt = v1::NOTICE_KIND_PREEMPT;

absl::Time AtMs(int ms) { return kStart + absl::Milliseconds(ms); }

bool IsHere(const std::string&) { return true; }

Names NodesOf(const v1::Notice& notice) {
  return {notice.nodes().begin(), notice.nodes().end()};
}

// Returns Notices in which a notice of this kind is pending. Nodes a, b and c
// have been told of it.
Notices Told(v1::NoticeKind kind, absl::Time until = absl::InfiniteFuture()) {
  Notices notices;
  EXPECT_TRUE(notices.Ask(kind, until, "why", false, kStart));
  notices.Tell(7, {{0, "a"}, {1, "b"}, {2, "c"}}, IsHere, kStart);
  return notices;
}

TEST(Notices, RequestsMakeOneNoticeWithTheGravestKindAndEarliestDeadline) {
  constexpr int kNone = std::numeric_limits<int>::max();
  struct Row {
    int at;
    v1::NoticeKind ask;
    int until;
    bool again;
    // The next fields are expected values.
    bool at_once;
    v1::NoticeKind kind;
    const char* reason;
    int deadline;
    int due;
  };
  const Row kRows[] = {
      {0, kGrow, kNone, false, true, kGrow, "r0", kNone, kNone},
      // A request of the same kind with no earlier deadline is added to the
      // notice, and sent later.
      {10, kGrow, kNone, false, false, kGrow, "r0; r1", kNone, 100},
      {100, kGrow, kNone, false, true, kGrow, "r0; r1; r2", kNone, 100},
      // A more serious kind replaces the notice.
      {110, kDrain, kNone, false, true, kDrain, "r3", kNone, 100},
      // A less serious kind changes nothing, and its reason is not sent.
      {120, kGrow, kNone, false, false, kDrain, "r3", kNone, 100},
      // An earlier deadline is sent at once.
      {130, kDrain, 9000, false, true, kDrain, "r3; r5", 9000, 100},
      {140, kDrain, 9000, false, false, kDrain, "r3; r5; r6", 9000, 100},
      // A node that asks repeatedly does not cause a message for each request.
      {150, kDrain, 8000, true, false, kDrain, "r3; r5; r6; r7", 8000, 100},
      {160, kPreempt, 9500, true, true, kPreempt, "r8", 8000, 100},
  };
  const auto at = [&](int ms) {
    return ms == kNone ? absl::InfiniteFuture() : AtMs(ms);
  };
  Notices notices;
  EXPECT_FALSE(notices.pending());
  uint64_t number = 0;
  for (size_t i = 0; i < std::size(kRows); ++i) {
    const Row& row = kRows[i];
    EXPECT_EQ(notices.Ask(row.ask, at(row.until), absl::StrCat("r", i),
                          row.again, AtMs(row.at)),
              row.at_once)
        << i;
    if (row.at_once) {
      EXPECT_EQ(notices.Tell(7, {{0, "a"}}, IsHere, AtMs(row.at)).notice(),
                ++number);
    }
    const v1::Notice notice = notices.Now(AtMs(row.at));
    EXPECT_EQ(notice.kind(), row.kind) << i;
    EXPECT_EQ(notice.reason(), row.reason) << i;
    EXPECT_EQ(notice.generation(), 7u) << i;
    EXPECT_EQ(notices.until(), at(row.deadline)) << i;
    EXPECT_EQ(notices.due(), at(row.due)) << i;
    EXPECT_EQ(notice.has_deadline(), row.deadline != kNone) << i;
    if (row.deadline == kNone) continue;
    EXPECT_EQ(FromProto(notice.deadline()),
              absl::Milliseconds(row.deadline - row.at))
        << i;
  }
}

TEST(Notices, ADeadlineThatHasPassedLeavesNoTime) {
  Notices notices = Told(kDrain, AtMs(500));
  EXPECT_EQ(FromProto(notices.Now(AtMs(900)).deadline()), absl::ZeroDuration());
}

TEST(Notices, TellNamesTheNodesThatLeaveAndAreHere) {
  Notices notices;
  for (const char* name : {"c", "a", "b"}) EXPECT_TRUE(notices.Leave(name));
  EXPECT_FALSE(notices.Leave("a"));
  EXPECT_EQ(notices.kind(), kDrain);
  notices.Ask(notices.kind(), AtMs(500), "why", false, kStart);
  const auto not_b = [](const std::string& name) { return name != "b"; };
  EXPECT_EQ(NodesOf(notices.Tell(7, {{0, "a"}}, not_b, kStart)),
            (Names{"a", "c"}));
  EXPECT_TRUE(notices.Forget("a"));
  EXPECT_FALSE(notices.Forget("a"));
  v1::End end;
  end.set_exit_code(75);
  notices.EndThen(end);
  EXPECT_EQ(notices.kind(), kPreempt);
  const v1::Notice& again = notices.Tell(7, {{0, "a"}}, IsHere, kStart);
  EXPECT_EQ(NodesOf(again), (Names{"b", "c"}));
  EXPECT_EQ(again.end().exit_code(), 75);
}

TEST(Notices, WhoLeavesIsJournaledAtOnceAndThenTogether) {
  Notices notices;
  notices.Leave("a");
  EXPECT_TRUE(notices.LeavingChanged(kStart));
  EXPECT_TRUE(notices.unwritten());
  EXPECT_EQ(NodesOf(notices.TakeRecord(kStart)), (Names{"a"}));
  EXPECT_FALSE(notices.unwritten());
  for (const int ms : {1, 99}) {
    notices.Leave(absl::StrCat("b", ms));
    EXPECT_FALSE(notices.LeavingChanged(AtMs(ms))) << ms;
    EXPECT_EQ(notices.due(), AtMs(100)) << ms;
    EXPECT_FALSE(notices.TakeDue(AtMs(ms)).journal) << ms;
  }
  const Notices::Due due = notices.TakeDue(AtMs(100));
  EXPECT_TRUE(due.journal);
  EXPECT_FALSE(due.tell);
  EXPECT_EQ(notices.due(), absl::InfiniteFuture());
  EXPECT_EQ(NodesOf(notices.TakeRecord(AtMs(100))), (Names{"a", "b1", "b99"}));
  notices.Forget("a");
  EXPECT_TRUE(notices.LeavingChanged(AtMs(200)));
}

// One timer covers two changes, so both are done when it ends.
TEST(Notices, WhatIsUnwrittenAndWhatIsUntoldAreDueTogether) {
  Notices notices = Told(kDrain, AtMs(500));
  notices.TakeRecord(AtMs(50));
  notices.Ask(kDrain, AtMs(500), "more", false, AtMs(60));
  notices.Leave("a");
  EXPECT_FALSE(notices.LeavingChanged(AtMs(70)));
  EXPECT_EQ(notices.due(), AtMs(100));
  const Notices::Due due = notices.TakeDue(AtMs(100));
  EXPECT_TRUE(due.journal);
  EXPECT_TRUE(due.tell);
}

TEST(Notices, WhatWasDoneAtOnceMeanwhileIsNotDueAgain) {
  Notices notices = Told(kDrain, AtMs(500));
  notices.TakeRecord(kStart);
  notices.Leave("a");
  EXPECT_FALSE(notices.LeavingChanged(AtMs(50)));
  EXPECT_FALSE(notices.Ask(kDrain, AtMs(500), "more", false, AtMs(60)));
  notices.TakeRecord(AtMs(70));
  EXPECT_TRUE(notices.Ask(kPreempt, AtMs(500), "most", false, AtMs(70)));
  notices.Tell(7, {{0, "a"}}, IsHere, AtMs(70));
  const Notices::Due due = notices.TakeDue(AtMs(100));
  EXPECT_FALSE(due.journal);
  EXPECT_FALSE(due.tell);
}

TEST(Notices, NothingIsToldOnceTheGenerationHasEnded) {
  Notices notices = Told(kDrain, AtMs(500));
  notices.Ask(kDrain, AtMs(500), "more", false, AtMs(60));
  notices.Leave("a");
  notices.TakeRecord(AtMs(60));
  notices.LeavingChanged(AtMs(70));
  notices.Drop();
  EXPECT_FALSE(notices.pending());
  EXPECT_EQ(notices.until(), absl::InfiniteFuture());
  EXPECT_EQ(notices.BoundaryEnds(/*isolated=*/false), absl::InfiniteFuture());
  EXPECT_TRUE(notices.Leaves("a"));
  const Notices::Due due = notices.TakeDue(AtMs(200));
  EXPECT_TRUE(due.journal);
  EXPECT_FALSE(due.tell);
  notices.LeavingChanged(AtMs(80));
  notices.DropAll();
  EXPECT_FALSE(notices.unwritten());
  EXPECT_EQ(notices.due(), absl::InfiniteFuture());
  EXPECT_TRUE(notices.Leaves("a"));
}

TEST(Notices, ARecordHasTheNumberAndTheEndThatTheNextDaemonContinuesWith) {
  Notices notices = Told(kDrain, AtMs(500));
  v1::End end;
  end.set_exit_code(75);
  end.set_code(v1::REASON_CODE_REQUEUE);
  end.set_reason("a\nleaves");
  notices.EndThen(end);
  v1::Notice record = notices.TakeRecord(kStart);
  EXPECT_EQ(record.notice(), 2u);

  Notices next;
  next.TakeUp(record);
  ASSERT_TRUE(next.end_then().has_value());
  EXPECT_EQ(next.end_then()->exit_code(), 75);
  EXPECT_EQ(next.end_then()->code(), v1::REASON_CODE_REQUEUE);
  EXPECT_EQ(next.end_then()->reason().find('\n'), std::string::npos);
  next.Ask(next.kind(), AtMs(500), "why", false, kStart);
  EXPECT_EQ(next.Tell(8, {{0, "a"}}, IsHere, kStart).notice(), 3u);

  record.set_notice(std::numeric_limits<uint64_t>::max());
  record.clear_end();
  Notices fresh;
  fresh.TakeUp(record);
  EXPECT_FALSE(fresh.end_then().has_value());
  EXPECT_EQ(fresh.TakeRecord(kStart).notice(), 1u);
}

TEST(Notices, AnAnswerToANoticeThatOnlyAnEarlierDaemonKnew) {
  using Answer = Notices::Answer;
  struct Row {
    bool pending;  // The notice has number 1.
    bool taken_up;
    uint64_t seen;
    int at;
    Answer answer;
    uint64_t next;  // The number of the next notice.
  };
  constexpr uint64_t kFar = uint64_t{1} << 32;
  const Row kRows[] = {
      {true, false, 1, 200, Answer::kReached, 2},
      {true, true, 1, 200, Answer::kReached, 2},
      {true, true, 0, 200, Answer::kNothing, 2},
      {true, false, 2, 200, Answer::kNothing, 2},
      {true, true, 2, 200, Answer::kTell, 3},
      {true, true, 9, 200, Answer::kTell, 10},
      // The agent was told a moment ago.
      {true, true, 9, 99, Answer::kNothing, 10},
      {true, true, kFar, 200, Answer::kTell, kFar + 1},
      {true, true, kFar + 1, 200, Answer::kNothing, 2},
      {false, false, 1, 200, Answer::kNothing, 1},
      {false, true, 5, 200, Answer::kAsk, 6},
      {false, true, 0, 200, Answer::kAsk, 1},
      {false, true, kFar, 200, Answer::kNothing, 1},
  };
  for (const Row& row : kRows) {
    Notices notices = row.pending ? Told(kGrow) : Notices();
    EXPECT_EQ(notices.Seen(row.seen, row.taken_up, AtMs(row.at)), row.answer)
        << row.seen << " " << row.pending << row.taken_up;
    EXPECT_EQ(notices.TakeRecord(kStart).notice(), row.next)
        << row.seen << " " << row.pending << row.taken_up;
  }
}

TEST(Notices, TheFirstMemberAtTheBoundaryBoundsTheWaitForTheOthers) {
  const Limits limits;
  Notices notices = Told(kGrow);
  EXPECT_EQ(notices.BoundaryEnds(/*isolated=*/false), absl::InfiniteFuture());
  EXPECT_FALSE(notices.Reached(1, AtMs(10), limits));
  const absl::Time until = AtMs(10) + limits.stop_grace + limits.lease;
  EXPECT_EQ(notices.until(), until);
  // The killed ranks are reported only after the deadline.
  EXPECT_EQ(notices.BoundaryEnds(/*isolated=*/false), until + absl::Seconds(1));
  EXPECT_FALSE(notices.Reached(1, AtMs(20), limits));
  EXPECT_FALSE(notices.Reached(0, AtMs(20), limits));
  EXPECT_EQ(notices.until(), until);
  EXPECT_TRUE(notices.Reached(2, AtMs(30), limits));
  EXPECT_FALSE(notices.Reached(2, AtMs(30), limits));
}

TEST(Notices, AMemberThatIsNotMissingBoundsNothing) {
  const Limits limits;
  Notices notices = Told(kGrow);
  EXPECT_FALSE(notices.Reached(3, AtMs(10), limits));
  EXPECT_EQ(notices.until(), absl::InfiniteFuture());
  notices.Drop();
  EXPECT_FALSE(notices.Reached(0, AtMs(10), limits));
  notices.Bound(AtMs(10), limits);
  EXPECT_EQ(notices.until(), absl::InfiniteFuture());
}

TEST(Notices, AllMembersReachANoticeThatHasChangedAgain) {
  const Limits limits;
  Notices notices = Told(kDrain, AtMs(500));
  EXPECT_FALSE(notices.Reached(0, AtMs(10), limits));
  EXPECT_FALSE(notices.Reached(1, AtMs(10), limits));
  EXPECT_TRUE(notices.Ask(kDrain, AtMs(400), "more", false, AtMs(20)));
  notices.Tell(7, {{0, "a"}, {2, "c"}}, IsHere, AtMs(20));
  EXPECT_EQ(notices.Seen(1, false, AtMs(30)), Notices::Answer::kNothing);
  EXPECT_EQ(notices.Seen(2, false, AtMs(30)), Notices::Answer::kReached);
  EXPECT_FALSE(notices.Reached(2, AtMs(30), limits));
  EXPECT_TRUE(notices.Reached(0, AtMs(30), limits));
}

TEST(Notices, TheBoundaryEndsTheGenerationOrTheJob) {
  struct Row {
    v1::NoticeKind kind;
    std::vector<std::string> leaving;
    bool end;
    v1::ReasonCode code;
    const char* node;
  };
  const Row kRows[] = {
      {kGrow, {}, false, v1::REASON_CODE_GROW, ""},
      {kGrow, {"b"}, false, v1::REASON_CODE_GROW, "b"},
      {kDrain, {"b", "c"}, false, v1::REASON_CODE_LEAVING, "b"},
      {kDrain, {}, false, v1::REASON_CODE_LEAVING, ""},
      {kPreempt, {"b"}, true, v1::REASON_CODE_UNSPECIFIED, ""},
  };
  for (const Row& row : kRows) {
    Notices notices;
    for (const std::string& name : row.leaving) notices.Leave(name);
    if (row.end) {
      v1::End end;
      end.set_exit_code(75);
      end.set_reason("the end");
      notices.EndThen(end);
    }
    notices.Ask(row.kind, AtMs(500), "why", false, kStart);
    notices.Tell(7, {}, IsHere, kStart);
    const Notices::Outcome outcome = notices.AtBoundary();
    EXPECT_EQ(outcome.end.has_value(), row.end) << row.kind;
    EXPECT_EQ(outcome.code, row.code) << row.kind;
    EXPECT_EQ(outcome.node, row.node) << row.kind;
    EXPECT_EQ(outcome.reason, row.end ? "" : "why") << row.kind;
    if (!row.end) continue;
    EXPECT_EQ(outcome.end->exit_code(), 75);
    EXPECT_EQ(outcome.end->reason(), "the end");
  }
}

TEST(Notices, TheReasonNamesWhoWasKilledAndWhoIsMissing) {
  struct Row {
    size_t killed;
    size_t missing;
    bool end;
    const char* text;
  };
  const Row kRows[] = {
      {0, 0, false, "why"},
      {2, 0, false,
       "why; killed, since the time to save was over: rank 0 on k0, rank 1 on "
       "k1 (--notice-time gives them more)"},
      {0, 1, false,
       "why; at no step boundary when the time to save was over: m0 "
       "(--notice-time gives them more)"},
      {1, 1, true,
       "the end; killed, since the time to save was over: rank 0 on k0; at no "
       "step boundary when the time to save was over: m0 (--notice-time gives "
       "them more)"},
      {0, 10, false,
       "why; at no step boundary when the time to save was over: m0, m1, m2, "
       "m3, m4, m5, m6, m7 and 2 more (--notice-time gives them more)"},
  };
  for (const Row& row : kRows) {
    Notices notices;
    if (row.end) {
      v1::End end;
      end.set_reason("the end");
      notices.EndThen(end);
    }
    notices.Ask(notices.kind(), AtMs(500), "why", false, kStart);
    Members missing;
    for (uint32_t i = 0; i < row.missing; ++i) {
      missing[i] = absl::StrCat("m", i);
    }
    notices.Tell(7, missing, IsHere, kStart);
    for (uint32_t i = 0; i < row.killed; ++i) {
      notices.Killed(i, absl::StrCat("k", i));
    }
    const Notices::Outcome outcome = notices.AtBoundary();
    EXPECT_EQ(row.end ? outcome.end->reason() : outcome.reason, row.text);
  }
}

TEST(Notices, ANodeThatLeavesDelaysTheOthersForALimitedTime) {
  struct Row {
    int asked_s;  // -1: not set.
    int notice_time_s;
    int deadline_s;
  };
  const Row kRows[] = {
      {-1, 15, 15},   {5, 15, 5},      {600, 15, 600},
      {601, 15, 600}, {601, 700, 601}, {-1, 700, 700},
  };
  for (const Row& row : kRows) {
    Limits limits;
    limits.notice_time = absl::Seconds(row.notice_time_s);
    v1::Leaving leaving;
    if (row.asked_s >= 0) leaving.mutable_deadline()->set_seconds(row.asked_s);
    EXPECT_EQ(LeavingDeadline(leaving, limits), absl::Seconds(row.deadline_s))
        << row.asked_s << " " << row.notice_time_s;
  }
}

TEST(Notices, TooFewNodesEndTheJobForRequeue) {
  Limits limits;
  limits.requeue_exit_code = 99;
  const v1::End end = RequeueEnd("b leaves: drained", 2, limits);
  EXPECT_FALSE(end.finished());
  EXPECT_EQ(end.exit_code(), 99);
  EXPECT_EQ(end.code(), v1::REASON_CODE_REQUEUE);
  EXPECT_EQ(end.reason(), "b leaves: drained; fewer than 2 nodes are left");
}

// a, b and c are members of the running world, which needs two; d is a spare.
TEST(Notices, ARequestToLeaveAsksTheRanksOrLetsTheNodeGo) {
  using Then = Notices::Request::Then;
  struct Row {
    const char* node;
    int at;
    int until;
    // The next fields are expected values.
    bool first;
    bool journal;
    Then then;
    bool ends;  // The job ends at the boundary.
  };
  const Row kRows[] = {
      {"a", 0, 5000, true, true, Then::kAsk, false},
      // b and c are left.
      {"d", 50, 5000, true, false, Then::kAtOnce, false},
      {"a", 60, 6000, false, false, Then::kNothing, false},
      {"a", 70, 4000, false, false, Then::kAsk, false},
      // Only c is left.
      {"b", 300, 9000, true, true, Then::kAsk, true},
  };
  Membership membership;
  for (const char* name : {"a", "b", "c"}) {
    AddMember(membership, name, *name - 'a');
  }
  AddNode(membership, "d");
  Notices notices;
  for (const Row& row : kRows) {
    const Node& node = membership.At(row.node);
    const Notices::Request request =
        notices.TakeRequest(node, node.member(), AtMs(row.until), "why",
                            membership, 2, Limits(), AtMs(row.at));
    EXPECT_EQ(request.first, row.first) << row.node << row.at;
    EXPECT_EQ(request.journal, row.journal) << row.node << row.at;
    EXPECT_EQ(request.then, row.then) << row.node << row.at;
    EXPECT_EQ(notices.end_then().has_value(), row.ends) << row.node << row.at;
    if (request.journal) notices.TakeRecord(AtMs(row.at));
    if (request.then == Then::kAsk) {
      notices.Ask(notices.kind(), AtMs(row.until), "why", !request.first,
                  AtMs(row.at));
    }
  }
}

TEST(Notices, NodesThatLeaveAreExcludedOrAwayAreNotLeft) {
  const struct {
    const char* what;
    std::function<void(Membership&, Notices&)> change;
    bool too_few;
  } kRows[] = {
      {"b and c are left", [](Membership&, Notices&) {}, false},
      {"b leaves", [](Membership&, Notices& n) { n.Leave("b"); }, true},
      {"b is excluded", [](Membership& m, Notices&) { m.Exclude(m.At("b")); },
       true},
      {"b is gone", [](Membership& m, Notices&) { m.Remove(m.At("b")); }, true},
      {"b may come back",
       [](Membership& m, Notices&) {
         m.Disconnect(m.At("b"));
         m.Suspect(m.At("b"));
       },
       false},
  };
  for (const auto& row : kRows) {
    Membership membership;
    for (const char* name : {"a", "b", "c"}) AddNode(membership, name);
    Notices notices;
    notices.Leave("a");
    row.change(membership, notices);
    EXPECT_EQ(notices.TooFewWithout("a", membership, 2), row.too_few)
        << row.what;
  }
}

TEST(Notices, WhileTheDaemonIsIsolatedABoundaryOnlyEndsTheJob) {
  const absl::Time until = kStart + absl::Seconds(5);
  Notices notices = Told(kDrain, until);
  EXPECT_EQ(notices.BoundaryEnds(/*isolated=*/true), absl::InfiniteFuture());
  EXPECT_EQ(notices.BoundaryEnds(/*isolated=*/false), until + absl::Seconds(1));
  notices.EndThen(v1::End());
  EXPECT_EQ(notices.BoundaryEnds(/*isolated=*/true), until + absl::Seconds(1));
}

}  // namespace
}  // namespace rollcall
