// WatchList: which watcher watches which job, and when each gets a status: at
// each change, at most five times a second.
//
// Thread rule: the loop thread only.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STATE_WATCH_LIST_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STATE_WATCH_LIST_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/server/loop/state/job_table.h"
#include "daemon/server/loop/streams/stream.h"

namespace rollcall {

class WatchList {
 public:
  static constexpr absl::Duration kInterval = absl::Milliseconds(200);
  // How often the watchers of a gathering job get a status because further
  // connections have failed.
  static constexpr absl::Duration kFailedInterval = absl::Seconds(1);

  // `jobs` must outlive the list. `patience`: how long a watcher may leave a
  // status unread while newer ones come. `finish`: applied to each status
  // before it is offered. `failed`: the number of connections that have failed
  // so far.
  WatchList(JobTable& jobs, absl::Duration patience,
            std::function<v1::JobStatus(v1::JobStatus)> finish,
            std::function<uint64_t()> failed)
      : jobs_(jobs),
        patience_(patience),
        finish_(std::move(finish)),
        failed_(std::move(failed)) {}

  // Ends the watcher if the job is unknown, or if there are too many watchers
  // in total or of this viewer. `viewer`: a token id; empty: an admin, for whom
  // only the total is bounded.
  void Add(uint64_t id, const std::string& job,
           std::shared_ptr<Watcher> watcher, const std::string& viewer);
  void Remove(uint64_t id) { watches_.erase(id); }

  // Offers a status to all watchers that are due. Removes watchers whose job
  // has ended, and those that do not read.
  void Publish(absl::Time now);
  // When Publish has something to do next.
  absl::Time NextDue() const;
  void EndAll(const absl::Status& status);

 private:
  struct Watch {
    std::string job;
    // Shared with the call, which may end at any time.
    std::shared_ptr<Watcher> watcher;
    std::string viewer;
    uint64_t told_revision = 0;
    uint64_t told_failed = 0;
    absl::Time due = absl::InfinitePast();
    // When told_failed was last compared with the number of failed connections.
    absl::Time looked_at = absl::InfinitePast();
    // Since when the watcher has left a status unread.
    absl::Time behind_since = absl::InfiniteFuture();
  };

  bool HasNews(const Watch& watch) const;
  // Whether the watcher has left a status unread for `patience` and still does.
  bool IsStalled(Watch& watch, absl::Time now) const;
  // When HasNews has to be called again because it may change without an event;
  // InfiniteFuture: never.
  absl::Time LooksAgain(const Watch& watch) const;
  absl::Status AdmitOneMore(const std::string& viewer) const;
  void Tell(Watch& watch, std::shared_ptr<const v1::JobStatus> status,
            bool last, absl::Time now);

  JobTable& jobs_;
  const absl::Duration patience_;
  const std::function<v1::JobStatus(v1::JobStatus)> finish_;
  const std::function<uint64_t()> failed_;
  std::map<uint64_t, Watch> watches_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STATE_WATCH_LIST_H_
