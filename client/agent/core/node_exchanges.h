// NodeExchanges: the values that this node's ranks exchange with all others, in
// the running world (RankExchange). The counterpart of daemon/core/exchange.h.
//
// A key is complete here when each rank of the node has given its value. The
// values then go to the daemon, which answers with those of all ranks. Answers
// are kept, because a restarted daemon has forgotten them.
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
  // A world runs; `first_rank`: the first of the node's `ranks` ranks.
  void Begin(uint64_t generation, uint32_t first_rank, uint32_t ranks,
             int world_size);
  // The world has ended.
  void End() { *this = NodeExchanges(); }

  // A rank of the running world gives a value. Nothing to do; or the answer for
  // the ranks (an error names the key and what to do); or this node's values,
  // for the daemon.
  using Outcome = std::variant<std::monostate, AnswerExchange, v1::ExchangeIn>;
  Outcome Take(const RankExchanged& exchanged);

  // The daemon's answer. nullopt: no rank waits for it.
  std::optional<AnswerExchange> Answer(const v1::ExchangeOut& exchange);

  // What to send on a new stream: the complete keys without an answer, and
  // those of the latest answers, because other nodes may lack theirs.
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
  std::vector<v1::ExchangeOut> answered_;  // Ordered by time, the latest last.
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_NODE_EXCHANGES_H_
