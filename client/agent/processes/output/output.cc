#include "client/agent/processes/output/output.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/base/clock.h"
#include "daemon/base/files/write_error.h"
#include "daemon/base/live_bell.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr size_t kQueuedBytesMax = 4 << 20;
constexpr size_t kReadBytes = 64 << 10;
// The most that is read from a pipe after its rank has ended, since other
// processes may still write. A pipe holds 64 KiB by default, and 1 MiB at most.
constexpr size_t kDrainBytesMax = 1 << 20;
constexpr absl::Duration kLastWords = absl::Seconds(2);

}  // namespace

std::shared_ptr<OutputTarget> OutputTarget::Standing(int fd, int bell) {
  auto target = std::make_shared<OutputTarget>();
  target->fd_ = fd;
  if (IsAboveLiveLine(fd, bell)) target->bell_ = bell;
  return target;
}

std::shared_ptr<OutputTarget> OutputTarget::File(
    std::shared_ptr<LogFolder> folder, std::string subfolder,
    std::string name) {
  auto target = Folder(std::move(folder));
  target->subfolder_ = std::move(subfolder);
  target->name_ = std::move(name);
  return target;
}

std::shared_ptr<OutputTarget> OutputTarget::Folder(
    std::shared_ptr<LogFolder> folder) {
  auto target = std::make_shared<OutputTarget>();
  target->folder_ = std::move(folder);
  return target;
}

std::string OutputTarget::Path() const {
  return absl::StrCat(folder_->path(), "/", subfolder_, "/", name_);
}

struct OutputWriter::Queue {
  struct Piece {
    std::shared_ptr<OutputTarget> to;
    std::string bytes;
  };

  void Run();
  static void Put(OutputTarget& to, const std::string& bytes);

  Mutex mutex;
  CondVar changed;
  std::deque<Piece> pieces ABSL_GUARDED_BY(mutex);
  // Includes the bytes that are being written.
  size_t bytes ABSL_GUARDED_BY(mutex) = 0;
  size_t count ABSL_GUARDED_BY(mutex) = 0;
  bool was_full ABSL_GUARDED_BY(mutex) = false;
  bool closing ABSL_GUARDED_BY(mutex) = false;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  std::function<void()> eased ABSL_GUARDED_BY(mutex);
};

void OutputWriter::Queue::Run() {
  // Other threads handle signals. Without SIGPIPE, write fails with EPIPE if a
  // reader has closed the pipe (| head).
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  while (true) {
    Piece piece;
    {
      MutexLock lock(mutex);
      while (pieces.empty() && !closing) changed.Wait(mutex);
      if (pieces.empty()) break;
      piece = std::move(pieces.front());
      pieces.pop_front();
    }
    Put(*piece.to, piece.bytes);
    std::function<void()> tell;
    {
      MutexLock lock(mutex);
      bytes -= piece.bytes.size();
      --count;
      if (count == 0 || (was_full && bytes <= kQueuedBytesMax / 2)) {
        was_full = false;
        tell = eased;
        changed.NotifyAll();
      }
    }
    if (tell) tell();
  }
  MutexLock lock(mutex);
  ended = true;
  changed.NotifyAll();
}

void OutputWriter::Queue::Put(OutputTarget& to, const std::string& bytes) {
  if (to.failed_) return;
  std::string why;
  int error = 0;
  if (to.fd_ < 0) {
    if (to.name_.empty()) {
      // On an error, the first file in the folder tries again and reports it.
      to.folder_->Hold().IgnoreError();
      return;
    }
    absl::StatusOr<Fd> opened = to.folder_->OpenFile(to.subfolder_, to.name_);
    if (opened.ok()) {
      to.file_ = *std::move(opened);
      to.fd_ = to.file_.get();
    } else {
      why = std::string(opened.status().message());
    }
  }
  if (why.empty()) {
    error = WriteWhole(to.fd_,
                       to.bell_ < 0 ? bytes : absl::StrCat(kEraseLine, bytes));
    if (to.bell_ >= 0) RingLiveBell(to.bell_);
    if (error == 0) return;
    why = absl::StrCat(strerror(error),
                       "; free or permit its folder, or choose another with "
                       "--log-dir");
  }
  if (to.folder_ == nullptr) {
    // A reader that has closed its pipe (| head) wants no more, and no message.
    // A full disk may have room again for later lines.
    to.failed_ = error == EPIPE || error == EBADF;
    if (to.failed_ || to.fd_ == 2 || std::exchange(to.told_, true)) return;
    WriteWhole(2, absl::StrCat(
                      "rollcall: cannot write lines of ranks to standard "
                      "output: ",
                      strerror(error), "; they are lost until that changes\n"));
    return;
  }
  to.failed_ = true;
  to.file_.Close();
  WriteWhole(2, absl::StrCat("rollcall: the log file ", to.Path(),
                             " takes no more output: ", why, "\n"));
}

OutputWriter::OutputWriter(std::function<void()> eased)
    : queue_(std::make_shared<Queue>()) {
  {
    MutexLock lock(queue_->mutex);
    queue_->eased = std::move(eased);
  }
  thread_ = std::thread([queue = queue_] { queue->Run(); });
}

OutputWriter::~OutputWriter() {
  const absl::Time deadline = MonotonicNow() + kLastWords;
  bool ended = false;
  {
    MutexLock lock(queue_->mutex);
    queue_->closing = true;
    queue_->eased = nullptr;
    queue_->changed.NotifyAll();
    while (!queue_->ended && MonotonicNow() < deadline) {
      queue_->changed.WaitFor(queue_->mutex, deadline - MonotonicNow());
    }
    ended = queue_->ended;
  }
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void OutputWriter::Write(std::shared_ptr<OutputTarget> to, std::string bytes) {
  MutexLock lock(queue_->mutex);
  queue_->bytes += bytes.size();
  ++queue_->count;
  if (queue_->bytes >= kQueuedBytesMax) queue_->was_full = true;
  queue_->pieces.push_back({std::move(to), std::move(bytes)});
  queue_->changed.NotifyAll();
}

bool OutputWriter::full() const {
  MutexLock lock(queue_->mutex);
  return queue_->was_full;
}

bool OutputWriter::empty() const {
  MutexLock lock(queue_->mutex);
  return queue_->count == 0;
}

bool OutputWriter::Flush(absl::Duration patience) {
  const absl::Time deadline = MonotonicNow() + patience;
  MutexLock lock(queue_->mutex);
  while (queue_->count > 0 && MonotonicNow() < deadline) {
    queue_->changed.WaitFor(queue_->mutex, deadline - MonotonicNow());
  }
  return queue_->count == 0;
}

RankPipe::RankPipe(Fd pipe, std::string prefix, OutputWriter& writer,
                   std::shared_ptr<OutputTarget> terminal,
                   std::shared_ptr<OutputTarget> log)
    : pipe_(std::move(pipe)),
      prefix_(std::move(prefix)),
      writer_(writer),
      terminal_(std::move(terminal)),
      log_(std::move(log)),
      tail_(Limits::stderr_tail_lines, Limits::stderr_tail_bytes) {
  if (log_ != nullptr) writer_.Write(log_, "");
}

RankPipe::Got RankPipe::ReadOnce(absl::Time now) {
  if (!pipe_.open()) return Got::kEnd;
  char block[kReadBytes];
  ssize_t got = 0;
  do {
    got = read(pipe_.get(), block, sizeof(block));
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return Got::kNothing;
  if (got <= 0) return Got::kEnd;
  std::string bytes(block, static_cast<size_t>(got));
  Pass(cutter_.Take(bytes, now));
  if (log_ != nullptr) writer_.Write(log_, std::move(bytes));
  return Got::kBytes;
}

bool RankPipe::Read(absl::Time now) { return ReadOnce(now) != Got::kEnd; }

void RankPipe::Drain(absl::Time now) {
  for (size_t read = 0; read < kDrainBytesMax; read += kReadBytes) {
    if (ReadOnce(now) != Got::kBytes) return;
  }
}

void RankPipe::Say(const std::string& line, absl::Time now) {
  Pass(cutter_.Take(line + "\n", now));
  if (log_ != nullptr) writer_.Write(log_, line + "\n");
}

void RankPipe::Close() {
  Pass(cutter_.Finish());
  pipe_.Close();
}

void RankPipe::Pass(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) tail_.Add(line);
  for (std::string& piece : PrefixedPieces(lines, prefix_)) {
    writer_.Write(terminal_, std::move(piece));
  }
}

}  // namespace rollcall
