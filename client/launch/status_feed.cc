#include "client/launch/status_feed.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace rollcall {

StatusFeed::StatusFeed() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void StatusFeed::Begin(const std::string& endpoint, const JobAddress& address) {
  watch_ = nullptr;
  watch_ = std::make_unique<JobWatch>(
      endpoint, address,
      [this](v1::JobStatus status) { Put(std::move(status)); },
      // The launcher notices the end of a daemon by the end of its process.
      [](absl::Status) {});
}

void StatusFeed::Put(v1::JobStatus status) {
  {
    MutexLock lock(mutex_);
    status_ = std::move(status);
  }
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t wrote = write(fd_.get(), &one, sizeof(one));
}

std::optional<v1::JobStatus> StatusFeed::Take() {
  uint64_t count = 0;
  [[maybe_unused]] ssize_t got = read(fd_.get(), &count, sizeof(count));
  MutexLock lock(mutex_);
  return std::exchange(status_, std::nullopt);
}

}  // namespace rollcall
