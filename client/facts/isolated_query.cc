#include "client/facts/isolated_query.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/files/write_error.h"
#include "daemon/base/processes/child_process.h"

namespace rollcall {
namespace {

using SteadyClock = std::chrono::steady_clock;

// The limit for all reports of one query; one report has at most about 256 KiB.
constexpr size_t kReportsBytesMax = 64 << 20;
constexpr size_t kStepBytesMax = 256;
// How long a copy may take to end once it has closed its pipe.
constexpr absl::Duration kEndPatience = absl::Milliseconds(100);

struct ReportHead {
  uint32_t facts_bytes = 0;
  uint16_t step_bytes = 0;
  uint16_t whole = 0;
};

// Runs in the copy.
void RunQuery(const IsolatedQuery& query, int fd) {
  // Libraries print to stdout; their output must not mix with the parent's.
  dup2(STDERR_FILENO, STDOUT_FILENO);
  const v1::Facts facts =
      query.ask([fd](const v1::Facts& so_far, absl::string_view step) {
        if (WriteWhole(fd, EncodeReport(so_far, step, false)) != 0) _exit(1);
      });
  const int error = WriteWhole(fd, EncodeReport(facts, "", true));
  // Not exit(): a library's destructors may hang as well.
  _exit(error == 0 ? 0 : 1);
}

struct Running {
  explicit Running(ChildProcess c) : child(std::move(c)) {}
  ChildProcess child;
  std::string bytes;
  bool at_end = false;
};

bool Fits(const Running& running) {
  return running.bytes.size() <= kReportsBytesMax;
}

// Reads from all copies until each pipe is closed, or the time is over.
void ReadAll(std::vector<std::optional<Running>>& all,
             SteadyClock::time_point until) {
  std::string buffer(64 << 10, '\0');
  while (true) {
    std::vector<pollfd> fds;
    std::vector<Running*> of;
    for (std::optional<Running>& running : all) {
      if (!running || running->at_end || !Fits(*running)) continue;
      fds.push_back({running->child.out_fd(), POLLIN, 0});
      of.push_back(&*running);
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - SteadyClock::now());
    if (fds.empty() || left.count() <= 0) return;
    const int count =
        poll(fds.data(), fds.size(),
             static_cast<int>(std::min<int64_t>(left.count() + 1, 1 << 30)));
    if (count < 0 && errno != EINTR) return;
    for (size_t i = 0; count > 0 && i < fds.size(); ++i) {
      if (fds[i].revents == 0) continue;
      const ssize_t n = read(fds[i].fd, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        of[i]->at_end = true;
      } else {
        of[i]->bytes.append(buffer.data(), static_cast<size_t>(n));
      }
    }
  }
}

}  // namespace

std::string EncodeReport(const v1::Facts& facts, absl::string_view step,
                         bool whole) {
  step = step.substr(0, kStepBytesMax);
  std::string body = facts.SerializeAsString();
  ReportHead head;
  head.facts_bytes = static_cast<uint32_t>(body.size());
  head.step_bytes = static_cast<uint16_t>(step.size());
  head.whole = whole ? 1 : 0;
  std::string report(reinterpret_cast<const char*>(&head), sizeof(head));
  absl::StrAppend(&report, step, body);
  return report;
}

IsolatedAnswer DecodeReports(absl::string_view bytes) {
  IsolatedAnswer answer;
  answer.failure = "it gave no answer";
  while (bytes.size() >= sizeof(ReportHead)) {
    ReportHead head;
    std::memcpy(&head, bytes.data(), sizeof(head));
    bytes.remove_prefix(sizeof(head));
    const size_t size = size_t{head.step_bytes} + head.facts_bytes;
    if (size > bytes.size()) break;
    v1::Facts facts;
    if (!facts.ParseFromArray(bytes.data() + head.step_bytes,
                              static_cast<int>(head.facts_bytes))) {
      answer.failure = "its answer cannot be parsed";
      break;
    }
    answer.facts = std::move(facts);
    answer.step = std::string(bytes.substr(0, head.step_bytes));
    bytes.remove_prefix(size);
    if (head.whole != 0) {
      answer.failure.clear();
      break;
    }
  }
  return answer;
}

std::vector<IsolatedAnswer> AskIsolated(
    const std::vector<IsolatedQuery>& queries, absl::Duration timeout) {
  const auto until = SteadyClock::now() + absl::ToChronoNanoseconds(timeout);
  std::vector<std::optional<Running>> all(queries.size());
  std::vector<IsolatedAnswer> answers(queries.size());
  for (size_t i = 0; i < queries.size(); ++i) {
    absl::StatusOr<ChildProcess> child =
        ChildProcess::Fork([&queries, i](int fd) { RunQuery(queries[i], fd); });
    if (child.ok()) {
      all[i].emplace(*std::move(child));
    } else {
      answers[i].failure = std::string(child.status().message());
    }
  }
  ReadAll(all, until);
  for (size_t i = 0; i < queries.size(); ++i) {
    if (!all[i].has_value()) continue;
    Running& running = *all[i];
    answers[i] = DecodeReports(running.bytes);
    if (answers[i].failure.empty()) continue;
    const ChildProcess::Ending ending =
        running.child.End(running.at_end ? kEndPatience : absl::ZeroDuration());
    if (!running.at_end) {
      answers[i].failure =
          Fits(running)
              ? absl::StrCat("no answer within ", absl::FormatDuration(timeout))
              : "its answer is too large";
      if (!ending.reaped)
        absl::StrAppend(&answers[i].failure, "; ended ", ending.Text());
    } else if (ending.signal != 0 || ending.code != 0) {
      answers[i].failure = absl::StrCat("it ended ", ending.Text());
    }
  }
  return answers;
}

}  // namespace rollcall
