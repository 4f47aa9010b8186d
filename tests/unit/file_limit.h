// FileLimit: while this object lives, no file of this process can grow beyond a
// size, as if its disk were full.
//
// A write that would exceed the size writes up to it, and the next one fails
// with EFBIG.
#ifndef ROLLCALL_TESTS_UNIT_FILE_LIMIT_H_
#define ROLLCALL_TESTS_UNIT_FILE_LIMIT_H_

#include <signal.h>
#include <sys/resource.h>

namespace rollcall {

class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_ = {};
  void (*handler_)(int) = nullptr;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_FILE_LIMIT_H_
