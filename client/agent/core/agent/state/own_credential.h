// OwnCredential: the credential that the daemon issued to this node, in
// Welcome or NewCredential.
//
// Invariant: it names the incarnation for which it was issued, so a later
// incarnation can prove that it follows that one.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_OWN_CREDENTIAL_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_OWN_CREDENTIAL_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class OwnCredential {
 public:
  // The daemon never issues a longer one.
  static constexpr size_t bytes_max = 64;

  // Keeps `credential`, issued for `incarnation`. An empty one means that the
  // node has none. One that is too long is ignored.
  void Take(const std::string& credential, uint64_t incarnation) {
    if (credential.size() > bytes_max) return;
    bytes_ = credential;
    incarnation_ = incarnation;
  }

  // The daemon rejects it, or the agent attends another run.
  void Forget() { bytes_.clear(); }

  bool held() const { return !bytes_.empty(); }

  // Adds it to the Hello of `hello.incarnation()`.
  void AddTo(v1::Hello& hello) const {
    if (!held()) return;
    hello.set_node_credential(bytes_);
    if (incarnation_ != hello.incarnation()) {
      hello.set_previous_incarnation(incarnation_);
    }
  }

 private:
  std::string bytes_;  // Empty: none.
  uint64_t incarnation_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_OWN_CREDENTIAL_H_
