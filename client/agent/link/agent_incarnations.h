// AgentIncarnations: the nonces of the agent's lives
// (daemon/security/incarnation_nonce.h): of the current life, and of the next
// one, which begins when the agent must attend with a new incarnation. The
// Agent value itself knows incarnations only.
//
// Thread rule: one thread.
#ifndef ROLLCALL_CLIENT_AGENT_LINK_AGENT_INCARNATIONS_H_
#define ROLLCALL_CLIENT_AGENT_LINK_AGENT_INCARNATIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "daemon/security/incarnation_nonce.h"

namespace rollcall {

class AgentIncarnations {
 public:
  // `draw` makes the nonces.
  AgentIncarnations(std::string job, std::string node,
                    std::function<std::string()> draw = DrawIncarnationNonce)
      : job_(std::move(job)),
        node_(std::move(node)),
        draw_(std::move(draw)),
        next_nonce_(draw_()) {}

  // For StreamDown::fresh_incarnation, and the incarnation of the first life.
  // Does not change until it is used in a Hello.
  uint64_t next() const { return IncarnationOf(job_, node_, next_nonce_); }
  // The agent sends a Hello with this incarnation.
  void Said(uint64_t incarnation) {
    if (incarnation == next()) nonce_ = std::exchange(next_nonce_, draw_());
  }
  // Of the life in which the latest Hello was sent. Secret.
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
