// Probe call: the bytes on one connection between two probers. The other side
// is not trusted: any program may connect to the port.
//
// A caller sends its question and gets an answer of Limits::probe_bytes. The
// other side may send any bytes, so the number of bytes kept is bounded.
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

// Whether to answer a caller that has sent `heard`. False if the `ask` of the
// round does not have the right size, because any caller could guess it.
bool IsProbeQuestion(const v1::Probe& probe, std::string_view heard);

// Appends to `heard` the bytes that have arrived on a non-blocking socket,
// until `heard` has `bytes_max`. False: the other side has closed the
// connection, or the connection has failed; `error` tells which.
bool ReceiveUpTo(int fd, size_t bytes_max, std::string& heard,
                 std::string& error);

// Writes the address to `out` and returns its size; 0: `text` is no address
// (see AdmitAddress), or `port` is no port.
socklen_t ParseProbeAddress(const std::string& text, uint32_t port,
                            sockaddr_storage& out);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROBE_PROBE_CALL_H_
