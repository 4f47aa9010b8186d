// NodeStore and Store together. Many ranks do random operations while streams
// break, messages are lost with them, and the daemon is restarted. Each change
// must be made once. No answer may be older than an answer that was given
// before the question was asked.
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/core/node_store.h"
#include "daemon/core/store/generation_store.h"

namespace rollcall {
namespace {

constexpr uint64_t kGeneration = 3;

class StoreSim {
 public:
  explicit StoreSim(uint64_t seed)
      : random_(seed), nodes_(2 + Draw(4)), store_(new GenerationStore) {
    store_->Begin(kGeneration, nodes_);
    agents_.resize(nodes_);
    for (Agent& agent : agents_) agent.store.Begin(kGeneration);
  }

  void Run(int steps) {
    for (int i = 0; i < steps; ++i) {
      const uint64_t turn = Draw(1000);
      if (turn < 350) {
        Ask();
      } else if (turn < 355) {
        Break(Draw(nodes_));
      } else if (turn < 380) {
        Attend(Draw(nodes_));
      } else if (turn < 382) {
        Restart();
      } else if (turn < 390) {
        Cancel();
      } else {
        Deliver(Draw(nodes_), Draw(2) == 0);
      }
    }
    Drain();
  }

  // Checks that each counter has all its additions, and that nothing is left of
  // the keys once they are removed.
  void CheckEnd() {
    EXPECT_TRUE(asked_.empty()) << asked_.size() << " without an answer";
    for (const auto& [key, adds] : adds_) {
      AskFor(0, v1::STORE_KIND_GET, key);
      Drain();
      EXPECT_EQ(last_value_, absl::StrCat(adds)) << key;
    }
    seen_.clear();
    for (int i = 0; i < kKeys; ++i) {
      for (const char* const kind : {"n", "c", "s"}) {
        AskFor(static_cast<uint32_t>(Draw(nodes_)), v1::STORE_KIND_DELETE,
               absl::StrCat(kind, i));
      }
    }
    Drain();
    // Each node's next operation tells the store which answers the node has.
    for (int round = 0; round < 2; ++round) {
      for (uint32_t node = 0; node < nodes_; ++node) {
        AskFor(node, v1::STORE_KIND_CHECK, "n0");
      }
      Drain();
    }
    EXPECT_EQ(store_->keys(), 0u);
    EXPECT_EQ(store_->bytes(), 0u);
    for (const Agent& agent : agents_) EXPECT_EQ(agent.store.records(), 0u);
  }

 private:
  static constexpr int kKeys = 3;

  struct Agent {
    NodeStore store;
    bool connected = true;
    std::deque<v1::StoreIn> up;
    std::deque<v1::StoreOut> down;
  };
  struct Asked {
    uint32_t node;
    v1::StoreOperation what;
    int64_t at_least = 0;  // The counter's latest known value when asked.
    bool exists = false;   // The key existed then, and is never removed.
  };

  uint64_t Draw(uint64_t below) { return random_() % below; }

  void Ask() {
    const std::string number = absl::StrCat(Draw(kKeys));
    const auto node = static_cast<uint32_t>(Draw(nodes_));
    switch (Draw(6)) {
      case 0:
        return AskFor(node, v1::STORE_KIND_ADD, "n" + number);
      case 1:
        return AskFor(node, v1::STORE_KIND_GET, "n" + number);
      case 2:
        return AskFor(node, v1::STORE_KIND_CHECK, "n" + number);
      case 3:
        return AskFor(node, v1::STORE_KIND_COMPARE_SET, "c" + number);
      case 4:
        return AskFor(node,
                      Draw(2) == 0 ? v1::STORE_KIND_SET : v1::STORE_KIND_DELETE,
                      "s" + number);
      default:
        return AskFor(node, v1::STORE_KIND_NUM_KEYS, "");
    }
  }

  void AskFor(uint32_t node, v1::StoreKind kind, const std::string& key) {
    RankAsksStore asks{kGeneration, ++last_ticket_, {}};
    asks.operation.set_kind(kind);
    asks.operation.set_key(key);
    asks.operation.set_delta(1);
    if (kind == v1::STORE_KIND_COMPARE_SET) {
      asks.operation.set_expected(chain_[key]);
      asks.operation.set_value(absl::StrCat("v", last_ticket_));
    }
    if (kind == v1::STORE_KIND_SET) asks.operation.set_value("x");
    if (kind == v1::STORE_KIND_ADD) ++adds_[key];
    asked_[last_ticket_] = {node, asks.operation, seen_[key],
                            seen_.at(key) > 0};
    Carry(node, agents_[node].store.Take(asks));
  }

  void Cancel() {
    if (asked_.empty()) return;
    auto at = asked_.lower_bound(Draw(last_ticket_ + 1));
    if (at == asked_.end() || at->second.what.kind() != v1::STORE_KIND_GET) {
      return;
    }
    const uint64_t ticket = at->first;
    const uint32_t node = at->second.node;
    asked_.erase(at);
    Carry(node, agents_[node].store.Cancel({ticket}));
  }

  void Carry(uint32_t node, NodeStore::Outcome outcome) {
    Agent& agent = agents_[node];
    for (v1::StoreIn& in : outcome.said) {
      if (agent.connected) agent.up.push_back(std::move(in));
    }
    for (const AnswerStore& answer : outcome.answers) Answered(answer);
  }

  void Answered(const AnswerStore& answer) {
    const auto at = asked_.find(answer.ticket);
    if (at == asked_.end()) return;  // It was cancelled.
    const Asked asked = at->second;
    asked_.erase(at);
    const v1::StoreResult& result = answer.result;
    const std::string& key = asked.what.key();
    ASSERT_EQ(result.code(), 0u) << result.error();
    switch (asked.what.kind()) {
      case v1::STORE_KIND_ADD:
        EXPECT_GT(result.number(), asked.at_least);
        EXPECT_TRUE(sums_[key].insert(result.number()).second)
            << "two adds to " << key << " gave " << result.number();
        seen_[key] = std::max(seen_[key], result.number());
        break;
      case v1::STORE_KIND_GET: {
        last_value_ = result.value();
        const int64_t value = std::stoll(result.value());
        EXPECT_GE(value, asked.at_least);
        seen_[key] = std::max(seen_[key], value);
        break;
      }
      case v1::STORE_KIND_CHECK:
        if (asked.exists) {
          EXPECT_EQ(result.number(), 1);
        }
        break;
      case v1::STORE_KIND_COMPARE_SET:
        if (result.number() == 1) {
          // Each value is set only once, so it is replaced at most once.
          EXPECT_TRUE(replaced_[key].insert(asked.what.expected()).second)
              << key << ": " << asked.what.expected() << " was replaced twice";
          chain_[key] = asked.what.value();
        } else {
          chain_[key] = result.value();
        }
        break;
      default:
        break;
    }
  }

  void Deliver(uint64_t node, bool up) {
    Agent& agent = agents_[node];
    if (up && !agent.up.empty()) {
      const v1::StoreIn in = std::move(agent.up.front());
      agent.up.pop_front();
      ASSERT_TRUE(store_->Hear(static_cast<uint32_t>(node), in).ok());
      Send();
    } else if (!up && !agent.down.empty()) {
      const v1::StoreOut out = std::move(agent.down.front());
      agent.down.pop_front();
      Carry(static_cast<uint32_t>(node), agent.store.Hear(out));
    }
  }

  void Send() {
    for (GenerationStore::Message& message : store_->Take()) {
      Agent& agent = agents_[message.node];
      if (agent.connected) agent.down.push_back(std::move(message.out));
    }
  }

  void Break(uint64_t node) {
    Agent& agent = agents_[node];
    agent.connected = false;
    agent.up.clear();
    agent.down.clear();
    agent.store.StreamEnded();
  }

  void Attend(uint64_t node) {
    if (agents_[node].connected) return;
    agents_[node].connected = true;
    store_->Attended(static_cast<uint32_t>(node));
    Send();
  }

  void Restart() {
    for (uint64_t node = 0; node < nodes_; ++node) Break(node);
    store_ = std::make_unique<GenerationStore>();
    store_->Restore(kGeneration, nodes_);
  }

  void Drain() {
    for (uint64_t node = 0; node < nodes_; ++node) Attend(node);
    const auto busy = [this] {
      for (const Agent& agent : agents_) {
        if (!agent.up.empty() || !agent.down.empty()) return true;
      }
      return false;
    };
    while (busy()) Deliver(Draw(nodes_), Draw(2) == 0);
    // Drops waits for counters that no rank has increased.
    std::erase_if(asked_, [this](const auto& entry) {
      return entry.second.what.kind() == v1::STORE_KIND_GET &&
             !adds_.contains(entry.second.what.key());
    });
  }

  std::mt19937_64 random_;
  const uint32_t nodes_;
  std::unique_ptr<GenerationStore> store_;
  std::vector<Agent> agents_;
  uint64_t last_ticket_ = 0;
  std::map<uint64_t, Asked> asked_;
  std::map<std::string, int64_t> adds_;
  std::map<std::string, std::set<int64_t>> sums_;
  std::map<std::string, int64_t> seen_;
  std::map<std::string, std::string> chain_;
  std::map<std::string, std::set<std::string>> replaced_;
  std::string last_value_;
};

TEST(StoreSim, ChangesAreDoneOnceAndSeenInOrder) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    StoreSim sim(seed);
    sim.Run(1500);
    sim.CheckEnd();
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace rollcall
