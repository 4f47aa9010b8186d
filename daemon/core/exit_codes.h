// What the programs exit with, where it is not a rank's own code.
//
// 0: all ranks exited 0. A root cause's own code, or 128+signal, stands for
// itself. The requeue code (75) is a setting: see limits.h.
#ifndef ROLLCALL_DAEMON_CORE_EXIT_CODES_H_
#define ROLLCALL_DAEMON_CORE_EXIT_CODES_H_

namespace rollcall {

// Nothing went wrong but the printing of what was found.
inline constexpr int kExitNotPrinted = 1;
inline constexpr int kExitUsage = 2;
// Rendezvous failed or timed out (sysexits' EX_UNAVAILABLE).
inline constexpr int kExitRendezvous = 69;
// The system's limits leave too little to start with (sysexits' EX_OSERR).
inline constexpr int kExitCannotStart = 71;
// Refused: token, certificate or identity (sysexits' EX_NOPERM).
inline constexpr int kExitRefused = 77;

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_EXIT_CODES_H_
