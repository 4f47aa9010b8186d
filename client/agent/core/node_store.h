// NodeStore: this node's side of the generation's key-value store: what its
// ranks have asked for and the daemon has not answered, and the records that
// this agent keeps for the daemon. The counterpart of daemon/core/store.
//
// Changes of one key are asked for one after the other, so that the daemon can
// tell one that is asked for again from a new one. A key that several ranks
// wait for is asked for once; a rank that comes later waits for the next
// answer, because the one under way may be older than what this rank has seen.
//
// After a break of the stream nothing is sent until the daemon opens the store
// (StoreOut.link); then everything is sent again that has no answer.
//
// Bounded by limits.h: keys that are waited for, other operations under way,
// bytes that wait here.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_NODE_STORE_H_
#define ROLLCALL_CLIENT_AGENT_CORE_NODE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/agent/core/agent_events.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class NodeStore {
 public:
  // What to send to the daemon, and answers for ranks.
  struct Outcome {
    std::vector<v1::StoreIn> said;
    std::vector<AnswerStore> answers;
  };

  // A world runs.
  Outcome Begin(uint64_t generation);
  // It has ended; the ranks are told elsewhere.
  void End();
  void StreamEnded();

  // A rank of the running world asks.
  Outcome Take(const RankAsksStore& asks);
  // Nobody waits for these any more.
  Outcome Cancel(const std::vector<uint64_t>& tickets);
  // May be of a generation that does not run here yet.
  Outcome Hear(const v1::StoreOut& out);

  // Records that are kept.
  size_t records() const { return records_.size(); }

 private:
  // A key that ranks wait for, with its value or without.
  using Awaited = std::pair<v1::StoreKind, std::string>;
  struct Wait {
    uint64_t operation = 0;
    std::vector<uint64_t> tickets;
    std::vector<uint64_t> later;  // For the next answer.
  };
  // A change, or a question that is answered at once.
  struct Queued {
    v1::StoreOperation what;
    uint64_t ticket = 0;
  };

  void TakeWait(const RankAsksStore& asks, Outcome& outcome);
  void AskWait(const Awaited& awaited, Wait& wait, Outcome& outcome);
  void AskQueued(Outcome& outcome);
  void Say(uint64_t operation, const v1::StoreOperation& what,
           Outcome& outcome);
  void SayAll(Outcome& outcome);
  void SayRecords(Outcome& outcome);
  void Answer(const v1::StoreAnswered& answered, Outcome& outcome);
  void AnswerWait(const Awaited& awaited, const v1::StoreResult& result,
                  Outcome& outcome);
  void Keep(const v1::StoreRecord& record);
  v1::StoreIn& Message(Outcome& outcome) const;
  // The message to which an operation is added.
  v1::StoreIn& Batch(Outcome& outcome) const;

  uint64_t generation_ = 0;
  bool open_ = false;
  uint64_t link_ = 0;
  uint64_t received_ = 0;
  // What came for a world that does not run here yet: `link` or `report`.
  v1::StoreOut early_;

  uint64_t last_operation_ = 0;
  // Under way, by operation. Of waits: what is awaited.
  std::map<uint64_t, Queued> asked_;
  std::map<uint64_t, Awaited> asked_waits_;
  std::map<Awaited, Wait> waits_;
  std::map<uint64_t, Awaited> waits_by_ticket_;
  // To be asked once fewer are under way.
  std::deque<Queued> queue_;
  // By key with a change under way or queued: the changes after it.
  std::map<std::string, std::deque<Queued>> changes_;
  size_t bytes_ = 0;  // Of asked_, queue_ and changes_.

  std::map<std::string, v1::StoreRecord> records_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_NODE_STORE_H_
