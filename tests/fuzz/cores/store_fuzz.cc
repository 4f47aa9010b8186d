// The key-value store of a generation: admitted messages of agents to the
// daemon's Store, and messages of a daemon and of ranks to an agent's
// NodeStore.
//
// Oracle: Store stays within its bounds, answers only what was asked on the
// stream, and numbers its messages. NodeStore sends nothing that admission
// would refuse, because the daemon would end its stream, and answers each rank
// once.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/agent/core/node_store.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/limits.h"
#include "daemon/core/store/generation_store.h"
#include "tests/fuzz/feed.h"
#include "tests/fuzz/oracle.h"

namespace rollcall {
namespace {

constexpr uint64_t kGeneration = 2;
constexpr uint32_t kNodes = 3;
// The largest message: what fits the limit, then one more value, a key and
// changes.
constexpr size_t kMessageBytesMax = 2 << 20;

v1::StoreOperation Operation(Feed& feed) {
  v1::StoreOperation what;
  what.set_kind(static_cast<v1::StoreKind>(feed.Pick(10)));
  if (what.kind() != v1::STORE_KIND_NUM_KEYS || feed.Flag()) {
    what.set_key(
        std::string(1 + feed.Pick(2), static_cast<char>('a' + feed.Pick(3))));
  }
  if (feed.Flag()) what.set_value(feed.String());
  if (feed.Flag()) what.set_expected(feed.String());
  what.set_delta(static_cast<int64_t>(feed.Number()));
  return what;
}

v1::StoreRecord Record(Feed& feed) {
  v1::StoreRecord record;
  record.set_key(std::string(1, static_cast<char>('a' + feed.Pick(3))));
  record.set_sequence(feed.Number());
  if (feed.Flag()) record.set_value(feed.String());
  if (feed.Flag()) {
    v1::StoreDone& done = *record.add_done();
    done.set_node_rank(feed.Pick(4));
    done.set_operation(feed.Number());
    done.set_number(static_cast<int64_t>(feed.Number()));
  }
  record.set_dropped(feed.Flag());
  return record;
}

// --- The daemon's side -------------------------------------------------------

class DaemonSide {
 public:
  explicit DaemonSide(Feed& feed) : feed_(feed) {
    store_.Begin(kGeneration, kNodes);
  }

  void Run() {
    while (!feed_.empty()) {
      const uint32_t node = feed_.Pick(kNodes);
      const uint32_t what = feed_.Pick(8);
      if (gone_.contains(node) && what != 1) continue;
      switch (what) {
        case 0:
          asked_[node].clear();
          last_[node] = 0;
          store_.Attended(node);
          break;
        case 1:
          if (feed_.Pick(8) == 7 && gone_.insert(node).second) {
            store_.Gone(node);
            asked_[node].clear();
          }
          if (feed_.Pick(8) != 0) break;
          store_.Restore(kGeneration, kNodes);
          gone_.clear();
          asked_.clear();
          last_.clear();
          link_.clear();
          break;
        case 2:
          Say(node, Any());
          break;
        case 3:
          Say(node, Tells(node));
          break;
        default:
          Say(node, Asks(node));
      }
      Check();
    }
  }

 private:
  v1::StoreIn In(uint32_t node) {
    v1::StoreIn in;
    in.set_generation(kGeneration);
    in.set_link(feed_.Pick(8) == 0 ? feed_.Number() : link_[node]);
    in.set_received(feed_.Flag() ? last_[node] : feed_.Number());
    return in;
  }

  v1::StoreIn Asks(uint32_t node) {
    v1::StoreIn in = In(node);
    in.set_answered_below(feed_.Number());
    for (uint32_t i = feed_.Pick(4); i > 0; --i) {
      v1::StoreAsked& asked = *in.add_asked();
      asked.set_operation(feed_.Number());
      *asked.mutable_what() = Operation(feed_);
    }
    if (feed_.Flag()) in.add_cancelled(feed_.Number());
    return in;
  }

  v1::StoreIn Tells(uint32_t node) {
    v1::StoreIn in = In(node);
    for (uint32_t i = feed_.Pick(4); i > 0; --i) {
      *in.add_records() = Record(feed_);
    }
    in.set_records_end(feed_.Flag());
    return in;
  }

  v1::StoreIn Any() {
    v1::StoreIn in;
    const std::string_view bytes = feed_.Text();
    if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      in.Clear();
    }
    return in;
  }

  void Say(uint32_t node, const v1::StoreIn& in) {
    v1::AgentMessage message;
    *message.mutable_store() = in;
    if (!AdmitMessage(message).ok()) return;
    for (const v1::StoreAsked& asked : in.asked()) {
      ++asked_[node][asked.operation()];
    }
    store_.Hear(node, in).IgnoreError();
  }

  void Check() {
    for (const GenerationStore::Message& message : store_.Take()) {
      const uint32_t node = message.node;
      const v1::StoreOut& out = message.out;
      Expect(node < kNodes, "a message for a node of the world");
      Expect(out.generation() == kGeneration, "the generation");
      Expect(out.number() == ++last_[node], "numbers without a gap");
      Expect(out.ByteSizeLong() <= kMessageBytesMax, "the size of a message");
      if (out.link() != 0) link_[node] = out.link();
      for (const v1::StoreAnswered& answered : out.answered()) {
        Expect(asked_[node][answered.operation()]-- > 0,
               "an answer to what was asked on this stream");
        ExpectPrintable("an error", answered.result().error());
      }
    }
    Expect(store_.bytes() <= Limits::store_bytes_max, "bytes of the store");
    Expect(store_.keys() == 0 || store_.bytes() > 0, "keys have bytes");
  }

  Feed& feed_;
  GenerationStore store_;
  std::set<uint32_t> gone_;
  std::map<uint32_t, uint64_t> link_;
  std::map<uint32_t, uint64_t> last_;  // Last message's number.
  std::map<uint32_t, std::map<uint64_t, int>> asked_;
};

// --- The agent's side --------------------------------------------------------

class AgentSide {
 public:
  explicit AgentSide(Feed& feed) : feed_(feed) {
    Take(store_.Begin(kGeneration));
  }

  void Run() {
    while (!feed_.empty()) {
      switch (feed_.Pick(8)) {
        case 0:
          store_.StreamEnded();
          break;
        case 1:
          if (feed_.Pick(8) != 0) break;
          store_.End();
          waiting_.clear();
          Take(store_.Begin(kGeneration));
          break;
        case 2:
          Take(store_.Hear(Any()));
          break;
        case 3:
          Cancel();
          break;
        case 4:
        case 5:
          Take(store_.Hear(Says()));
          break;
        default:
          Ask();
      }
    }
  }

 private:
  v1::StoreOut Says() {
    v1::StoreOut out;
    out.set_generation(feed_.Pick(8) == 0 ? feed_.Number() : kGeneration);
    out.set_number(feed_.Number());
    out.set_link(feed_.Pick(4) == 0 ? feed_.Number() : 0);
    out.set_report(feed_.Pick(4) == 0);
    for (uint32_t i = feed_.Pick(3); i > 0; --i) {
      *out.add_records() = Record(feed_);
    }
    for (uint32_t i = feed_.Pick(4); i > 0; --i) {
      v1::StoreAnswered& answered = *out.add_answered();
      answered.set_operation(feed_.Number());
      answered.mutable_result()->set_error(feed_.Flag() ? feed_.String() : "");
      answered.mutable_result()->set_number(1);
    }
    return out;
  }

  v1::StoreOut Any() {
    v1::StoreOut out;
    const std::string_view bytes = feed_.Text();
    if (!out.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      out.Clear();
    }
    return out;
  }

  void Ask() {
    RankAsksStore asks{kGeneration, ++last_ticket_, Operation(feed_)};
    if (!AdmitStoreOperation(asks.operation).ok()) return;
    waiting_.insert(asks.ticket);
    Take(store_.Take(asks));
  }

  void Cancel() {
    const uint64_t ticket = feed_.Number();
    waiting_.erase(ticket);
    Take(store_.Cancel({ticket}));
    cancelled_.insert(ticket);
  }

  void Take(const NodeStore::Outcome& outcome) {
    for (const v1::StoreIn& in : outcome.said) {
      v1::AgentMessage message;
      *message.mutable_store() = in;
      // The records that it keeps come from the daemon, which may have sent
      // anything.
      message.mutable_store()->clear_records();
      const absl::Status fits = AdmitMessage(message);
      Expect(fits.ok(), "the daemon takes it", std::string(fits.message()));
    }
    for (const AnswerStore& answer : outcome.answers) {
      Expect(waiting_.erase(answer.ticket) == 1 ||
                 cancelled_.contains(answer.ticket),
             "one answer for each rank that asked");
      ExpectPrintable("an error", answer.result.error());
    }
  }

  Feed& feed_;
  NodeStore store_;
  uint64_t last_ticket_ = 0;
  std::set<uint64_t> waiting_;
  std::set<uint64_t> cancelled_;
};

}  // namespace
}  // namespace rollcall

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rollcall::Feed feed(data, size);
  if (feed.Flag()) {
    rollcall::AgentSide(feed).Run();
  } else {
    rollcall::DaemonSide(feed).Run();
  }
  return 0;
}
