#include "daemon/core/store/generation_store.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr uint64_t kGeneration = 7;

v1::StoreOperation Op(v1::StoreKind kind, const std::string& key,
                      const std::string& value = "",
                      const std::string& expected = "", int64_t delta = 0) {
  v1::StoreOperation what;
  what.set_kind(kind);
  what.set_key(key);
  what.set_value(value);
  what.set_expected(expected);
  what.set_delta(delta);
  return what;
}

v1::StoreOperation Set(const std::string& key, const std::string& value) {
  return Op(v1::STORE_KIND_SET, key, value);
}
v1::StoreOperation Get(const std::string& key) {
  return Op(v1::STORE_KIND_GET, key);
}
v1::StoreOperation WaitOp(const std::string& key) {
  return Op(v1::STORE_KIND_WAIT, key);
}
v1::StoreOperation Check(const std::string& key) {
  return Op(v1::STORE_KIND_CHECK, key);
}
v1::StoreOperation Add(const std::string& key, int64_t delta) {
  return Op(v1::STORE_KIND_ADD, key, "", "", delta);
}
v1::StoreOperation CompareSet(const std::string& key,
                              const std::string& expected,
                              const std::string& value) {
  return Op(v1::STORE_KIND_COMPARE_SET, key, value, expected);
}
v1::StoreOperation Delete(const std::string& key) {
  return Op(v1::STORE_KIND_DELETE, key);
}
v1::StoreOperation NumKeys() { return Op(v1::STORE_KIND_NUM_KEYS, ""); }

std::string Brief(const std::string& text) {
  return text.size() > 20 ? absl::StrCat(text.size(), " bytes") : text;
}

// A message as text: "open 1" (the link), "keep k#2=x" (key k, sequence 2),
// "1:5" (operation 1 returns number 5), "2='x'", "3!8" (operation 3 fails with
// code 8).
std::string Text(const v1::StoreOut& out) {
  std::vector<std::string> words;
  if (out.link() != 0) words.push_back(absl::StrCat("open ", out.link()));
  if (out.report()) words.push_back("tell");
  for (const v1::StoreRecord& record : out.records()) {
    words.push_back(absl::StrCat(
        record.dropped() ? "drop " : "keep ", record.key(), "#",
        record.sequence(),
        record.has_value() ? absl::StrCat("=", Brief(record.value())) : ""));
  }
  for (const v1::StoreAnswered& answered : out.answered()) {
    const v1::StoreResult& result = answered.result();
    std::string text = absl::StrCat(answered.operation(), ":", result.number());
    if (result.code() != 0) {
      text = absl::StrCat(answered.operation(), "!", result.code());
    } else if (result.has_value()) {
      absl::StrAppend(&text, "'", Brief(result.value()), "'");
    }
    words.push_back(text);
  }
  return absl::StrJoin(words, " ");
}

// Three agents. They acknowledge what they have received in Confirm or, if
// `confirms_` is set, with each message.
class StoreTest : public testing::Test {
 protected:
  StoreTest() { store_.Begin(kGeneration, 3); }

  v1::StoreIn In(uint32_t node) {
    v1::StoreIn in;
    in.set_generation(kGeneration);
    in.set_link(link_[node]);
    if (confirms_) said_[node] = received_[node];
    in.set_received(said_[node]);
    return in;
  }

  // The messages that are sent now, as "NODE: TEXT; ...".
  std::string Sent() {
    std::vector<std::string> all;
    for (const GenerationStore::Message& message : store_.Take()) {
      EXPECT_EQ(message.out.generation(), kGeneration);
      received_[message.node] = message.out.number();
      if (message.out.link() != 0) link_[message.node] = message.out.link();
      all.push_back(absl::StrCat(message.node, ": ", Text(message.out)));
    }
    return absl::StrJoin(all, "; ");
  }

  std::string Ask(uint32_t node, uint64_t operation,
                  const v1::StoreOperation& what) {
    v1::StoreIn in = In(node);
    in.set_answered_below(below_[node]);
    v1::StoreAsked& asked = *in.add_asked();
    asked.set_operation(operation);
    *asked.mutable_what() = what;
    EXPECT_TRUE(store_.Hear(node, in).ok());
    return Sent();
  }

  // The node acknowledges what it has received.
  std::string Confirm(uint32_t node) {
    said_[node] = received_[node];
    EXPECT_TRUE(store_.Hear(node, In(node)).ok());
    return Sent();
  }

  std::string Attend(uint32_t node) {
    received_[node] = said_[node] = 0;
    store_.Attended(node);
    return Sent();
  }

  GenerationStore store_;
  std::map<uint32_t, uint64_t> link_;
  std::map<uint32_t, uint64_t> received_;
  std::map<uint32_t, uint64_t> said_;
  bool confirms_ = false;
  std::map<uint32_t, uint64_t> below_;
};

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
