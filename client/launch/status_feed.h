// StatusFeed: delivers the states of a job to one loop as they change.
//
// Only the latest state is kept: a slow loop misses states, never the last one.
//
// Thread rule: the loop's thread; states arrive on gRPC's threads.
#ifndef ROLLCALL_CLIENT_LAUNCH_STATUS_FEED_H_
#define ROLLCALL_CLIENT_LAUNCH_STATUS_FEED_H_

#include <memory>
#include <optional>
#include <string>

#include "client/admin/admin_client.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/mutex.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

class StatusFeed {
 public:
  StatusFeed();

  // Watches at one endpoint; an earlier watch ends. A daemon that is gone or
  // refuses access delivers nothing.
  void Begin(const std::string& endpoint, const JobAddress& address);
  void End() { watch_ = nullptr; }

  // Readable when Take has a state.
  int fd() const { return fd_.get(); }
  std::optional<v1::JobStatus> Take();

 private:
  void Put(v1::JobStatus status);

  const Fd fd_;
  Mutex mutex_;
  std::optional<v1::JobStatus> status_ ABSL_GUARDED_BY(mutex_);
  // Declared last: its destructor waits for its last call, which uses the
  // others.
  std::unique_ptr<JobWatch> watch_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_STATUS_FEED_H_
