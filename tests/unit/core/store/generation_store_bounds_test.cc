// The bounds of a generation's store, and what its agents may not do.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"
#include "tests/unit/core/store/generation_store_fixture.h"

namespace rollcall {
namespace {

TEST_F(StoreTest, ANumberThatAnAgentMakesUpCostsNobodyElse) {
  store_.Restore(kGeneration, 3);
  for (const uint32_t node : {0u, 1u, 2u}) {
    Attend(node);
    v1::StoreIn in = In(node);
    v1::StoreRecord& record = *in.add_records();
    record.set_key(node == 0 ? "mine" : "k");
    record.set_sequence(node == 0 ? ~uint64_t{0} : node);
    record.set_value(absl::StrCat(node));
    in.set_records_end(true);
    EXPECT_TRUE(store_.Hear(node, in).ok());
  }
  EXPECT_EQ(Sent(), "0: open 1 keep mine#3=0; 1: open 1 drop k#1; 2: open 1");
  EXPECT_EQ(Ask(1, 1, Get("k")), "1: 1:0'2'");
  EXPECT_EQ(Ask(1, 2, Set("next", "x")), "1: keep next#4=x 2:0");
}

TEST_F(StoreTest, ReplacedValuesThatAnswersHoldHaveABound) {
  const std::string large(Limits::store_value_bytes_max, 'x');
  uint64_t operation = 0;
  std::string last;
  // Node 0 confirms nothing, so the answers to node 1 keep all values.
  Ask(0, ++operation, Set("k", large));
  size_t changes = 0;
  while (last.find("!14") == std::string::npos && changes < 1000) {
    EXPECT_EQ(Ask(1, ++operation, Get("k")), "");
    last = Ask(0, ++operation, Set("k", large));
    ++changes;
  }
  EXPECT_EQ(changes, Limits::store_bytes_max / large.size() + 2);
  Attend(1);  // The answers to node 1 are dropped.
  EXPECT_EQ(Ask(0, ++operation, Set("k", "x")), "");
}

TEST_F(StoreTest, AWaitDoesNotKeepRemovedKeys) {
  confirms_ = true;
  EXPECT_EQ(Ask(0, 1, Get("never")), "");
  uint64_t operation = 1;
  for (int i = 0; i < 1000; ++i) {
    Ask(0, ++operation, Set(absl::StrCat("k", i), "x"));
    below_[0] = operation + 1;
    Ask(0, ++operation, Delete(absl::StrCat("k", i)));
    below_[0] = operation + 1;
  }
  Ask(0, ++operation, Check("k"));
  EXPECT_EQ(store_.bytes(), 0u);
}

TEST_F(StoreTest, BoundsNameWhatIsFull) {
  const std::string large(Limits::store_value_bytes_max, 'x');
  uint64_t operation = 0;
  size_t taken = 0;
  std::string last;
  do {
    ++operation;
    last = Ask(0, operation, Set(absl::StrCat("k", operation), large));
    ++taken;
    Confirm(0);
  } while (last.find('!') == std::string::npos);
  EXPECT_EQ(last, absl::StrCat("0: ", operation, "!8"));
  EXPECT_EQ(taken, Limits::store_node_bytes_max / large.size());
  // The other nodes still have their share, and the first node can shrink its
  // values.
  EXPECT_EQ(Ask(1, 1, Set("other", large)),
            "1: keep other#16=1048576 bytes; 1: 1:0");
  ++operation;
  EXPECT_EQ(Ask(0, operation, Set("k1", "x")),
            absl::StrCat("0: keep k1#17=x ", operation, ":0"));
  EXPECT_LE(store_.bytes(), Limits::store_bytes_max);
}

TEST_F(StoreTest, ANodeThatAsksForTooMuchIsEnded) {
  v1::StoreIn in = In(1);
  for (size_t i = 0; i < Limits::store_waits_per_node_max + 1; ++i) {
    v1::StoreAsked& asked = *in.add_asked();
    asked.set_operation(i + 1);
    *asked.mutable_what() = Get(absl::StrCat("absent", i));
  }
  EXPECT_TRUE(store_.Hear(1, in).ok());
  EXPECT_EQ(Sent(),
            absl::StrCat("1: ", Limits::store_waits_per_node_max + 1, "!8"));
  EXPECT_TRUE(store_.Hear(0, In(0)).ok());
  // These answers wait for a home that never confirms.
  EXPECT_EQ(Ask(0, 1, Set("k", "x")), "0: keep k#1=x 1:0");
  absl::Status status;
  uint64_t operation = 100'000;
  while (status.ok() && operation < 110'000) {
    v1::StoreIn more = In(1);
    v1::StoreAsked& asked = *more.add_asked();
    asked.set_operation(++operation);
    *asked.mutable_what() = Check("k");
    status = store_.Hear(1, more);
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(operation - 100'000, Limits::store_asked_per_node_max + 1);
}

TEST_F(StoreTest, LargeAnswersKeepToTheWindow) {
  const std::string large(Limits::store_value_bytes_max, 'x');
  EXPECT_NE(Ask(0, 1, Set("k", large)), "");
  Confirm(0);
  const size_t window = Limits::store_unread_node_bytes_max / large.size();
  size_t answers = 0;
  for (uint64_t operation = 1; operation <= 2 * window; ++operation) {
    answers += Ask(1, operation, Get("k")).empty() ? 0 : 1;  // It reads none.
  }
  EXPECT_EQ(answers, window);
  // Another node is not held up.
  EXPECT_EQ(Ask(2, 1, Get("k")), "2: 1:0'1048576 bytes'");
  // The answers that node 1 has read make room for as many new ones.
  received_[1] = 2;
  const std::string more = Confirm(1);
  EXPECT_EQ(more, absl::StrCat("1: ", window + 1, ":0'1048576 bytes'; 1: ",
                               window + 2, ":0'1048576 bytes'"));
  // On a new stream, no answer is unread.
  EXPECT_EQ(Attend(1), "1: open 1");
  EXPECT_EQ(Ask(1, 1, Get("k")), "1: 1:0'1048576 bytes'");
}

TEST(Store, AllAgentsTogetherHaveABoundForLargeAnswers) {
  constexpr uint32_t kNodes = 40;
  GenerationStore store;
  store.Begin(kGeneration, kNodes);
  v1::StoreIn in;
  in.set_generation(kGeneration);
  v1::StoreAsked& asked = *in.add_asked();
  asked.set_operation(1);
  *asked.mutable_what() =
      Set("k", std::string(Limits::store_value_bytes_max, 'x'));
  ASSERT_TRUE(store.Hear(0, in).ok());
  store.Take();
  in.set_received(1);
  in.clear_asked();
  ASSERT_TRUE(store.Hear(0, in).ok());
  in.set_received(0);
  for (uint64_t operation = 1; operation <= 3; ++operation) {
    v1::StoreAsked& get = *in.add_asked();
    get.set_operation(operation);
    *get.mutable_what() = Get("k");
  }
  size_t sent = 0;
  for (uint32_t node = 1; node < kNodes; ++node) {
    ASSERT_TRUE(store.Hear(node, in).ok());
    sent += store.Take().size();
  }
  EXPECT_EQ(sent,
            Limits::store_unread_bytes_max / Limits::store_value_bytes_max);
  // Each answer that is read allows one more, until all nodes have all answers.
  in.clear_asked();
  in.set_received(3);
  for (uint32_t node = 1; node < kNodes; ++node) {
    ASSERT_TRUE(store.Hear(node, in).ok());
    sent += store.Take().size();
  }
  EXPECT_EQ(sent, 3 * (kNodes - 1));
}

TEST_F(StoreTest, ARefusalShowsNoChangeEither) {
  EXPECT_EQ(Ask(0, 1, Set("k", "text")), "0: keep k#1=text 1:0");
  EXPECT_EQ(Ask(1, 1, Add("k", 1)), "");
  EXPECT_EQ(Confirm(0), "1: 1!3");
}

TEST_F(StoreTest, WhatANodeChangedLastCountsToo) {
  EXPECT_EQ(Ask(0, 1, Add("n", 1)), "0: keep n#1=1 1:1");
  const size_t one = store_.bytes();
  Ask(1, 1, Add("n", 1));
  EXPECT_EQ(store_.bytes(), one + Limits::store_done_overhead_bytes + 1);
  Confirm(0);
  Confirm(0);
  below_[1] = 2;
  Ask(1, 2, Check("n"));
  EXPECT_EQ(store_.bytes(), one);
}

TEST_F(StoreTest, OtherGenerationsAreIgnored) {
  v1::StoreIn in = In(0);
  in.set_generation(kGeneration - 1);
  *in.add_asked()->mutable_what() = Set("k", "x");
  EXPECT_TRUE(store_.Hear(0, in).ok());
  EXPECT_EQ(Sent(), "");
  store_.End();
  EXPECT_EQ(Ask(0, 1, Set("k", "x")), "");
  EXPECT_EQ(store_.keys(), 0u);
}

}  // namespace
}  // namespace rollcall
