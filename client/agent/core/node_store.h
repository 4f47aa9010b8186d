// NodeStore: this node's part of the generation's key-value store. It holds the
// operations of its ranks that the daemon has not answered, and the records
// that this agent keeps for the daemon. The counterpart of daemon/core/store.
//
// Changes of one key are sent one after the other, so that the daemon can
// distinguish a repeated change from a new one. If several ranks wait for a
// key, it is asked for once. A rank that starts to wait while the daemon is
// asked waits for the next answer, because the current one may be older than
// what this rank has already seen.
//
// After the stream has ended nothing is sent until the daemon opens the store
// (StoreOut.link); then every operation without an answer is sent again.
//
// limits.h bounds the keys that ranks wait for, the other operations that were
// sent, and the bytes that wait here.
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

  // A world begins.
  Outcome Begin(uint64_t generation);
  // The world has ended. The caller tells the ranks.
  void End();
  void StreamEnded();

  // A rank of the running world asks for an operation.
  Outcome Take(const RankAsksStore& asks);
  // No rank waits for these any more.
  Outcome Cancel(const std::vector<uint64_t>& tickets);
  // Takes a message of the daemon. It may belong to a generation that does not
  // run here yet.
  Outcome Hear(const v1::StoreOut& out);

  // The number of records that are kept.
  size_t records() const { return records_.size(); }

 private:
  // A key that ranks wait for, and whether they want its value (GET) or not
  // (WAIT).
  using Awaited = std::pair<v1::StoreKind, std::string>;
  struct Wait {
    uint64_t operation = 0;
    std::vector<uint64_t> tickets;
    std::vector<uint64_t> later;  // They wait for the next answer.
  };
  // A change, or a question that the daemon answers at once.
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
  // The message of the next world, if it came early: `link` or `report`.
  v1::StoreOut early_;

  uint64_t last_operation_ = 0;
  // Operations that were sent, by number; for waits, what is awaited.
  std::map<uint64_t, Queued> asked_;
  std::map<uint64_t, Awaited> asked_waits_;
  std::map<Awaited, Wait> waits_;
  std::map<uint64_t, Awaited> waits_by_ticket_;
  // Sent when fewer operations are in progress.
  std::deque<Queued> queue_;
  // For each key with a change that is sent or queued: the changes after it.
  std::map<std::string, std::deque<Queued>> changes_;
  size_t bytes_ = 0;  // The bytes of asked_, queue_ and changes_.

  std::map<std::string, v1::StoreRecord> records_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_NODE_STORE_H_
