// ServedSocket: the socket of a connection that gRPC serves, seen by the number
// of gRPC's descriptor. gRPC may close it at any time, and then the number may
// be another file's; the socket's cookie tells.
//
// Thread rule: any thread; none of these calls blocks.
#ifndef ROLLCALL_DAEMON_SERVER_CONNECTIONS_SERVED_SOCKET_H_
#define ROLLCALL_DAEMON_SERVER_CONNECTIONS_SERVED_SOCKET_H_

#include <cstdint>
#include <string>

namespace rollcall {

// Bytes that the kernel has received for this connection, whatever gRPC has
// read of them; 0: unknown.
uint64_t BytesReceived(int fd);

// Resets the connection, whichever descriptors are open on it, and discards
// received data. After a shutdown(2) that data could still be read, and the
// peer would wait until gRPC reads.
void ResetConnection(int fd);

class ServedSocket {
 public:
  // `fd` is open.
  explicit ServedSocket(int fd);

  int fd() const { return fd_; }
  // Whether the number is still this socket's.
  bool IsOpen() const;
  // Its own address without port; empty: it is not open any more.
  std::string LocalAddress() const;
  void Reset() const;

 private:
  int fd_;
  uint64_t cookie_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_CONNECTIONS_SERVED_SOCKET_H_
