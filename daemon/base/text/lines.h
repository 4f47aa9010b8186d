// Lines: cuts a rank's output into the lines that a person reads.
//
// Pure: bytes in, lines out; it writes nothing and reads no clock. Thread rule:
// one thread at a time.
#ifndef ROLLCALL_DAEMON_BASE_TEXT_LINES_H_
#define ROLLCALL_DAEMON_BASE_TEXT_LINES_H_

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace rollcall {

// A longer line is cut here and continues in the next line.
inline constexpr size_t kLineBytesMax = 64 << 10;

// Cuts one stream into lines.
//
// A carriage return starts the line again, as on a terminal. Of the states of a
// progress bar, the line is the last one before the newline. Before the
// newline, at most one state per second is returned as a line of its own, so
// that a reader sees progress.
class LineCutter {
 public:
  // Takes the next bytes. Returns the lines that they complete, without line
  // ends.
  std::vector<std::string> Take(absl::string_view bytes, absl::Time now);

  // The stream has ended: returns the line that has no end yet.
  std::vector<std::string> Finish();

  // The line that has no end yet.
  const std::string& open_line() const { return line_; }

 private:
  std::string line_;
  // The last byte was a carriage return; the next byte decides what it means.
  bool returned_ = false;
  absl::Time last_state_ = absl::InfinitePast();
};

// The last lines of a stream, few and short enough for a message.
class Tail {
 public:
  Tail(size_t lines_max, size_t bytes_max)
      : lines_max_(lines_max), bytes_max_(bytes_max) {}

  void Add(absl::string_view line);

  // All lines and the line without an end, joined by newlines, as valid UTF-8
  // of at most bytes_max; a longer text is cut at the front.
  std::string Text(absl::string_view open_line) const;

 private:
  const size_t lines_max_;
  const size_t bytes_max_;
  size_t bytes_ = 0;
  std::deque<std::string> lines_;
};

// `text` with every byte that is not part of valid UTF-8 replaced by '?'.
std::string ValidUtf8(absl::string_view text);

// The last `bytes_max` bytes of `text`, as valid UTF-8.
std::string LastBytes(absl::string_view text, size_t bytes_max);

// Adds `prefix` and a newline to each line and joins the lines into pieces that
// a pipe takes as a whole (PIPE_BUF). A longer line is a piece of its own.
std::vector<std::string> PrefixedPieces(const std::vector<std::string>& lines,
                                        absl::string_view prefix);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_TEXT_LINES_H_
