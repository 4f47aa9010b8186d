// Probe call: what goes over one connection between two probers, whose other
// side may be anything that found the port.
//
// A caller sends its question, and is sent an answer of Limits::probe_bytes.
// The bytes of the other side may be anything; how many are kept is bounded.
//
// No state; any thread.
#ifndef ROLLCALL_CLIENT_AGENT_PROBE_PROBE_CALL_H_
#define ROLLCALL_CLIENT_AGENT_PROBE_PROBE_CALL_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// "rollcall" and the `ask` of the round.
inline constexpr size_t kProbeQuestionBytes = 8 + Limits::probe_bytes;

std::string ProbeQuestion(const v1::Probe& probe);

// Whether a caller that has sent `heard` is to be answered. Never where the
// round has no `ask` of the right size: every caller could guess it.
bool IsProbeQuestion(const v1::Probe& probe, std::string_view heard);

// Appends to `heard` what has come in on a socket that does not block, until it
// has `bytes_max`. False: the other side has closed, or failed; `error` says
// which.
bool ReceiveUpTo(int fd, size_t bytes_max, std::string& heard,
                 std::string& error);

// The size of the address; 0: `text` is none (as AdmitAddress has it), or
// `port` is none.
socklen_t ParseProbeAddress(const std::string& text, uint32_t port,
                            sockaddr_storage& out);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROBE_PROBE_CALL_H_
