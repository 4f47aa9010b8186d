// Output: what ranks print, on its way to the terminal and into log files.
//
// OutputWriter is a thread of its own that does all the writing, so that a
// terminal that is held (Ctrl-S), a slow pipe or a slow disk delays nothing but
// itself. What waits is bounded: a reader that finds it full() stops reading,
// and the ranks wait in turn, as they would without rollcall in between.
//
// RankPipe is one rank's stdout or stderr: it reads the pipe, and passes on
// lines to the terminal and raw bytes to the log file.
//
// Thread rule: OutputWriter's functions from any thread; `eased` comes from its
// own thread and must only post. RankPipe: one thread at a time.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_OUTPUT_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_OUTPUT_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "daemon/base/fd.h"
#include "daemon/base/lines.h"
#include "daemon/base/mutex.h"

namespace rollcall {

// Where bytes go: a standing descriptor, or a file that is opened (appending,
// with its folders) by the writer at its first bytes. One that fails is told of
// once on stderr and then swallows the rest.
class OutputTarget {
 public:
  // Borrowed: 1 or 2.
  static std::shared_ptr<OutputTarget> Standing(int fd);
  static std::shared_ptr<OutputTarget> File(std::string path);

 private:
  friend class OutputWriter;
  int fd_ = -1;
  std::string path_;
  Fd file_;
  bool failed_ = false;
};

class OutputWriter {
 public:
  // `eased`: it was full and is half empty, or all has been written; may be
  // null. It may still run while the writer is destroyed: it owns what it
  // touches.
  explicit OutputWriter(std::function<void()> eased);
  // Waits a little for what is left; a target that blocks longer is abandoned.
  ~OutputWriter();

  // Queues bytes to be written in one piece. Never blocks. Targets are shared
  // with the queue, which may outlive a stream. Empty bytes create a file.
  void Write(std::shared_ptr<OutputTarget> to, std::string bytes);

  bool full() const;
  // All that was queued has been written.
  bool empty() const;
  // Waits for that; false: it is not so after `patience`.
  bool Flush(absl::Duration patience);

 private:
  struct Queue;
  // Shared with the thread, which outlives us where a target blocks.
  std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

class RankPipe {
 public:
  // `log` may be null. `pipe` is non-blocking.
  RankPipe(Fd pipe, std::string prefix, OutputWriter& writer,
           std::shared_ptr<OutputTarget> terminal,
           std::shared_ptr<OutputTarget> log);

  // -1 once it is closed.
  int fd() const { return pipe_.get(); }

  // Reads what is there, up to a bound. False: its end has come; Close is next.
  bool Read(absl::Time now);

  // Reads what is there now, however full the writer is.
  void Drain(absl::Time now);

  // For lines from now on.
  void SetPrefix(std::string prefix) { prefix_ = std::move(prefix); }

  // As if the rank had printed it.
  void Say(const std::string& line, absl::Time now);

  // Reads no more; the line without an end goes out.
  void Close();

  // The last lines, with the one that has no end yet.
  std::string TailText() const { return tail_.Text(cutter_.open_line()); }

 private:
  enum class Got { kBytes, kNothing, kEnd };
  Got ReadOnce(absl::Time now);
  void Pass(const std::vector<std::string>& lines);

  Fd pipe_;
  std::string prefix_;
  OutputWriter& writer_;
  const std::shared_ptr<OutputTarget> terminal_;
  const std::shared_ptr<OutputTarget> log_;
  LineCutter cutter_;
  Tail tail_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_OUTPUT_H_
