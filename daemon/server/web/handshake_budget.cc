#include "daemon/server/web/handshake_budget.h"

#include <algorithm>

namespace rollcall {

bool HandshakeBudget::Take(const std::string& network, absl::Time now) {
  if (now >= forgets_at_) ForgetTheFull(now);
  Refill(all_rate_, now, all_);
  if (all_.count < 1) return false;
  // Each new entry takes a handshake from the budget of all networks, which
  // bounds the number of entries.
  Left& left = networks_.try_emplace(network, Left{network_rate_.burst, now})
                   .first->second;
  Refill(network_rate_, now, left);
  if (left.count < 1) return false;
  --all_.count;
  --left.count;
  return true;
}

void HandshakeBudget::Refill(const HandshakeRate& rate, absl::Time now,
                             Left& left) {
  const double grown = absl::ToDoubleSeconds(now - left.at) * rate.per_second;
  left = {std::min(left.count + grown, rate.burst), now};
}

void HandshakeBudget::ForgetTheFull(absl::Time now) {
  const absl::Duration refill =
      absl::Seconds(network_rate_.burst / network_rate_.per_second);
  std::erase_if(networks_, [&](const auto& entry) {
    return now - entry.second.at >= refill;
  });
  forgets_at_ = now + refill;
}

}  // namespace rollcall
