// SessionId: identifies a stream within one life of the daemon.
#ifndef ROLLCALL_DAEMON_CORE_SESSION_ID_H_
#define ROLLCALL_DAEMON_CORE_SESSION_ID_H_

#include <cstdint>

namespace rollcall {

// Never 0, never used twice.
using SessionId = uint64_t;

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_SESSION_ID_H_
