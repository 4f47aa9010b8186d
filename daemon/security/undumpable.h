// Undumpable: other processes of the same user cannot read the memory of a
// process that holds secrets: no ptrace, no /proc/PID/mem or environ, no core
// file.
//
// For agents, launchers, daemons and commands, but not for ranks: exec makes a
// process dumpable again, and the process that starts ranks restores the limit
// on core files. If the user is not root, the
// files in /proc/PID then belong to root.
//
// MakeUndumpable: call it once, first in main, before there is a second thread
// or a secret. The rest: any thread, after it.
#ifndef ROLLCALL_DAEMON_SECURITY_UNDUMPABLE_H_
#define ROLLCALL_DAEMON_SECURITY_UNDUMPABLE_H_

#include <sys/prctl.h>
#include <sys/resource.h>

namespace rollcall {

// The limit on core files that this process was started with: read at the first
// call, the same in later ones.
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
  // The hard limit stays, so that children can get their limit back.
  none.rlim_cur = 0;
  setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

// While it exists, children inherit the limit on core files that this process
// was started with. This process still leaves no core file.
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
