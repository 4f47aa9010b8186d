// ServedSocket: the socket of a connection that gRPC serves, accessed by the
// number of gRPC's descriptor. gRPC may close it at any time, and then another
// file may have this number. The socket's cookie shows whether that has
// happened.
//
// Thread rule: any thread; none of these calls blocks.
#ifndef ROLLCALL_DAEMON_SERVER_CONNECTIONS_SERVED_SOCKET_H_
#define ROLLCALL_DAEMON_SERVER_CONNECTIONS_SERVED_SOCKET_H_

#include <cstdint>
#include <string>

namespace rollcall {

// Bytes that the kernel has received for this connection, whether or not gRPC
// has read them; 0: unknown.
uint64_t BytesReceived(int fd);

// Bounds what a peer may send before it is read: sets SO_RCVBUF and
// TCP_WINDOW_CLAMP. On a listening socket it is for the sockets that it accepts
// from now on.
void SetReceiveBuffer(int fd, int bytes);

// Resets the connection even if other descriptors are open on it, and discards
// received data. After a shutdown(2) instead, that data could still be read,
// and the peer would wait until gRPC reads.
void ResetConnection(int fd);

class ServedSocket {
 public:
  // `fd` must be open.
  explicit ServedSocket(int fd);

  int fd() const { return fd_; }
  // Whether the number still belongs to this socket.
  bool IsOpen() const;
  // The socket's local address without port; empty: the socket is not open any
  // more.
  std::string LocalAddress() const;
  void Reset() const;

 private:
  int fd_;
  uint64_t cookie_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_CONNECTIONS_SERVED_SOCKET_H_
