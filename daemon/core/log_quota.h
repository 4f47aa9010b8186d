// LogQuota: how many log lines the messages of one agent may cause.
//
// A node has a number of lines at once and one more each interval, and so has
// an address (an IPv6 /64 counts as one), so that neither more messages nor
// more names make more lines. What is not written is counted, and told for each
// address at most once an interval. Pure: time comes in and never goes
// backwards. One thread.
//
// Bounded: at most `peers_max` nodes and addresses are remembered; beyond it
// the one that has caused no line for longest is forgotten.
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
    std::string address;  // Empty: of addresses that were forgotten.
    uint64_t lines;
  };

  explicit LogQuota(const LogLimits& limits) : limits_(limits) {}

  // Whether a line is written that `node` has caused, which comes from
  // `address`. `network`: what the address counts as. Pass an empty node
  // for a peer that was not admitted: it can give any name.
  bool Take(const std::string& node, const std::string& network,
            const std::string& address, absl::Time now);
  // What is to be told by `now`.
  std::vector<Suppressed> Due(absl::Time now);
  // When to call Due next; InfiniteFuture: no need.
  absl::Time NextDue() const;
  size_t peers() const { return peers_.size(); }

 private:
  struct Peer {
    uint64_t last = 0;  // Larger: later.
    // When all its lines are there again.
    absl::Time full_at = absl::InfinitePast();
    std::string address;
    uint64_t suppressed = 0;
    // When those are told: its key in due_.
    absl::Time told_at;
  };

  Peer& PeerOf(const std::string& key);
  static bool TakeOne(Peer& peer, int burst, absl::Duration interval,
                      absl::Time now);
  void Suppress(const std::string& key, Peer& peer, absl::Time now);

  const LogLimits limits_;
  // By "n" and node, or by "a" and network.
  std::map<std::string, Peer> peers_;
  std::set<std::pair<uint64_t, std::string>> by_age_;
  uint64_t latest_ = 0;
  // Addresses with lines that were not written, by when that is told.
  std::set<std::pair<absl::Time, std::string>> due_;
  uint64_t forgotten_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_LOG_QUOTA_H_
