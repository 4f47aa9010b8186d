#include "client/facts/watch/fact_reporter.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "client/facts/watch/fact_watch.h"
#include "daemon/base/clock.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

std::string Line(const v1::FactChange& change, bool json) {
  if (!json) return FactLine(change) + "\n";
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(change, &text, options)
           .ok()) {
    text = "{}";
  }
  return text + "\n";
}

std::string EndJson(const std::string& text) {
  google::protobuf::Struct line;
  (*line.mutable_fields())["ended"].set_string_value(
      Printable(text, Limits::fact_text_bytes_max));
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(line, &json).ok()) return "";
  return json;
}

}  // namespace

FactReporter::FactReporter(int out_fd, bool json)
    : out_fd_(out_fd),
      json_(json),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void FactReporter::Take(const v1::FactChange& change) {
  {
    MutexLock lock(mutex_);
    damper_.Take(change, MonotonicNow());
  }
  const uint64_t one = 1;
  (void)!write(bell_.get(), &one, sizeof one);
}

// A line is shorter than PIPE_BUF, so the kernel does not mix it with those of
// another process.
bool FactReporter::Write(const std::vector<v1::FactChange>& changes) const {
  for (const v1::FactChange& change : changes) {
    const std::string line = Line(change, json_);
    ssize_t n;
    do {
      n = write(out_fd_, line.data(), line.size());
    } while (n < 0 && errno == EINTR);
    if (n != static_cast<ssize_t>(line.size())) return false;
  }
  return true;
}

void FactReporter::TakeEnd(const std::string& text) const {
  const std::string line = (json_ ? EndJson(text) : EndLine(text)) + "\n";
  (void)!write(out_fd_, line.data(), line.size());
}

void FactReporter::Run(int in_fd) {
  while (true) {
    std::vector<v1::FactChange> due;
    absl::Duration wait;
    {
      MutexLock lock(mutex_);
      const absl::Time now = MonotonicNow();
      due = damper_.Due(now);
      wait = damper_.NextDue() - now;
    }
    if (!Write(due)) return;
    const int wait_ms = wait > absl::Hours(1)
                            ? -1
                            : static_cast<int>(absl::ToInt64Milliseconds(
                                  std::max(wait, absl::ZeroDuration()))) +
                                  1;
    pollfd polled[] = {{in_fd, POLLIN, 0}, {bell_.get(), POLLIN, 0}};
    if (poll(polled, 2, wait_ms) < 0 && errno != EINTR) return;
    if (polled[1].revents != 0) {
      uint64_t rung = 0;
      (void)!read(bell_.get(), &rung, sizeof rung);
    }
    if (polled[0].revents != 0) {
      char ignored[64];
      const ssize_t n = read(in_fd, ignored, sizeof ignored);
      if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) return;
    }
  }
}

void NameSource(const char* source) {
  pthread_setname_np(pthread_self(), source);
}

}  // namespace rollcall
