// Undumpable: a process that holds secrets gives no other process of its user a
// way to read its memory: no ptrace, no /proc/PID/mem or environ, no core file.
//
// For agents, launchers, daemons and commands; never for ranks, which get the
// defaults back: exec makes a process dumpable again, and the limit on core
// files is restored by what starts them. For a user other than root the files
// in /proc/PID then belong to root.
//
// MakeUndumpable: once, first in main, before there is a second thread or a
// secret. The rest: any thread, after it.
#ifndef ROLLCALL_DAEMON_SECURITY_UNDUMPABLE_H_
#define ROLLCALL_DAEMON_SECURITY_UNDUMPABLE_H_

#include <sys/prctl.h>
#include <sys/resource.h>

namespace rollcall {

// The limit on core files that this process was started with: set at the first
// call, and the same from then on.
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
  // The hard limit stays, so that what is started here can have its own back.
  none.rlim_cur = 0;
  setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

// While it lives, processes that are started inherit the limit on core files
// that this one was started with. This process still leaves none.
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

#endif  // ROLLCALL_DAEMON_SECURITY_UNDUMPABLE_H_
