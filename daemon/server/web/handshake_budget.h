// HandshakeBudget: how many TLS handshakes may begin, from all networks
// together and from each network, so that one network cannot use up the whole
// budget.
//
// Pure: the time is an argument. One thread.
#ifndef ROLLCALL_DAEMON_SERVER_WEB_HANDSHAKE_BUDGET_H_
#define ROLLCALL_DAEMON_SERVER_WEB_HANDSHAKE_BUDGET_H_

#include <cstddef>
#include <map>
#include <string>

#include "absl/time/time.h"

namespace rollcall {

struct HandshakeRate {
  double per_second = 0;
  double burst = 0;
};

class HandshakeBudget {
 public:
  HandshakeBudget(HandshakeRate all, HandshakeRate network)
      : all_rate_(all), network_rate_(network) {}

  // Takes one handshake for this network. False: none is left, and nothing was
  // taken.
  bool Take(const std::string& network, absl::Time now);

  // The number of networks that are remembered: those whose budget may not be
  // full yet.
  size_t networks() const { return networks_.size(); }

 private:
  // How many handshakes could begin at the time `at`.
  struct Left {
    double count;
    absl::Time at;
  };
  static void Refill(const HandshakeRate& rate, absl::Time now, Left& left);
  void ForgetTheFull(absl::Time now);

  const HandshakeRate all_rate_;
  const HandshakeRate network_rate_;
  Left all_ = {all_rate_.burst, absl::InfinitePast()};
  std::map<std::string, Left> networks_;
  absl::Time forgets_at_ = absl::InfinitePast();
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_WEB_HANDSHAKE_BUDGET_H_
