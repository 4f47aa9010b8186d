#include "daemon/core/failures/reasons.h"

#include "daemon/core/failures/root_cause.h"

namespace rollcall {

void Reasons::Ended(uint64_t generation, v1::ReasonCode code,
                    const std::string& text, const std::string& node,
                    uint32_t charged) {
  next_.Clear();
  next_.set_generation(generation);
  next_.set_restarts_charged(charged);
  Set(code, text, node);
}

bool Reasons::Blame(const v1::RootCause& cause, uint32_t charged,
                    uint64_t current) {
  if (next_.generation() != cause.generation()) return false;
  next_.set_restarts_charged(charged);
  Set(cause.code(), Describe(cause), cause.node());
  if (current_.generation() == cause.generation() + 1 &&
      current_.generation() == current) {
    Proposed(current);
  }
  return true;
}

void Reasons::Proposed(uint64_t generation, const std::string& more) {
  next_.set_reason(next_.reason() + more);
  current_ = next_;
  current_.set_generation(generation);
}

void Reasons::Set(v1::ReasonCode code, const std::string& text,
                  const std::string& node) {
  next_.set_code(code);
  next_.set_reason(text);
  next_.set_node(node);
}

}  // namespace rollcall
