// NodeExchanges: the values that this node's ranks exchange with all other
// ranks of the running world (RankExchange). The counterpart of
// daemon/core/exchange.h.
//
// A key is complete on this node when each rank of the node has given its
// value. The values then go to the daemon, which answers with the values of all
// ranks. The latest answers are kept, because a restarted daemon has lost them.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_NODE_EXCHANGES_H_
#define ROLLCALL_CLIENT_AGENT_CORE_NODE_EXCHANGES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "client/agent/core/agent_events.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class NodeExchanges {
 public:
  // A world begins. `first_rank`: the first of the node's `ranks` ranks.
  void Begin(uint64_t generation, uint32_t first_rank, uint32_t ranks,
             int world_size);
  // The world has ended.
  void End() { *this = NodeExchanges(); }

  // A rank of the running world gives a value. Returns nothing; or the answer
  // for the ranks (an error names the key and what to do); or this node's
  // values, which go to the daemon.
  using Outcome = std::variant<std::monostate, AnswerExchange, v1::ExchangeIn>;
  Outcome Take(const RankExchanged& exchanged);

  // Takes the daemon's answer. nullopt: no rank waits for it.
  std::optional<AnswerExchange> Answer(const v1::ExchangeOut& exchange);

  // What to send on a new stream: this node's values of the complete keys that
  // have no answer, and of the latest answered keys, because other nodes may
  // lack the answer.
  std::vector<v1::ExchangeIn> ToRepeat() const;

 private:
  // Values of one key from this node's ranks.
  struct Open {
    std::vector<std::optional<std::string>> values;
    bool said = false;
  };

  v1::ExchangeIn ValuesOf(const std::string& key, const Open& open) const;
  AnswerExchange Refusal(const std::string& key, absl::StatusCode code,
                         const std::string& why) const;

  uint64_t generation_ = 0;
  uint32_t first_rank_ = 0;
  uint32_t ranks_ = 0;
  int world_size_ = 0;
  std::map<std::string, Open> open_;
  std::vector<v1::ExchangeOut> answered_;  // Oldest first.
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_NODE_EXCHANGES_H_
