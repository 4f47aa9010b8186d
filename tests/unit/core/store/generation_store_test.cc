#include "daemon/core/store/generation_store.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/core/store/generation_store_fixture.h"

namespace rollcall {
namespace {

struct Row {
  v1::StoreOperation what;
  std::string expect;
};

TEST_F(StoreTest, OperationsOfTheNodeThatMakesTheKeys) {
  confirms_ = true;
  const Row rows[] = {
      {Check("k"), "0: 1:0"},
      {Set("k", "x"), "0: keep k#1=x 2:0"},
      {Check("k"), "0: 3:1"},
      {Get("k"), "0: 4:0'x'"},
      {WaitOp("k"), "0: 5:0"},
      {Set("k", ""), "0: keep k#2= 6:0"},
      {Get("k"), "0: 7:0''"},
      {CompareSet("k", "x", "y"), "0: 8:0''"},
      {CompareSet("k", "", "y"), "0: keep k#3=y 9:1"},
      {CompareSet("other", "x", "y"), "0: 10:0"},
      {Check("other"), "0: 11:0"},
      {CompareSet("other", "", "y"), "0: keep other#4=y 12:1"},
      {NumKeys(), "0: 13:2"},
      {Add("n", 5), "0: keep n#5=5 14:5"},
      {Add("n", -7), "0: keep n#6=-2 15:-2"},
      {Add("k", 1), "0: 16!3"},
      {Set("n", "9223372036854775807"), "0: keep n#7=9223372036854775807 17:0"},
      {Add("n", 1), "0: 18!3"},
      {Add("zero", 0), "0: keep zero#8=0 19:0"},
      {Delete("absent"), "0: 20:0"},
      {Delete("k"), "0: keep k#9 21:1"},
      {Check("k"), "0: 22:0"},
      {Delete("k"), "0: 23:0"},
      {Op(static_cast<v1::StoreKind>(99), "k"), "0: 24!3"},
  };
  uint64_t operation = 0;
  for (const Row& row : rows) {
    EXPECT_EQ(Ask(0, ++operation, row.what), row.expect) << operation;
  }
  EXPECT_EQ(store_.keys(), 3u);
}

TEST_F(StoreTest, OthersSeeAChangeOnceItsHomeHasIt) {
  EXPECT_EQ(Ask(0, 1, Set("k", "x")), "0: keep k#1=x 1:0");
  EXPECT_EQ(Ask(1, 1, Get("k")), "");
  EXPECT_EQ(Ask(2, 1, Check("k")), "");
  EXPECT_EQ(Ask(2, 2, NumKeys()), "");
  EXPECT_EQ(Confirm(0), "1: 1:0'x'; 2: 1:1 2:1");
  // When another node changes the key, the key's home gets the record first.
  EXPECT_EQ(Ask(1, 2, Set("k", "y")), "0: keep k#2=y");
  EXPECT_EQ(Ask(0, 2, Get("k")), "0: 2:0'y'");
  EXPECT_EQ(Ask(2, 3, Get("k")), "");
  EXPECT_EQ(Confirm(0), "1: 2:0; 2: 3:0'y'");
}

TEST_F(StoreTest, ChangesOfOneKeyAreKeptTogether) {
  EXPECT_EQ(Ask(0, 1, Add("n", 1)), "0: keep n#1=1 1:1");
  EXPECT_EQ(Ask(1, 1, Add("n", 1)), "");
  EXPECT_EQ(Ask(2, 1, Add("n", 1)), "");
  // The home waits as well, because its record has not been sent yet.
  EXPECT_EQ(Ask(0, 2, Add("n", 1)), "");
  EXPECT_EQ(Confirm(0), "0: keep n#4=4 2:4");
  EXPECT_EQ(Confirm(0), "1: 1:2; 2: 1:3");
}

TEST_F(StoreTest, WhoWaitsIsToldOnceTheKeyExists) {
  EXPECT_EQ(Ask(1, 1, Get("k")), "");
  EXPECT_EQ(Ask(2, 1, WaitOp("k")), "");
  EXPECT_EQ(Ask(2, 2, Get("k")), "");
  v1::StoreIn in = In(2);
  in.add_cancelled(2);
  EXPECT_TRUE(store_.Hear(2, in).ok());
  EXPECT_EQ(Sent(), "2: 2!1");
  EXPECT_EQ(Ask(0, 1, Set("k", "x")), "0: keep k#1=x 1:0");
  EXPECT_EQ(Confirm(0), "1: 1:0'x'; 2: 1:0");
  // A cancellation that arrives after the answer has no effect.
  EXPECT_TRUE(store_.Hear(2, in).ok());
  EXPECT_EQ(Sent(), "");
}

TEST_F(StoreTest, WhatIsAskedForAgainIsDoneOnce) {
  EXPECT_EQ(Ask(0, 1, Add("n", 1)), "0: keep n#1=1 1:1");
  EXPECT_EQ(Ask(1, 1, Add("n", 1)), "");
  EXPECT_EQ(Attend(1), "1: open 1");
  EXPECT_EQ(Ask(1, 1, Add("n", 1)), "");
  EXPECT_EQ(Confirm(0), "0: keep n#2=2");
  EXPECT_EQ(Confirm(0), "1: 1:2");
  // The answer was lost with the stream, so it is sent again.
  EXPECT_EQ(Attend(1), "1: open 2");
  EXPECT_EQ(Ask(1, 1, Add("n", 1)), "1: 1:2");
  EXPECT_EQ(Ask(0, 2, Add("n", 1)), "0: keep n#3=3 2:3");
}

TEST_F(StoreTest, AnOldAnswerDoesNotReachANewStream) {
  EXPECT_EQ(Ask(0, 1, Set("k", "a")), "0: keep k#1=a 1:0");
  EXPECT_EQ(Ask(1, 1, CompareSet("k", "b", "c")), "");  // Not set: k is "a".
  EXPECT_EQ(Attend(1), "1: open 1");
  EXPECT_EQ(Ask(0, 2, Set("k", "b")), "");
  EXPECT_EQ(Ask(1, 1, CompareSet("k", "b", "c")), "");  // It is set now.
  EXPECT_EQ(Confirm(0), "0: keep k#3=c 2:0");
  EXPECT_EQ(Confirm(0), "1: 1:1");
}

TEST_F(StoreTest, WhatIsAskedBeforeTheStoreOpensIsIgnored) {
  EXPECT_EQ(Attend(1), "1: open 1");
  link_[1] = 0;
  EXPECT_EQ(Ask(1, 1, Set("k", "x")), "");
  EXPECT_EQ(store_.keys(), 0u);
}

TEST_F(StoreTest, RecordsThatMayBeLostAreSentAgain) {
  EXPECT_EQ(Ask(0, 1, Set("k", "x")), "0: keep k#1=x 1:0");
  EXPECT_EQ(Ask(1, 1, Get("k")), "");
  EXPECT_EQ(Attend(0), "0: open 1 keep k#1=x");
  EXPECT_EQ(Confirm(0), "1: 1:0'x'");
  EXPECT_EQ(Attend(0), "0: open 2");
}

TEST_F(StoreTest, AKeyThatIsRemovedIsForgottenOnceNobodyAsksAgain) {
  EXPECT_EQ(Ask(0, 1, Set("k", "x")), "0: keep k#1=x 1:0");
  Confirm(0);
  EXPECT_EQ(Ask(1, 1, Delete("k")), "0: keep k#2");
  EXPECT_EQ(Confirm(0), "1: 1:1");
  EXPECT_GT(store_.bytes(), 0u);
  below_[0] = 2;
  EXPECT_EQ(Ask(0, 2, Check("k")), "0: 2:0");
  below_[1] = 2;
  EXPECT_EQ(Ask(1, 2, Check("k")), "0: drop k#2; 1: 2:0");
  EXPECT_EQ(store_.bytes(), 0u);
  // The home missed the drop, so the drop is sent again.
  EXPECT_EQ(Attend(0), "0: open 1 drop k#2");
  // The node that creates the key again becomes its home.
  EXPECT_EQ(Ask(1, 3, Set("k", "y")), "1: keep k#3=y 3:0");
}

TEST_F(StoreTest, ARestartedDaemonAnswersOnceAllHaveTold) {
  store_.Restore(kGeneration, 3);
  for (const uint32_t node : {0u, 1u, 2u}) {
    EXPECT_EQ(Attend(node), absl::StrCat(node, ": tell"));
  }
  const auto tell = [&](uint32_t node, const std::string& key,
                        uint64_t sequence, const std::string& value, bool all) {
    v1::StoreIn in = In(node);
    v1::StoreRecord& record = *in.add_records();
    record.set_key(key);
    record.set_sequence(sequence);
    if (!value.empty()) record.set_value(value);
    v1::StoreDone& done = *record.add_done();
    done.set_node_rank(1);
    done.set_operation(sequence);
    done.set_number(44);
    in.set_records_end(all);
    EXPECT_TRUE(store_.Hear(node, in).ok());
    return Sent();
  };
  EXPECT_EQ(tell(0, "k", 5, "x", false), "");
  EXPECT_EQ(tell(0, "n", 6, "44", true), "");
  // An older record of a key that moved is dropped.
  EXPECT_EQ(tell(1, "k", 3, "old", true), "1: drop k#3");
  EXPECT_EQ(Ask(0, 1, Get("k")), "");
  // The node is not asked again for records that it has sent. A newer record
  // replaces an older one.
  EXPECT_EQ(Attend(1), "1: drop k#6");
  EXPECT_EQ(tell(2, "n", 8, "45", true),
            "0: open 1 drop n#6; 1: open 2; 2: open 1");
  EXPECT_EQ(Ask(0, 1, Get("k")), "0: 1:0'x'");
  EXPECT_EQ(Ask(2, 1, Get("n")), "2: 1:0'45'");
  // Node 1 has not received the answer to its operation 8.
  EXPECT_EQ(Ask(1, 8, Add("n", 1)), "1: 8:44");
  EXPECT_EQ(Ask(1, 9, Add("n", 1)), "2: keep n#9=46");
}

TEST_F(StoreTest, ANodeThatHasGoneLeavesItsKeysToAnother) {
  EXPECT_EQ(Ask(0, 1, Set("k", "x")), "0: keep k#1=x 1:0");
  EXPECT_EQ(Ask(1, 1, Get("k")), "");
  store_.Gone(0);
  EXPECT_EQ(Sent(), "1: keep k#1=x 1:0'x'");
  EXPECT_EQ(Ask(2, 1, NumKeys()), "");
  EXPECT_EQ(Confirm(1), "2: 1:1");
  EXPECT_EQ(Ask(2, 2, Add("k", 1)), "2: 2!3");
  // After a restart of the daemon, no operation waits for the key either.
  store_.Restore(kGeneration, 3);
  Attend(1);
  Attend(2);
  for (const uint32_t node : {1u, 2u}) {
    v1::StoreIn in = In(node);
    in.set_records_end(true);
    EXPECT_TRUE(store_.Hear(node, in).ok());
  }
  EXPECT_EQ(Sent(), "");
  store_.Gone(0);
  EXPECT_EQ(Sent(), "1: open 1; 2: open 1");
}

}  // namespace
}  // namespace rollcall
