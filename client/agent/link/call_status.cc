#include "client/agent/link/call_status.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

constexpr char kNoHandshake[] =
    "connected, but no TLS handshake in time: it is overloaded or stands "
    "still, another service answers there, or the path drops large packets "
    "(MTU)";

// Texts of gRPC 1.51 for failed connections, and what they mean. The first row
// that matches is used.
constexpr struct {
  const char* said;
  const char* words;
  // Whether to add the last part of gRPC's text.
  bool detail = false;
} kReasons[] = {
    {"DNS resolution failed", "name not found", true},
    {"Connection refused", "connection refused: nothing listens there"},
    {"No route to host", "no route to host"},
    {"Network is unreachable", "no route to host: network is unreachable"},
    {"wrong version number",
     "no TLS: another service answers there, or its daemon is --insecure",
     true},
    {"missing selected ALPN",
     "TLS without HTTP/2: another service answers there"},
    {"alert certificate required",
     "TLS: the daemon wants a client certificate; give --tls-cert and "
     "--tls-key"},
    {"Failed to create security handshaker",
     "TLS cannot be set up on this machine; GRPC_VERBOSITY=error says why"},
    {"Handshake read failed", kNoHandshake},
    {"Handshake timed out", kNoHandshake},
    {"imed out", "no answer in time: a firewall, or a machine that is down"},
    {"imeout", "no answer in time: a firewall, or a machine that is down"},
    {"SSL routines", "TLS failed", true},
};

std::string InWords(const std::string& text) {
  // gRPC's text ends with the system's error.
  const size_t colon = text.rfind(": ");
  const std::string last =
      colon == std::string::npos ? text : text.substr(colon + 2);
  for (const auto& reason : kReasons) {
    if (!absl::StrContains(text, reason.said)) continue;
    if (!reason.detail) return reason.words;
    return absl::StrCat(reason.words, " (", last, ")");
  }
  return last;
}

}  // namespace

absl::Status CallStatus(const std::string& endpoint,
                        const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string& text = status.error_message();
  // gRPC's own errors have no details; a daemon's answer carries a Refusal.
  const bool answered = !status.error_details().empty();
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      if (answered) {
        return absl::UnavailableError(absl::StrCat(endpoint, ": ", text));
      }
      return absl::UnavailableError(
          absl::StrCat("cannot reach ", endpoint, ": ", InWords(text)));
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return absl::DeadlineExceededError(
          absl::StrCat("no answer from ", endpoint, " in time"));
    default:
      // gRPC and absl use the same numbers for the codes.
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                          absl::StrCat(endpoint, ": ", text));
  }
}

}  // namespace rollcall
