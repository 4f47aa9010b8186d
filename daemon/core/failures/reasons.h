// Reasons: why the current generation was formed, and why the next one will be.
//
// A pure value; any thread.
#ifndef ROLLCALL_DAEMON_CORE_FAILURES_REASONS_H_
#define ROLLCALL_DAEMON_CORE_FAILURES_REASONS_H_

#include <cstdint>
#include <string>

#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Reasons {
 public:
  // Before any generation of this run, or of this daemon, has ended. `code` and
  // `text`: why its first one is formed.
  Reasons(v1::ReasonCode code, const std::string& text) { Set(code, text, ""); }

  // The generation has ended. `charged`: the restarts charged, including this
  // one.
  void Ended(uint64_t generation, v1::ReasonCode code, const std::string& text,
             const std::string& node, uint32_t charged);
  // Makes `cause` the reason for the end of the cause's generation. If the next
  // generation is already proposed and is still the current one (`current`),
  // its reason changes as well. No effect if another generation has ended
  // since. Returns whether it had an effect.
  bool Blame(const v1::RootCause& cause, uint32_t charged, uint64_t current);
  // The next generation is proposed. `more` is appended to the reason.
  void Proposed(uint64_t generation, const std::string& more = "");

  // The reason of the next generation; once that is proposed, of the current
  // one.
  const v1::Reform& next() const { return next_; }
  // The reason of the current generation.
  const v1::Reform& current() const { return current_; }

 private:
  void Set(v1::ReasonCode code, const std::string& text,
           const std::string& node);

  v1::Reform next_;
  v1::Reform current_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FAILURES_REASONS_H_
