// Fd: an open file descriptor with one owner, closed at its end.
//
// Not for reading or writing: it owns the number and nothing else. Thread rule:
// that of an int.
#ifndef ROLLCALL_DAEMON_BASE_FD_H_
#define ROLLCALL_DAEMON_BASE_FD_H_

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace rollcall {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { Close(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  // The caller, or what it passes the number to, closes it.
  int Release() { return std::exchange(fd_, -1); }

  // Moves a descriptor out of 0..2, which a process may have been started
  // without, so that it can be dup2'ed there later. On failure the old number
  // stays.
  void LeaveStandard() {
    if (fd_ < 0 || fd_ > 2) return;
    const int above = fcntl(fd_, F_DUPFD_CLOEXEC, 3);
    if (above < 0) return;
    Close();
    fd_ = above;
  }

 private:
  int fd_ = -1;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_FD_H_
