// GenerationStore: the key-value store of one generation, for its ranks.
//
// The daemon has all keys in memory. The agent of the node that made a key (its
// home) keeps a record of it as well. The daemon answers other nodes only after
// the home has confirmed the record. So a restarted daemon rebuilds the store
// from the agents' records; it answers once all members have reported theirs.
//
// Each node numbers its operations and sends them again on a new stream. A
// change is still applied only once: its key remembers which operation made the
// change, until the node reports that it has the answer.
//
// Bounded by limits.h: the bytes of all keys and of the keys of one home,
// including what each key remembers; and the waiting operations of one node.
// For answers on their way, see store_link.h.
//
// Pure; one thread. Invariants:
//   1. An answer that shows a change is sent to another node than the home
//      only after the home has confirmed the change.
//   2. At most one record of a key is on its way.
#ifndef ROLLCALL_DAEMON_CORE_STORE_GENERATION_STORE_H_
#define ROLLCALL_DAEMON_CORE_STORE_GENERATION_STORE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "daemon/core/store/store_link.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class GenerationStore {
 public:
  // An empty store for a new generation of `nodes` nodes.
  void Begin(uint64_t generation, uint32_t nodes);
  // For a generation that already runs, of which this daemon has no memory.
  void Restore(uint64_t generation, uint32_t nodes);
  // Drops everything. The ranks learn this from the end of their generation.
  void End();

  // A node has a new stream. For all functions: node < nodes.
  void Attended(uint32_t node);
  // The node has left for good, and the generation goes on: its ranks had
  // ended. Another node becomes the home of its keys.
  void Gone(uint32_t node);
  // Takes a message that admission has passed. Ignores other generations.
  // RESOURCE_EXHAUSTED: more operations than a correct agent sends at once; end
  // its stream.
  absl::Status Hear(uint32_t node, const v1::StoreIn& in);

  struct Message {
    uint32_t node;
    v1::StoreOut out;
  };
  // The messages to send, in order. Call after each function above.
  std::vector<Message> Take();

  // How many keys exist.
  size_t keys() const { return existing_; }
  size_t bytes() const { return bytes_; }

 private:
  using Value = std::shared_ptr<const std::string>;

  // An answer that waits until the home has confirmed the change that it shows.
  struct Held {
    uint64_t sequence;
    uint32_t node;
    StoreAnswer answer;
  };
  struct Done {
    uint64_t operation;
    int64_t number;
  };
  struct Key {
    Value value;  // Null: the key does not exist.
    uint32_t home = 0;
    uint64_t sequence = 0;   // The number of its last change.
    uint64_t sent = 0;       // The number of the record on its way; 0: none.
    uint64_t confirmed = 0;  // The number of the last confirmed record.
    // The home may lack changes from this number on; 0: it has all changes.
    uint64_t unconfirmed_from = 0;
    std::map<uint32_t, Done> done;  // By node: its last change of this key.
    std::vector<Held> held;
    size_t bytes = 0;  // The bytes charged for the key.
  };
  using Keys = std::map<std::string, Key>;
  struct Wait {
    std::string key;
    bool wants_value;
  };
  struct Node {
    StoreLink link;
    bool gone = false;
    bool waits_for_others = false;  // The node is in held_by_others_.
    size_t bytes = 0;               // The bytes of the keys whose home it is.
    // The keys at which answers to this node are held, one entry for each
    // answer; and how many of its counts of keys wait.
    std::multiset<std::string> held_at;
    size_t counts = 0;
    std::map<uint64_t, Wait> waits;  // By operation.
    // Changes whose answers the node may not have, by operation.
    std::map<uint64_t, std::string> done;
  };
  // A count of keys. Its answer waits until all changes up to `sequence` are
  // confirmed.
  struct Count {
    uint32_t node;
    uint64_t operation;
    int64_t number;
    uint64_t sequence;
  };

  absl::Status Do(uint32_t node, const v1::StoreAsked& asked);
  void Read(uint32_t node, const v1::StoreAsked& asked);
  absl::Status Await(uint32_t node, const v1::StoreAsked& asked);
  void CountKeys(uint32_t node, uint64_t operation);
  absl::Status Change(uint32_t node, const v1::StoreAsked& asked);
  absl::Status CompareSet(uint32_t node, const v1::StoreAsked& asked);
  absl::Status Add(uint32_t node, const v1::StoreAsked& asked);
  // Gives the key a value (null: removes the key), and answers with `number`.
  absl::Status Put(uint32_t node, const v1::StoreAsked& asked, Value value,
                   int64_t number);
  absl::Status CheckRoom(uint32_t home, const std::string& key, size_t before,
                         size_t after) const;
  // The bytes that are charged for a key. `value`: null if the key does not
  // exist. `done`: how many changes the key remembers.
  static size_t SizeOf(const std::string& key, const std::string* value,
                       size_t done);
  void Charge(Key& key, size_t bytes);
  void ChargeConfirmed(Keys::iterator at);
  Value MakeValue(std::string value);
  void SetValue(Key& key, Value value);

  // Sends the answer once invariant 1 allows it. `at`: the key that the answer
  // shows; end: none.
  void Answer(uint32_t node, Keys::iterator at, StoreAnswer answer);
  void SendAnswer(uint32_t node, StoreAnswer answer);
  bool MaySee(const Key& key, uint32_t node, uint64_t sequence) const;
  void Release(Keys::iterator at);
  void ReleaseCounts();
  void SetUnconfirmed(Key& key, uint64_t from);
  void Wake(Keys::iterator at);
  void SendRecord(Keys::iterator at);
  void Confirm(uint32_t node, const StoreLink::Confirmed& confirmed);
  void Prune(uint32_t node, uint64_t below);
  void MaybeDrop(Keys::iterator at);
  void DropRecord(uint32_t node, const std::string& key, uint64_t sequence);
  void Cancel(uint32_t node, uint64_t operation);
  void ForgetAsked(uint32_t node);

  void TakeOf(uint32_t node, std::vector<Message>& messages);
  void Load(uint32_t node, const v1::StoreRecord& record);
  void Unload(Keys::iterator at);
  void OpenIfAllHaveReported();

  uint64_t generation_ = 0;
  bool open_ = false;
  std::set<uint32_t> reported_;  // Nodes that have sent all their records.
  size_t unread_bytes_ = 0;      // Bytes of large answers on their way.
  std::vector<Node> nodes_;
  std::set<uint32_t> to_send_;  // Nodes for which something may be sent.
  // Nodes whose next answer waits until others have received theirs.
  std::deque<uint32_t> held_by_others_;
  Keys keys_;
  size_t existing_ = 0;
  size_t bytes_ = 0;
  // Bytes of the values of all keys; and of all values in memory, including
  // those in answers.
  size_t value_bytes_ = 0;
  std::shared_ptr<size_t> living_bytes_ = std::make_shared<size_t>(0);
  uint64_t last_sequence_ = 0;
  std::multiset<uint64_t>
      unconfirmed_;  // Key::unconfirmed_from of all keys where it is not 0.
  std::deque<Count> counts_;
  // Operations that wait for a key, by key: node and operation.
  std::map<std::string, std::set<std::pair<uint32_t, uint64_t>>> waiting_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_STORE_GENERATION_STORE_H_
