// WatchList: who watches which job, and when each is due to be told: at a
// change, at most five times a second.
//
// Thread rule: the loop thread alone.
#ifndef ROLLCALL_DAEMON_SERVER_WATCH_LIST_H_
#define ROLLCALL_DAEMON_SERVER_WATCH_LIST_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/server/job_table.h"
#include "daemon/server/stream.h"

namespace rollcall {

class WatchList {
 public:
  static constexpr size_t kWatchersMax = 256;
  static constexpr absl::Duration kInterval = absl::Milliseconds(200);

  // `jobs` must outlive the list. `finish`: what each status goes through
  // before it is told.
  WatchList(JobTable& jobs, std::function<v1::JobStatus(v1::JobStatus)> finish)
      : jobs_(jobs), finish_(std::move(finish)) {}

  // Ends the watcher where the job is unknown or there are too many.
  void Add(uint64_t id, const std::string& job,
           std::shared_ptr<Watcher> watcher);
  void Remove(uint64_t id) { watches_.erase(id); }

  // Tells all that are due; who has heard of the end is let go.
  void Publish(absl::Time now);
  // When Publish has something to do next.
  absl::Time NextDue() const;
  void EndAll(const absl::Status& status);

 private:
  struct Watch {
    std::string job;
    // Shared with the call, which may end at any time.
    std::shared_ptr<Watcher> watcher;
    uint64_t told_revision = 0;
    absl::Time due = absl::InfinitePast();
  };

  bool HasNews(const Watch& watch) const;

  JobTable& jobs_;
  const std::function<v1::JobStatus(v1::JobStatus)> finish_;
  std::map<uint64_t, Watch> watches_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_WATCH_LIST_H_
