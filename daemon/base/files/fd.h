// Fd: owns an open file descriptor; the destructor closes it.
//
// It neither reads nor writes. Thread rule: the same as for an int.
#ifndef ROLLCALL_DAEMON_BASE_FILES_FD_H_
#define ROLLCALL_DAEMON_BASE_FILES_FD_H_

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
  // The caller, or the function that it passes the number to, must close it.
  int Release() { return std::exchange(fd_, -1); }

  // If the descriptor is 0, 1 or 2 (a process may be started with these
  // closed), moves it to a higher number, so that the low one can be used with
  // dup2 later. If that fails, it keeps its number.
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

#endif  // ROLLCALL_DAEMON_BASE_FILES_FD_H_
