// A connection between two probers, whose other end may be any client of the
// port: the bytes that it sends, in pieces of any size, and the addresses that
// a daemon names. It uses a socket pair; no prober runs.
//
// Oracle: what is kept is what was sent, up to its bound. Only the whole and
// correct question is answered. Only addresses that admission accepts are
// dialled.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "client/agent/probe/probe_call.h"
#include "daemon/base/files/fd.h"
#include "daemon/core/admission/admission.h"
#include "tests/fuzz/feed.h"
#include "tests/fuzz/oracle.h"

namespace rollcall {
namespace {

// Reads a question, or the answer to one; both sides read in this way.
void Hear(Feed& feed) {
  v1::Probe probe;
  const uint8_t what = feed.Byte();
  probe.set_ask((what & 1) != 0 ? feed.String()
                                : std::string(Limits::probe_bytes, 'q'));
  const size_t most =
      (what & 2) != 0 ? Limits::probe_bytes : kProbeQuestionBytes + 1;
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) !=
      0) {
    std::abort();
  }
  const Fd ours(fds[0]);
  Fd theirs(fds[1]);
  std::string sent, heard, error;
  bool lives = true;
  while (lives && !feed.empty() && heard.size() < most) {
    // A length of 0 stands for the correct question, or for the first bytes of
    // it.
    std::string piece = feed.String();
    if (piece.empty()) piece = ProbeQuestion(probe).substr(0, feed.Byte());
    if (piece.empty()) {
      theirs.Close();
    } else if (send(theirs.get(), piece.data(), piece.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(piece.size())) {
      sent += piece;
    } else {
      return;  // The socket's buffer is full.
    }
    lives = ReceiveUpTo(ours.get(), most, heard, error);
    Expect(heard.size() <= most, "what is kept has a bound");
    Expect(heard == sent.substr(0, most), "what is heard is what was sent");
    Expect(lives == error.empty(), "an end has a reason", error);
    Expect(lives || !theirs.open(), "nothing ends that goes on", error);
    Expect(IsProbeQuestion(probe, heard) ==
               (probe.ask().size() == Limits::probe_bytes &&
                heard == "rollcall" + probe.ask()),
           "the right question alone is answered", heard);
  }
}

void Addresses(Feed& feed) {
  const auto port = static_cast<uint32_t>(feed.Number());
  const std::string text(feed.Rest());
  sockaddr_storage to;
  const socklen_t size = ParseProbeAddress(text, port, to);
  if (size == 0) {
    Expect(port == 0 || port > UINT16_MAX || !AdmitAddress(text).ok(),
           "an address that is admitted is dialled", text);
    return;
  }
  Expect(AdmitAddress(text).ok(), "what is dialled is admitted", text);
  const bool four = to.ss_family == AF_INET;
  Expect(size == (four ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)),
         "the size is the family's", text);
  const void* address =
      four ? static_cast<const void*>(
                 &reinterpret_cast<const sockaddr_in&>(to).sin_addr)
           : &reinterpret_cast<const sockaddr_in6&>(to).sin6_addr;
  char again[INET6_ADDRSTRLEN];
  Expect(inet_ntop(to.ss_family, address, again, sizeof(again)) != nullptr,
         "an address has a text", text);
  sockaddr_storage twice;
  Expect(ParseProbeAddress(again, port, twice) == size &&
             std::string_view(reinterpret_cast<char*>(&twice), size) ==
                 std::string_view(reinterpret_cast<char*>(&to), size),
         "an address comes back the same", text);
}

}  // namespace
}  // namespace rollcall

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rollcall::Feed feed(data, size);
  if (feed.Flag()) {
    rollcall::Addresses(feed);
  } else {
    rollcall::Hear(feed);
  }
  return 0;
}
