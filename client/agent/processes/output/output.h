// Output: carries what ranks print to the terminal and into log files.
//
// OutputWriter writes in its own thread, so that a held terminal (Ctrl-S), a
// slow pipe or a slow disk delays nothing else. The queue is bounded: a reader
// that finds it full() stops reading, and then the ranks block, as they would
// without rollcall.
//
// RankPipe is one rank's stdout or stderr: it reads the pipe, and passes lines
// to the terminal and raw bytes to the log file.
//
// Thread rule: OutputWriter's functions may be called from any thread; `eased`
// is called from the writer's thread and must only post. RankPipe: one thread
// at a time.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_OUTPUT_OUTPUT_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_OUTPUT_OUTPUT_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "client/agent/processes/output/log_folder.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/mutex.h"
#include "daemon/base/text/lines.h"

namespace rollcall {

// The target of bytes: an open descriptor, or a file that the writer opens with
// the first bytes (appending; missing folders are made). After an error on a
// file, one message goes to stderr and further bytes are dropped. After an
// error on standard output, one message goes to stderr, and later bytes are
// tried.
class OutputTarget {
 public:
  // `fd`: standard output (any but 2) or standard error (2); it is not closed.
  // `bell`: if `fd` is a terminal, a launcher's live line is at its bottom
  // (live_bell.h), and pieces end with a newline.
  static std::shared_ptr<OutputTarget> Standing(int fd, int bell = -1);
  // `folder` is shared with the queue, and used only by the writer's thread.
  static std::shared_ptr<OutputTarget> File(std::shared_ptr<LogFolder> folder,
                                            std::string subfolder,
                                            std::string name);
  // Takes no bytes: the first write only opens the folder and holds it.
  static std::shared_ptr<OutputTarget> Folder(
      std::shared_ptr<LogFolder> folder);

 private:
  friend class OutputWriter;
  std::string Path() const;

  int fd_ = -1;
  std::shared_ptr<LogFolder> folder_;
  std::string subfolder_;
  std::string name_;
  Fd file_;
  bool failed_ = false;  // Takes nothing more.
  bool told_ = false;    // An error of standard output was reported.
  int bell_ = -1;
};

class OutputWriter {
 public:
  // `eased`: called when the full queue is half empty again, and when
  // everything was written; may be null. It may still be running while the
  // writer is destroyed, so it must own what it uses.
  explicit OutputWriter(std::function<void()> eased);
  // Waits a short time until the queue is written. If a target blocks longer,
  // the thread is left running.
  ~OutputWriter();

  // Queues bytes that are written in one piece. Never blocks. The target is
  // shared with the queue, which may outlive a RankPipe. Empty bytes create a
  // file.
  void Write(std::shared_ptr<OutputTarget> to, std::string bytes);

  bool full() const;
  // Whether everything that was queued has been written.
  bool empty() const;
  // Waits until the queue is empty; false: it was not within `patience`.
  bool Flush(absl::Duration patience);

 private:
  struct Queue;
  // Shared with the thread, which outlives this object if a target blocks.
  std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

class RankPipe {
 public:
  // `log` may be null. `pipe` is non-blocking.
  RankPipe(Fd pipe, std::string prefix, OutputWriter& writer,
           std::shared_ptr<OutputTarget> terminal,
           std::shared_ptr<OutputTarget> log);

  // -1 after Close.
  int fd() const { return pipe_.get(); }

  // Reads what has arrived, up to a bound. False: end of file; call Close next.
  bool Read(absl::Time now);

  // Reads what has arrived, even if the writer is full.
  void Drain(absl::Time now);

  // Sets the prefix of the lines that follow.
  void SetPrefix(std::string prefix) { prefix_ = std::move(prefix); }

  // Adds a line as if the rank had printed it.
  void Say(const std::string& line, absl::Time now);

  // Stops reading; an unfinished line is written.
  void Close();

  // The last lines, including the unfinished one.
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

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_OUTPUT_OUTPUT_H_
