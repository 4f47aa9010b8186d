#include "client/agent/fact_watcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/facts/watch/fact_watch.h"

namespace rollcall {
namespace {

constexpr size_t kLineBytesMax = 4096;

}  // namespace

FactWatcher::FactWatcher(const NodeFactsOptions& options, Changed changed,
                         Ended ended)
    : changed_(std::move(changed)),
      ended_(std::move(ended)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      thread_([this, options] { Run(options); }) {}

FactWatcher::~FactWatcher() {
  const uint64_t one = 1;
  (void)!write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void FactWatcher::Run(NodeFactsOptions options) {
  auto child = SpawnFactWatch(options);
  absl::Status status = child.status();
  if (child.ok()) {
    status = Follow(*child);
    const ChildProcess::Ending ending = child->End(
        absl::IsAborted(status) ? absl::Seconds(1) : absl::ZeroDuration());
    if (absl::IsAborted(status)) {
      status = absl::AbortedError(absl::StrCat("it ended ", ending.Text()));
    }
  }
  if (absl::IsCancelled(status)) return;
  ended_(absl::StrCat("changes of this node's facts are not watched any more: ",
                      status.message()));
}

// Returns CANCELLED: this object is being destroyed. ABORTED: the process ended
// by itself. INTERNAL: it wrote something else.
absl::Status FactWatcher::Follow(ChildProcess& child) {
  std::string text;
  while (true) {
    pollfd polled[] = {{child.out_fd(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (poll(polled, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return absl::ErrnoToStatus(errno, "poll");
    }
    if (polled[1].revents != 0) return absl::CancelledError();
    char piece[4096];
    const ssize_t n = read(child.out_fd(), piece, sizeof piece);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return absl::AbortedError("");
    text.append(piece, static_cast<size_t>(n));
    size_t end;
    while ((end = text.find('\n')) != std::string::npos) {
      const std::string line = text.substr(0, end);
      text.erase(0, end + 1);
      if (std::optional<std::string> what = ParseEndLine(line)) {
        ended_(*std::move(what));
        continue;
      }
      std::optional<v1::FactChange> change = ParseFactLine(line);
      if (!change) return absl::InternalError("it wrote what is no change");
      changed_(*std::move(change));
    }
    if (text.size() > kLineBytesMax) {
      return absl::InternalError("it wrote a line that is too long");
    }
  }
}

}  // namespace rollcall
