// LogQuota: how many log lines the messages of one agent may cause.
//
// A node may cause a number of lines at once, and one more per interval. An
// address (an IPv6 /64 counts as one) has such a quota too, so that neither
// more messages nor more names cause more lines. Suppressed lines are counted;
// the count of each address is reported at most once per interval. Pure: time
// is passed in and never goes backwards. One thread.
//
// Bounded: at most `peers_max` nodes and addresses are remembered; beyond that,
// the one that has caused no line for longest is removed.
#ifndef ROLLCALL_DAEMON_CORE_LOG_QUOTA_H_
#define ROLLCALL_DAEMON_CORE_LOG_QUOTA_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/limits.h"

namespace rollcall {

class LogQuota {
 public:
  // Lines that were not written.
  struct Suppressed {
    std::string address;  // Empty: the count is of addresses that were removed.
    uint64_t lines;
  };

  explicit LogQuota(const LogLimits& limits) : limits_(limits) {}

  // Whether to write a line that `node` at `address` has caused. `network`: the
  // network that the address belongs to. Pass an empty node for a peer that was
  // not admitted, since it can give any name.
  bool Take(const std::string& node, const std::string& network,
            const std::string& address, absl::Time now);
  // Returns the counts that are due by `now`.
  std::vector<Suppressed> Due(absl::Time now);
  // When to call Due next; InfiniteFuture: no call is needed.
  absl::Time NextDue() const;
  size_t peers() const { return peers_.size(); }

 private:
  struct Peer {
    uint64_t last = 0;  // Larger is later.
    // When its whole quota is available again.
    absl::Time full_at = absl::InfinitePast();
    std::string address;
    uint64_t suppressed = 0;
    // When its suppressed lines are reported; also its key in due_.
    absl::Time told_at;
  };

  Peer& PeerOf(const std::string& key);
  static bool TakeOne(Peer& peer, int burst, absl::Duration interval,
                      absl::Time now);
  void Suppress(const std::string& key, Peer& peer, absl::Time now);

  const LogLimits limits_;
  // The key is "n" and the node, or "a" and the network.
  std::map<std::string, Peer> peers_;
  std::set<std::pair<uint64_t, std::string>> by_age_;
  uint64_t latest_ = 0;
  // Addresses with suppressed lines, by the time at which they are reported.
  std::set<std::pair<absl::Time, std::string>> due_;
  uint64_t forgotten_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_LOG_QUOTA_H_
