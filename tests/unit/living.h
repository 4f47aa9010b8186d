// For tests that start real processes: a folder for each test, and FIFOs that
// tell which processes still run, without waiting for a fixed time.
#ifndef ROLLCALL_TESTS_UNIT_LIVING_H_
#define ROLLCALL_TESTS_UNIT_LIVING_H_

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "daemon/base/files/fd.h"

namespace rollcall {

class TempFolder {
 public:
  TempFolder() {
    char name[] = "/tmp/rollcall-test-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

// Put this first in a script whose process must be found without its rank's
// cgroup, in case a cgroup could be made.
inline constexpr char kLeaveCgroup[] =
    "for c in /sys/fs/cgroup /sys/fs/cgroup/unified; do "
    "{ echo 0 > $c/cgroup.procs; } 2>/dev/null; done; ";

inline std::string ReadFile(const std::string& path) {
  // Uses stdio, which throws no exception if the process ends while its /proc
  // file is read.
  std::string text;
  FILE* file = fopen(path.c_str(), "re");
  if (file == nullptr) return text;
  char piece[4096];
  size_t got;
  while ((got = fread(piece, 1, sizeof(piece), file)) > 0) {
    text.append(piece, got);
  }
  fclose(file);
  return text;
}

// While this object exists, this thread lacks these capabilities, as in a
// container.
class WithoutCapabilities {
 public:
  explicit WithoutCapabilities(const std::vector<int>& capabilities) {
    syscall(SYS_capget, &header_, before_);
    __user_cap_data_struct less[2] = {before_[0], before_[1]};
    for (const int number : capabilities) {
      less[number / 32].effective &= ~(1u << number % 32);
    }
    syscall(SYS_capset, &header_, less);
  }
  ~WithoutCapabilities() { syscall(SYS_capset, &header_, before_); }

 private:
  __user_cap_header_struct header_ = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct before_[2] = {};
};

// A FIFO that the processes under test open for writing and keep open. The
// reader gets its end of file when all of them have ended.
class LifeLine {
 public:
  explicit LifeLine(const std::string& path) : path_(path) {
    mkfifo(path.c_str(), 0600);
    fd_ = Fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }
  const std::string& path() const { return path_; }

  // Returns the next `count` lines that the processes write, or fewer if no
  // line comes for 20 s.
  std::vector<std::string> Lines(size_t count) {
    std::vector<std::string> lines;
    while (lines.size() < count) {
      const size_t end = text_.find('\n');
      if (end != std::string::npos) {
        lines.push_back(text_.substr(0, end));
        text_.erase(0, end + 1);
      } else if (!ReadMore(20'000)) {
        break;
      }
    }
    return lines;
  }

  // Returns true once no process has the FIFO open any more. Read a line first.
  bool AllDead(int within_ms) {
    while (true) {
      pollfd polled{fd_.get(), POLLIN, 0};
      if (poll(&polled, 1, within_ms) <= 0) return false;
      char piece[4096];
      const ssize_t got = read(fd_.get(), piece, sizeof piece);
      if (got == 0) return true;
      if (got < 0) return false;
    }
  }

  // Returns whether a process has the FIFO open.
  bool SomebodyLives() {
    pollfd polled{fd_.get(), POLLIN, 0};
    return poll(&polled, 1, 0) == 0;
  }

 private:
  bool ReadMore(int within_ms) {
    // Before the first writer has opened the FIFO, poll reports no event, not
    // even an end.
    pollfd polled{fd_.get(), POLLIN, 0};
    if (poll(&polled, 1, within_ms) <= 0) return false;
    char piece[4096];
    const ssize_t got = read(fd_.get(), piece, sizeof piece);
    if (got <= 0) return false;
    text_.append(piece, got);
    return true;
  }

  const std::string path_;
  Fd fd_;
  std::string text_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_LIVING_H_
