// For tests that start real processes: a folder of their own, and FIFOs that
// tell, without waiting by the clock, who is still alive.
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

#include "daemon/base/fd.h"

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

// For a script whose process is to be found without its rank's cgroup, where
// one could be made.
inline constexpr char kLeaveCgroup[] =
    "for c in /sys/fs/cgroup /sys/fs/cgroup/unified; do "
    "{ echo 0 > $c/cgroup.procs; } 2>/dev/null; done; ";

inline std::string ReadFile(const std::string& path) {
  // Through stdio: a process that ends while its /proc is read is no exception.
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

// While it exists, this thread lacks these capabilities, as in a container.
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

// Processes under test open it for writing and keep it: its end of file is
// their death, all of them.
class LifeLine {
 public:
  explicit LifeLine(const std::string& path) : path_(path) {
    mkfifo(path.c_str(), 0600);
    fd_ = Fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }
  const std::string& path() const { return path_; }

  // The next `count` lines that they write; fewer: none came in 20 s.
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

  // True once nobody has it open any more; only after a line was read.
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

  // Whether somebody has it open.
  bool SomebodyLives() {
    pollfd polled{fd_.get(), POLLIN, 0};
    return poll(&polled, 1, 0) == 0;
  }

 private:
  bool ReadMore(int within_ms) {
    // Before the first writer there is no event, not even an end.
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
