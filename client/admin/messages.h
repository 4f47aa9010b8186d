// Messages: this process's own output on stdout and stderr.
//
// A separate thread writes the output (OutputWriter), so that a stopped
// terminal (Ctrl-S) or a pipe without a reader delays nothing. The queue is
// bounded: when it is full, messages are dropped, and their number is printed
// once there is room again. The destructor waits a short time for the reader,
// as in OutputWriter.
//
// Thread rule: one thread.
#ifndef ROLLCALL_CLIENT_ADMIN_MESSAGES_H_
#define ROLLCALL_CLIENT_ADMIN_MESSAGES_H_

#include <unistd.h>

#include <cstddef>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "client/agent/processes/output/output.h"

namespace rollcall {

class Messages {
 public:
  // Descriptors other than this process's own are borrowed. `bell`: the bell of
  // another process's live line on this terminal (live_bell.h).
  explicit Messages(int out = STDOUT_FILENO, int err = STDERR_FILENO,
                    int bell = -1)
      : out_(OutputTarget::Standing(out, bell)),
        err_(OutputTarget::Standing(err, bell)) {}
  ~Messages() { SayWhatIsMissing(); }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // Say writes messages for users, Put writes data. Each call is written in one
  // piece, so that lines of several processes do not mix. Never blocks.
  void Say(std::string bytes) { Write(err_, std::move(bytes)); }
  void Put(std::string bytes) { Write(out_, std::move(bytes)); }

  // Whether all output has been written.
  bool written() const { return writer_.empty(); }
  // Waits until all output has been written; false: it has not within
  // `patience`.
  bool Flush(absl::Duration patience) { return writer_.Flush(patience); }

 private:
  void Write(const std::shared_ptr<OutputTarget>& to, std::string bytes);
  void SayWhatIsMissing();

  OutputWriter writer_{nullptr};
  const std::shared_ptr<OutputTarget> out_;
  const std::shared_ptr<OutputTarget> err_;
  // Messages dropped since the last one that was written.
  size_t left_out_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_ADMIN_MESSAGES_H_
