// StoreLink: the messages about the store for one agent: records to keep,
// answers.
//
// Messages are numbered on each stream, and the agent reports which it has
// received. Answers with large values wait while too many bytes of them are on
// their way. So neither an agent that reads slowly nor a value that all nodes
// ask for at once fills the daemon's memory. Records do not wait: an agent
// keeps at most Limits::store_node_bytes_max.
//
// Pure; one thread.
#ifndef ROLLCALL_DAEMON_CORE_STORE_STORE_LINK_H_
#define ROLLCALL_DAEMON_CORE_STORE_STORE_LINK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The result of an operation. Values are shared, because many nodes may ask for
// the same value.
struct StoreAnswer {
  uint64_t operation = 0;
  v1::StoreResult result;  // Without its value.
  std::shared_ptr<const std::string> value;
};

inline StoreAnswer AnswerOf(
    uint64_t operation, int64_t number,
    std::shared_ptr<const std::string> value = nullptr) {
  StoreAnswer answer;
  answer.operation = operation;
  answer.result.set_number(number);
  answer.value = std::move(value);
  return answer;
}

class StoreLink {
 public:
  // A record that was sent to the agent and that it has received.
  struct Confirmed {
    std::string key;
    uint64_t sequence = 0;
  };

  // Begins a new stream. Drops what waits to be sent. Returns the keys whose
  // records may not have arrived. `unread_bytes`, here and below: the bytes of
  // large answers on their way on all links.
  std::vector<std::string> Reset(size_t& unread_bytes);
  // The number of the stream; 0: the stream on which the world was sent.
  uint64_t number() const { return number_; }

  void Add(v1::StoreRecord record) { records_.push_back(std::move(record)); }
  void Answer(StoreAnswer answer) { answers_.push_back(std::move(answer)); }
  void Open() { open_ = true; }
  void AskReport() { report_ = true; }

  // The agent has received this message and all messages before it.
  std::vector<Confirmed> Received(uint64_t message, size_t& unread_bytes);

  // The next message; nullopt: nothing waits, or too many bytes are on their
  // way.
  std::optional<v1::StoreOut> Next(size_t& unread_bytes);
  size_t answers() const { return answers_.size(); }
  // Whether the next answer waits only because of bytes on their way on other
  // links.
  bool IsHeldByOthers(size_t unread_bytes) const;

 private:
  struct Sent {
    uint64_t message = 0;
    size_t large_bytes = 0;
    std::vector<Confirmed> records;
  };

  bool MayAnswer(size_t unread_bytes) const;

  uint64_t number_ = 0;
  uint64_t last_message_ = 0;
  bool open_ = false;
  bool report_ = false;
  std::deque<v1::StoreRecord> records_;
  std::deque<StoreAnswer> answers_;
  std::deque<Sent> sent_;   // Not received yet.
  size_t large_bytes_ = 0;  // Of large answers in sent_.
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_STORE_STORE_LINK_H_
