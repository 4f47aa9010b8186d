// ListenerClient: a TCP client of a listener under test, driven by hand, on
// loopback.
#ifndef ROLLCALL_TESTS_UNIT_SERVER_CONNECTIONS_LISTENER_CLIENT_H_
#define ROLLCALL_TESTS_UNIT_SERVER_CONNECTIONS_LISTENER_CLIENT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

namespace rollcall {

// Far longer than any test takes, so that only a hang reaches it.
inline constexpr int kPatienceMs = 60'000;

// The first bytes of a ClientHello, and of an HTTP/2 connection.
inline constexpr std::string_view kTlsHello("\x16\x03\x01\x02\x00\x01\x00", 7);
inline constexpr std::string_view kHttp2Preface(
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

class ListenerClient {
 public:
  // A socket that is not connected yet.
  ListenerClient() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit ListenerClient(int port) : ListenerClient() { Connect(port); }
  ListenerClient(ListenerClient&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)) {}
  ~ListenerClient() { Close(); }

  // Binds to this loopback address, and to the port of another client; 0: to a
  // port that no other client has yet.
  bool From(const char* address, int port = 0) {
    sockaddr_in own = Address(address, port);
    if (port != 0) MayShareItsPort();
    const bool bound =
        bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof own) == 0;
    MayShareItsPort();
    return bound;
  }
  bool Connect(int port) {
    sockaddr_in peer = Address("127.0.0.1", port);
    return connect(fd_, reinterpret_cast<sockaddr*>(&peer), sizeof peer) == 0;
  }
  bool Say(std::string_view bytes) {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Returns "end", "reset", or the bytes that came first.
  std::string Hear() {
    pollfd ready = {fd_, POLLIN, 0};
    if (poll(&ready, 1, kPatienceMs) <= 0) return "nothing";
    char byte;
    const ssize_t size = recv(fd_, &byte, 1, 0);
    if (size == 0) return "end";
    if (size < 0) return errno == ECONNRESET ? "reset" : "error";
    return std::string(1, byte);
  }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int fd() const { return fd_; }

 private:
  void MayShareItsPort() {
    const int yes = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  }
  static sockaddr_in Address(const char* address, int port) {
    sockaddr_in in = {};
    in.sin_family = AF_INET;
    in.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, address, &in.sin_addr);
    return in;
  }

  int fd_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_SERVER_CONNECTIONS_LISTENER_CLIENT_H_
