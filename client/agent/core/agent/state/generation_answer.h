// GenerationAnswer: what the daemon must hear of the last generation that it
// proposed to this node or ended: Refused, Stopped or nothing.
//
// Prepared is WorldChange's.
//
// Invariants:
//   1. There is at most one answer; a newer one replaces it.
//   2. It is sent once on each stream, until it is forgotten: a daemon that was
//      restarted does not know it.
//   3. Stopped is sent only when no rank is left except those that wait.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_GENERATION_ANSWER_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_GENERATION_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class GenerationAnswer {
 public:
  // The node cannot take part in the proposed generation.
  void Refuse(uint64_t generation, const std::string& reason) {
    v1::Refused& refused = *Replace().mutable_refused();
    refused.set_generation(generation);
    refused.set_reason(reason);
  }

  // The generation has ended; its ranks are being stopped.
  void Stopped(uint64_t generation) {
    Replace().mutable_stopped()->set_generation(generation);
  }

  // A newer generation makes the answer void.
  void Forget() { answer_.reset(); }

  void NewStream() { said_ = false; }

  // Returns the answer if it is to be sent now on the current stream.
  // `settled`: no rank is left here except those that wait.
  std::optional<v1::AgentMessage> Take(bool settled) {
    if (!answer_.has_value() || said_ || (answer_->has_stopped() && !settled)) {
      return std::nullopt;
    }
    said_ = true;
    return answer_;
  }

 private:
  v1::AgentMessage& Replace() {
    said_ = false;
    return answer_.emplace();
  }

  std::optional<v1::AgentMessage> answer_;
  bool said_ = false;  // On the current stream.
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_GENERATION_ANSWER_H_
