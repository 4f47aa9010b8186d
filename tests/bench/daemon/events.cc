// Measures the event log: the time of one event with its line in the file, the
// time to read the files at a daemon's start, and of an answer to
// `status --events --since`. For comparison: the write of the same lines alone.
//
//   events [EVENTS]     default: 1,000,000
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/durations.h"
#include "daemon/base/files/fd.h"
#include "daemon/server/events/event_log.h"

namespace rollcall::bench {
namespace {

double Ms(absl::Time since) {
  return absl::ToDoubleMilliseconds(MonotonicNow() - since);
}

size_t Bytes(const std::string& path) {
  std::error_code none;
  const auto bytes = std::filesystem::file_size(path, none);
  return none ? 0 : bytes;
}

// The sum of all answers to one request.
size_t Ask(const EventLog& log, absl::Duration within, absl::Time wall_now) {
  v1::EventsRequest request;
  request.set_job("job");
  ToProto(within, request.mutable_within());
  size_t lines = 0;
  for (bool more = true; more;) {
    const v1::EventsResponse answer = log.Events(request, wall_now);
    lines += static_cast<size_t>(answer.lines_size());
    request.set_after(answer.last());
    more = answer.more();
  }
  return lines;
}

int Run(int events) {
  char path[] = "/tmp/bench_events_XXXXXX";
  const std::string folder = mkdtemp(path);
  const absl::Time began = absl::FromUnixSeconds(1'700'000'000);
  std::string line;
  {
    EventLog log(folder);
    const absl::Time since = MonotonicNow();
    for (int i = 0; i < events; ++i) {
      line = absl::StrCat("job=job event=lost node=node-", i % 1024,
                          " code=REASON_CODE_LOST_STREAM reason=\"its stream "
                          "broke and did not come back\"");
      log.Add("job", "0123456789abcdef", Log::Level::kWarning, line,
              began + i * absl::Milliseconds(100));
    }
    std::printf("%d events: %.2f us each; %zu KiB in files\n", events,
                Ms(since) * 1000 / events,
                (Bytes(folder + EventLog::kFile) +
                 Bytes(folder + EventLog::kOlderFile)) >>
                    10);
  }
  {
    const Fd file(open((folder + "/floor").c_str(),
                       O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    const std::string text(240, 'x');
    const absl::Time since = MonotonicNow();
    size_t written = 0;
    for (int i = 0; i < events / 10; ++i) {
      const ssize_t wrote = write(file.get(), text.data(), text.size());
      if (wrote > 0) written += static_cast<size_t>(wrote);
    }
    std::printf("floor, write of 240 bytes: %.2f us each (%zu bytes)\n",
                Ms(since) * 10000 / events, written);
  }
  const absl::Time since = MonotonicNow();
  const EventLog again(folder);
  std::printf("read at start: %.0f ms\n", Ms(since));
  const absl::Time ended = began + events * absl::Milliseconds(100);
  for (const absl::Duration within : {absl::Minutes(1), absl::Hours(24)}) {
    const absl::Time asked = MonotonicNow();
    const size_t lines = Ask(again, within, ended);
    std::printf("the latest %s: %zu events in %.2f ms\n",
                absl::FormatDuration(within).c_str(), lines, Ms(asked));
  }
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace rollcall::bench

int main(int argc, char** argv) {
  int events = 1'000'000;
  if (argc > 2 ||
      (argc == 2 && (!absl::SimpleAtoi(argv[1], &events) || events < 1))) {
    std::fprintf(stderr, "events [EVENTS]\n");
    return 2;
  }
  return rollcall::bench::Run(events);
}
