// AgentIncarnations: the nonces (daemon/security/secrets/incarnation_nonce.h)
// of the agent's current incarnation and of the next one, which the agent uses
// when it must attend with a new incarnation. Agent itself knows only
// incarnations.
//
// Thread rule: one thread.
#ifndef ROLLCALL_CLIENT_AGENT_LINK_AGENT_INCARNATIONS_H_
#define ROLLCALL_CLIENT_AGENT_LINK_AGENT_INCARNATIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "daemon/security/secrets/incarnation_nonce.h"

namespace rollcall {

class AgentIncarnations {
 public:
  // `draw` returns a new random nonce.
  AgentIncarnations(std::string job, std::string node,
                    std::function<std::string()> draw = DrawIncarnationNonce)
      : job_(std::move(job)),
        node_(std::move(node)),
        draw_(std::move(draw)),
        next_nonce_(draw_()) {}

  // The next incarnation: for StreamDown::fresh_incarnation and for the first
  // Hello. Does not change until a Hello uses it.
  uint64_t next() const { return IncarnationOf(job_, node_, next_nonce_); }
  // The agent sends a Hello with this incarnation.
  void Said(uint64_t incarnation) {
    if (incarnation == next()) nonce_ = std::exchange(next_nonce_, draw_());
  }
  // The nonce of the incarnation in the latest Hello. Secret.
  const std::string& nonce() const { return nonce_; }

 private:
  const std::string job_;
  const std::string node_;
  const std::function<std::string()> draw_;
  std::string nonce_;
  std::string next_nonce_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_LINK_AGENT_INCARNATIONS_H_
