// The store of a generation with three agents, and its messages as text.
#ifndef ROLLCALL_TESTS_UNIT_CORE_STORE_GENERATION_STORE_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_CORE_STORE_GENERATION_STORE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/store/generation_store.h"

namespace rollcall {

inline constexpr uint64_t kGeneration = 7;

inline v1::StoreOperation Op(v1::StoreKind kind, const std::string& key,
                             const std::string& value = "",
                             const std::string& expected = "",
                             int64_t delta = 0) {
  v1::StoreOperation what;
  what.set_kind(kind);
  what.set_key(key);
  what.set_value(value);
  what.set_expected(expected);
  what.set_delta(delta);
  return what;
}

inline v1::StoreOperation Set(const std::string& key,
                              const std::string& value) {
  return Op(v1::STORE_KIND_SET, key, value);
}
inline v1::StoreOperation Get(const std::string& key) {
  return Op(v1::STORE_KIND_GET, key);
}
inline v1::StoreOperation WaitOp(const std::string& key) {
  return Op(v1::STORE_KIND_WAIT, key);
}
inline v1::StoreOperation Check(const std::string& key) {
  return Op(v1::STORE_KIND_CHECK, key);
}
inline v1::StoreOperation Add(const std::string& key, int64_t delta) {
  return Op(v1::STORE_KIND_ADD, key, "", "", delta);
}
inline v1::StoreOperation CompareSet(const std::string& key,
                                     const std::string& expected,
                                     const std::string& value) {
  return Op(v1::STORE_KIND_COMPARE_SET, key, value, expected);
}
inline v1::StoreOperation Delete(const std::string& key) {
  return Op(v1::STORE_KIND_DELETE, key);
}
inline v1::StoreOperation NumKeys() { return Op(v1::STORE_KIND_NUM_KEYS, ""); }

inline std::string Brief(const std::string& text) {
  return text.size() > 20 ? absl::StrCat(text.size(), " bytes") : text;
}

// A message as text: "open 1" (the link), "keep k#2=x" (key k, sequence 2),
// "1:5" (operation 1 returns number 5), "2='x'", "3!8" (operation 3 fails with
// code 8).
inline std::string Text(const v1::StoreOut& out) {
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

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_CORE_STORE_GENERATION_STORE_FIXTURE_H_
