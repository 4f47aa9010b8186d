// PeerAddress: the address of a connection's peer.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_SERVER_CONNECTIONS_PEER_ADDRESS_H_
#define ROLLCALL_DAEMON_SERVER_CONNECTIONS_PEER_ADDRESS_H_

#include <string>
#include <string_view>

namespace rollcall {

// The address that gRPC's name of a peer contains, without scheme, port and
// zone. An IPv4-mapped IPv6 address is returned as IPv4. Empty: the name
// contains no address.
std::string AddressOfPeer(std::string_view peer);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_CONNECTIONS_PEER_ADDRESS_H_
