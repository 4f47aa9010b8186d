// Undumpable: keeps other processes of the same user from reading the memory of
// a process that has secrets. It prevents ptrace, /proc/PID/mem,
// /proc/PID/environ and core files.
//
// It is for agents, launchers, daemons and commands, but not for ranks. An exec
// makes a process dumpable again, and the process that starts ranks restores
// the limit on core files for them. If the user is not root, the files in
// /proc/PID of an undumpable process belong to root.
//
// MakeUndumpable must be called once, first in main, before there is a second
// thread or a secret. The other functions may be called after that, on any
// thread.
#ifndef ROLLCALL_DAEMON_SECURITY_CRYPTO_UNDUMPABLE_H_
#define ROLLCALL_DAEMON_SECURITY_CRYPTO_UNDUMPABLE_H_

#include <sys/prctl.h>
#include <sys/resource.h>

namespace rollcall {

// The limit on core files that this process was started with. The first call
// reads it; later calls return the same value.
inline const rlimit& CoreLimitAtStart() {
  static const rlimit at_start = [] {
    rlimit limit = {};
    getrlimit(RLIMIT_CORE, &limit);
    return limit;
  }();
  return at_start;
}

inline void MakeUndumpable() {
  rlimit none = CoreLimitAtStart();
  // The hard limit does not change, so that children can get their limit back.
  none.rlim_cur = 0;
  setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

// While an object of this class exists, children inherit the limit on core
// files that this process was started with. This process itself still leaves no
// core file.
class CoreLimitForChildren {
 public:
  CoreLimitForChildren() {
    getrlimit(RLIMIT_CORE, &now_);
    setrlimit(RLIMIT_CORE, &CoreLimitAtStart());
  }
  ~CoreLimitForChildren() { setrlimit(RLIMIT_CORE, &now_); }
  CoreLimitForChildren(const CoreLimitForChildren&) = delete;
  CoreLimitForChildren& operator=(const CoreLimitForChildren&) = delete;

 private:
  rlimit now_ = {};
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_CRYPTO_UNDUMPABLE_H_
