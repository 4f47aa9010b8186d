#include "daemon/journal/etcd/leader_lease.h"

namespace rollcall {

void LeaderLease::Renewed(absl::Time sent, absl::Duration left) {
  if (left <= absl::ZeroDuration()) return End();
  const absl::Time until = sent + left * 9 / 10;
  if (until <= until_) return;
  until_ = until;
  renew_at_ = sent + left / 4;
}

}  // namespace rollcall
