// PeerAddress: the address of a connection's peer.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_SERVER_CONNECTIONS_PEER_ADDRESS_H_
#define ROLLCALL_DAEMON_SERVER_CONNECTIONS_PEER_ADDRESS_H_

#include <string>
#include <string_view>

namespace rollcall {

// The address in gRPC's name of a peer, without scheme, port and zone; an
// IPv4-mapped IPv6 address as IPv4. Empty: none.
std::string AddressOfPeer(std::string_view peer);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_CONNECTIONS_PEER_ADDRESS_H_
