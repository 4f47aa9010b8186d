// Exit codes of the programs, besides the exit codes of ranks.
//
// 0: all ranks exited 0. The exit code of a root cause, or 128+signal, is
// passed on unchanged. The requeue code (75) is a setting: see limits.h.
#ifndef ROLLCALL_DAEMON_CORE_EXIT_CODES_H_
#define ROLLCALL_DAEMON_CORE_EXIT_CODES_H_

namespace rollcall {

// Success, but the output could not be written.
inline constexpr int kExitNotPrinted = 1;
inline constexpr int kExitUsage = 2;
// Rendezvous failed or timed out (sysexits' EX_UNAVAILABLE).
inline constexpr int kExitRendezvous = 69;
// The system's limits are too low to start (sysexits' EX_OSERR).
inline constexpr int kExitCannotStart = 71;
// A set-up command did not end in time (as timeout(1)).
inline constexpr int kExitTimedOut = 124;
// Refused: token, certificate or identity (sysexits' EX_NOPERM).
inline constexpr int kExitRefused = 77;

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_EXIT_CODES_H_
