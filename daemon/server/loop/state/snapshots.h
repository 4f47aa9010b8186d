// Snapshots: jobs' statuses for the HTTP port. A status is made at most once
// per kInterval and job, even if many clients request it, because the time that
// it takes grows with the number of nodes and the loop has to process
// heartbeats.
//
// The number of entries is bounded by the number of jobs: the next call removes
// entries older than kInterval.
//
// Thread rule: the loop thread only. The statuses are shared with other threads
// and never change.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STATE_SNAPSHOTS_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STATE_SNAPSHOTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

// Shared with the encoders, which run on another thread.
using SharedStatus = std::shared_ptr<const v1::JobStatus>;

// The answer to a request of the HTTP port.
struct Snapshot {
  // The job that the request named, or the daemon's only job; otherwise all
  // jobs.
  std::vector<SharedStatus> jobs;
  // Whether this is the answer for one job, and not a list.
  bool single = false;
  // The id of the single job's last event; 0: it has none.
  uint64_t last_event = 0;
  // Counts of the daemon: see JobStatus::refused and ::unauthenticated.
  SharedStatus counters;
};

class Snapshots {
 public:
  static constexpr absl::Duration kInterval = absl::Milliseconds(200);

  using Make = std::function<absl::StatusOr<v1::JobStatus>(
      const std::string& job, bool pings)>;

  explicit Snapshots(Make make) : make_(std::move(make)) {}

  // The status of a job, at most kInterval old. Errors: those of `make`.
  absl::StatusOr<SharedStatus> Get(const std::string& job, bool pings,
                                   absl::Time now) {
    std::erase_if(made_, [now](const auto& entry) {
      return now - entry.second.at >= kInterval;
    });
    const auto key = std::make_pair(job, pings);
    const auto at = made_.find(key);
    if (at != made_.end()) return at->second.status;
    absl::StatusOr<v1::JobStatus> status = make_(job, pings);
    if (!status.ok()) return status.status();
    auto shared = std::make_shared<const v1::JobStatus>(*std::move(status));
    made_[key] = {shared, now};
    return shared;
  }

 private:
  struct Made {
    SharedStatus status;
    absl::Time at;
  };

  const Make make_;
  std::map<std::pair<std::string, bool>, Made> made_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STATE_SNAPSHOTS_H_
