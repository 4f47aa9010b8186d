#include "daemon/server/connections/served_socket.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/text/address_text.h"

namespace rollcall {
namespace {

// The socket's cookie, which is unique until the system restarts; 0: unknown,
// or `fd` is not a socket.
uint64_t CookieOf(int fd) {
  uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) != 0) return 0;
  return cookie;
}

}  // namespace

uint64_t BytesReceived(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return info.tcpi_bytes_received;
}

void SetReceiveBuffer(int fd, int bytes) {
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  // The kernel derives the clamp from the buffer once, when it answers the
  // first packet.
  setsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &bytes, sizeof bytes);
}

void ResetConnection(int fd) {
  const sockaddr unspecified = {AF_UNSPEC, {}};
  (void)connect(fd, &unspecified, sizeof unspecified);
}

ServedSocket::ServedSocket(int fd) : fd_(fd), cookie_(CookieOf(fd)) {}

bool ServedSocket::IsOpen() const { return CookieOf(fd_) == cookie_; }

std::string ServedSocket::LocalAddress() const {
  sockaddr_storage here = {};
  socklen_t size = sizeof here;
  const bool known =
      getsockname(fd_, reinterpret_cast<sockaddr*>(&here), &size) == 0;
  return known && IsOpen() ? AddressText(here) : "";
}

void ServedSocket::Reset() const {
  // A duplicate refers to the same file during the check and the reset, even if
  // gRPC closes its descriptor meanwhile.
  const int fd = fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return;
  if (cookie_ != 0 && CookieOf(fd) == cookie_) ResetConnection(fd);
  close(fd);
}

}  // namespace rollcall
