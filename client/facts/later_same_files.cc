#include "client/facts/later_same_files.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/facts/isolated_query.h"
#include "daemon/base/files/write_error.h"

namespace rollcall {
namespace {

// For the copies that the copy makes, which may not end at once.
constexpr absl::Duration kPatience = absl::Seconds(2);
constexpr size_t kFilesAnswerBytesMax = 1 << 20;

// Runs in the copy.
void ReadWhenTold(const std::vector<SameQuery>& queries, const SystemUser* user,
                  absl::Duration timeout, int go, int out) {
  char byte = 0;
  ssize_t n = 0;
  do {
    n = read(go, &byte, 1);
  } while (n < 0 && errno == EINTR);
  if (n != 1) return;  // The parent no longer needs it.
  v1::Facts facts;
  GatherSameFiles(queries, user, timeout, facts);
  WriteWhole(out, EncodeReport(facts, "", /*whole=*/true));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaterSameFiles>> LaterSameFiles::Prepare(
    std::vector<SameQuery> queries, const SystemUser* user,
    absl::Duration timeout) {
  int ends[2];
  Fd cancel(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (cancel.get() < 0 || pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
  }
  const Fd told(ends[0]);
  Fd go(ends[1]);
  absl::StatusOr<ChildProcess> copy = ChildProcess::Fork([&](int out) {
    // Otherwise the copy would never see the end of its own pipe.
    close(go.get());
    ReadWhenTold(queries, user, timeout, told.get(), out);
  });
  if (!copy.ok()) return copy.status();
  std::vector<std::string> paths;
  for (const SameQuery& query : queries) paths.push_back(query.path);
  return std::unique_ptr<LaterSameFiles>(
      new LaterSameFiles(*std::move(copy), std::move(go), std::move(cancel),
                         std::move(paths), timeout));
}

LaterSameFiles::LaterSameFiles(ChildProcess copy, Fd go, Fd cancel,
                               std::vector<std::string> paths,
                               absl::Duration timeout)
    : copy_(std::move(copy)),
      go_(std::move(go)),
      cancel_(std::move(cancel)),
      paths_(std::move(paths)),
      timeout_(timeout) {}

LaterSameFiles::~LaterSameFiles() {
  Cancel();
  if (thread_.joinable()) thread_.join();
}

void LaterSameFiles::Cancel() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote =
      write(cancel_.get(), &one, sizeof(one));
}

void LaterSameFiles::Read(Done done) {
  thread_ = std::thread([this, done = std::move(done)] { done(Answer()); });
}

std::vector<v1::SameFile> LaterSameFiles::Answer() {
  std::string bytes;
  absl::Status status = absl::OkStatus();
  if (write(go_.get(), "", 1) != 1) {
    status = absl::AbortedError("the process that reads files is gone");
  } else {
    status = copy_.Read(timeout_ + kPatience, kFilesAnswerBytesMax, nullptr,
                        cancel_.get(), bytes);
  }
  if (absl::IsCancelled(status)) return {};
  const IsolatedAnswer answer = DecodeReports(bytes);
  if (status.ok() && answer.failure.empty() &&
      answer.facts.same_files_size() == static_cast<int>(paths_.size())) {
    return {answer.facts.same_files().begin(), answer.facts.same_files().end()};
  }
  std::vector<v1::SameFile> failed;
  for (const std::string& path : paths_) {
    v1::SameFile& file = failed.emplace_back();
    file.set_path(path);
    file.set_error(status.ok() ? answer.failure
                               : std::string(status.message()));
  }
  return failed;
}

}  // namespace rollcall
