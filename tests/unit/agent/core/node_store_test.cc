#include "client/agent/core/node_store.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr uint64_t kGeneration = 4;

RankAsksStore Asks(uint64_t ticket, v1::StoreKind kind, const std::string& key,
                   const std::string& value = "") {
  RankAsksStore asks{kGeneration, ticket, {}};
  asks.operation.set_kind(kind);
  asks.operation.set_key(key);
  asks.operation.set_value(value);
  return asks;
}

v1::StoreOut Answers(uint64_t number, std::vector<uint64_t> operations) {
  v1::StoreOut out;
  out.set_generation(kGeneration);
  out.set_number(number);
  for (const uint64_t operation : operations) {
    v1::StoreAnswered& answered = *out.add_answered();
    answered.set_operation(operation);
    answered.mutable_result()->set_number(static_cast<int64_t>(operation));
  }
  return out;
}

v1::StoreOut Opens(uint64_t link) {
  v1::StoreOut out;
  out.set_generation(kGeneration);
  out.set_number(1);
  out.set_link(link);
  return out;
}

// Returns, for example, "ask 1 2 link 0 below 1; cancels 3; got 5; kept k all;
// ticket 7=2".
std::string Text(const NodeStore::Outcome& outcome) {
  std::vector<std::string> words;
  for (const v1::StoreIn& in : outcome.said) {
    std::string text;
    for (const v1::StoreAsked& asked : in.asked()) {
      absl::StrAppend(&text, text.empty() ? "ask " : " ", asked.operation());
    }
    for (const uint64_t operation : in.cancelled()) {
      absl::StrAppend(&text, "cancels ", operation);
    }
    for (const v1::StoreRecord& record : in.records()) {
      absl::StrAppend(&text, "kept ", record.key(), " ");
    }
    if (in.records_end()) text += "all";
    if (text.empty()) text = absl::StrCat("got ", in.received());
    words.push_back(absl::StrCat(text, in.link() == 0 ? "" : " link ",
                                 in.link() == 0 ? "" : absl::StrCat(in.link()),
                                 " below ", in.answered_below()));
  }
  for (const AnswerStore& answer : outcome.answers) {
    words.push_back(
        answer.result.code() != 0
            ? absl::StrCat("ticket ", answer.ticket, "!", answer.result.code())
            : absl::StrCat("ticket ", answer.ticket, "=",
                           answer.result.number()));
  }
  return absl::StrJoin(words, "; ");
}

TEST(NodeStore, ChangesOfOneKeyFollowEachOther) {
  NodeStore store;
  store.Begin(kGeneration);
  EXPECT_EQ(Text(store.Take(Asks(11, v1::STORE_KIND_ADD, "n"))),
            "ask 1 below 1");
  EXPECT_EQ(Text(store.Take(Asks(12, v1::STORE_KIND_ADD, "n"))), "");
  EXPECT_EQ(Text(store.Take(Asks(13, v1::STORE_KIND_CHECK, "n"))),
            "ask 2 below 1");
  EXPECT_EQ(Text(store.Take(Asks(14, v1::STORE_KIND_SET, "k"))),
            "ask 3 below 1");
  EXPECT_EQ(Text(store.Hear(Answers(1, {1}))), "ask 4 below 2; ticket 11=1");
  EXPECT_EQ(Text(store.Hear(Answers(2, {4, 2, 3}))),
            "ticket 12=4; ticket 13=2; ticket 14=3");
  // A repeated answer has no effect.
  EXPECT_EQ(Text(store.Hear(Answers(3, {4}))), "");
  EXPECT_EQ(Text(store.Take(Asks(15, v1::STORE_KIND_ADD, "n"))),
            "ask 5 below 5");
}

TEST(NodeStore, AKeyIsAwaitedOnceAndLateOnesGetTheNextAnswer) {
  NodeStore store;
  store.Begin(kGeneration);
  EXPECT_EQ(Text(store.Take(Asks(11, v1::STORE_KIND_GET, "k"))),
            "ask 1 below 2");
  EXPECT_EQ(Text(store.Take(Asks(12, v1::STORE_KIND_GET, "k"))), "");
  EXPECT_EQ(Text(store.Take(Asks(13, v1::STORE_KIND_GET, "k"))), "");
  EXPECT_EQ(Text(store.Take(Asks(14, v1::STORE_KIND_WAIT, "k"))),
            "ask 2 below 3");
  EXPECT_EQ(Text(store.Hear(Answers(1, {1}))), "ask 3 below 4; ticket 11=1");
  EXPECT_EQ(Text(store.Hear(Answers(2, {3, 2}))),
            "ticket 12=3; ticket 13=3; ticket 14=2");
}

TEST(NodeStore, CancelsWhatNobodyWaitsFor) {
  NodeStore store;
  store.Begin(kGeneration);
  store.Take(Asks(11, v1::STORE_KIND_GET, "k"));
  store.Take(Asks(12, v1::STORE_KIND_GET, "k"));
  store.Take(Asks(13, v1::STORE_KIND_ADD, "n"));
  EXPECT_EQ(Text(store.Cancel({11, 13, 99})), "");
  EXPECT_EQ(Text(store.Cancel({12})), "cancels 1 below 2");
  // The cancelled wait is under way until it is answered. Then the later rank's
  // wait is sent.
  EXPECT_EQ(Text(store.Take(Asks(14, v1::STORE_KIND_GET, "k"))), "");
  v1::StoreOut cancelled = Answers(1, {1, 2});
  cancelled.mutable_answered(0)->mutable_result()->set_code(1);
  EXPECT_EQ(Text(store.Hear(cancelled)), "ask 3 below 2; ticket 13=2");
  EXPECT_EQ(Text(store.Hear(Answers(2, {1, 3}))), "ticket 14=3");
}

TEST(NodeStore, DoesNotAskAgainWhatWasCancelled) {
  NodeStore store;
  store.Begin(kGeneration);
  store.Take(Asks(11, v1::STORE_KIND_GET, "k"));
  EXPECT_EQ(Text(store.Cancel({11})), "cancels 1 below 2");
  store.StreamEnded();
  EXPECT_EQ(Text(store.Hear(Opens(1))), "");
  EXPECT_EQ(Text(store.Take(Asks(12, v1::STORE_KIND_GET, "k"))),
            "ask 2 link 1 below 3");
}

TEST(NodeStore, AsksAgainOnceTheStoreOpens) {
  NodeStore store;
  store.Begin(kGeneration);
  store.Take(Asks(11, v1::STORE_KIND_ADD, "n"));
  store.Take(Asks(12, v1::STORE_KIND_GET, "k"));
  store.StreamEnded();
  EXPECT_EQ(Text(store.Take(Asks(13, v1::STORE_KIND_SET, "k"))), "");
  EXPECT_EQ(Text(store.Cancel({12})), "");
  EXPECT_EQ(Text(store.Hear(Opens(5))), "ask 1 3 link 5 below 1");
  EXPECT_EQ(Text(store.Hear(Answers(2, {1, 3}))), "ticket 11=1; ticket 13=3");
}

TEST(NodeStore, TellsWhatItKeeps) {
  NodeStore store;
  store.Begin(kGeneration);
  v1::StoreOut keep;
  keep.set_generation(kGeneration);
  keep.set_number(1);
  for (const char* const key : {"a", "b"}) {
    v1::StoreRecord& record = *keep.add_records();
    record.set_key(key);
    record.set_sequence(3);
    record.set_value("x");
  }
  EXPECT_EQ(Text(store.Hear(keep)), "got 1 below 1");
  store.StreamEnded();
  v1::StoreOut tell;
  tell.set_generation(kGeneration);
  tell.set_number(1);
  tell.set_report(true);
  EXPECT_EQ(Text(store.Hear(tell)), "kept a kept b all below 1");
  // No operation is sent before the store opens.
  EXPECT_EQ(Text(store.Take(Asks(11, v1::STORE_KIND_CHECK, "a"))), "");
  EXPECT_EQ(Text(store.Hear(Opens(1))), "ask 1 link 1 below 1");
  v1::StoreOut drop;
  drop.set_generation(kGeneration);
  drop.set_number(2);
  for (const uint64_t sequence : {2, 3}) {
    v1::StoreRecord& record = *drop.add_records();
    record.set_key(sequence == 2 ? "a" : "b");
    record.set_sequence(sequence);
    record.set_dropped(true);
  }
  EXPECT_EQ(Text(store.Hear(drop)), "got 2 link 1 below 1");
  EXPECT_EQ(store.records(), 1u);  // "a" was created again meanwhile.
}

TEST(NodeStore, HearsOfAWorldThatDoesNotRunHereYet) {
  NodeStore store;
  v1::StoreOut tell;
  tell.set_generation(kGeneration);
  tell.set_number(1);
  tell.set_report(true);
  EXPECT_EQ(Text(store.Hear(tell)), "");
  EXPECT_EQ(Text(store.Begin(kGeneration)), "all below 1");
  EXPECT_EQ(Text(store.Take(Asks(11, v1::STORE_KIND_CHECK, "a"))), "");
  EXPECT_EQ(Text(store.Hear(Opens(1))), "ask 1 link 1 below 1");
  // This message belongs to a world that has ended.
  store.End();
  store.Begin(kGeneration + 1);
  EXPECT_EQ(Text(store.Hear(Opens(9))), "");
}

TEST(NodeStore, BoundsWhatIsUnderWay) {
  NodeStore store;
  store.Begin(kGeneration);
  uint64_t ticket = 0;
  size_t said = 0;
  for (size_t i = 0; i < Limits::store_asked_per_node_max + 10; ++i) {
    said += store.Take(Asks(++ticket, v1::STORE_KIND_CHECK, "k")).said.size();
  }
  EXPECT_EQ(said, Limits::store_asked_per_node_max);
  EXPECT_EQ(Text(store.Hear(Answers(1, {1}))),
            absl::StrCat("ask ", Limits::store_asked_per_node_max + 1,
                         " below 2; ticket 1=1"));
  std::string last;
  size_t waits = 0;
  while (last.find('!') == std::string::npos) {
    ++ticket;
    last = Text(store.Take(
        Asks(ticket, v1::STORE_KIND_GET, absl::StrCat("w", ticket))));
    ++waits;
  }
  EXPECT_EQ(waits, Limits::store_waits_per_node_max + 1);
  EXPECT_EQ(last, absl::StrCat("ticket ", ticket, "!8"));
  const std::string large(Limits::store_value_bytes_max, 'x');
  size_t queued = 0;
  do {
    last = Text(store.Take(Asks(++ticket, v1::STORE_KIND_SET, "s", large)));
    ++queued;
  } while (last.find('!') == std::string::npos && queued < 100);
  EXPECT_EQ(queued, Limits::store_queue_bytes_max / large.size());
}

}  // namespace
}  // namespace rollcall
