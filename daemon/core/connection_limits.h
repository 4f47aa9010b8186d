// The bounds on connections, and on the log lines that peers may cause: parts
// of Limits (limits.h), which asserts how they depend on its other bounds.
#ifndef ROLLCALL_DAEMON_CORE_CONNECTION_LIMITS_H_
#define ROLLCALL_DAEMON_CORE_CONNECTION_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace rollcall {

// Limits on connections before and after their TLS handshake: what an
// unauthenticated client may cost, and how many handshakes, the expensive part,
// may begin in a second. "Per address" means per IPv4 address or per IPv6 /64,
// the network of one customer.
struct ConnectionLimits {
  // Connections that were accepted and not handed on; each takes a descriptor.
  // Enough for all nodes of the largest job, even if all are behind one
  // address. The limit is lower if agents need the descriptors: see
  // waiting_and_agents_max.
  size_t waiting_max = 16384;
  // How many of these may be of one address and have not begun their handshake.
  // A few clients that send nothing must not take all places, but a machine
  // that starts a thousand agents at once must not be refused.
  size_t waiting_per_address_max = 1024;
  // How long a connection may send nothing. A client begins its handshake
  // within about one round trip.
  absl::Duration silence = absl::Seconds(5);
  // From arrival to hand-over. Shorter than the 20 s that a gRPC client waits
  // for its connection, so that the client sees the close and redials.
  absl::Duration patience = absl::Seconds(10);
  // The burst is enough for the nodes of the largest job; handshakes_at_once
  // limits how many run at the same time.
  uint32_t handshakes_per_second = 1024;
  uint32_t handshakes_burst = 16384;
  uint32_t handshakes_per_address_per_second = 256;
  uint32_t handshakes_per_address_burst = 4096;
  // A connection's bytes in vain are all its bytes, if it ends without
  // authenticating; those since the last whole message of an agent; and those
  // that a viewer has just sent. When it ends, its address loses one handshake
  // of its rate for every `bytes_in_vain_per_handshake` of them. In 512 bytes a
  // client can open and reset about 18 streams, and gRPC takes about as long
  // for these as for a handshake. More than `bytes_in_vain_max` do not count:
  // an honest agent may be cut off within a long message.
  size_t bytes_in_vain_per_handshake = 512;
  size_t bytes_in_vain_max = 64 << 10;
  // How many handshakes more than its burst an address may lose in this way:
  // half a second of its rate, which is less than reconnect_grace.
  uint32_t handshakes_per_address_debt = 128;
  // Handshakes under way: from the hand-over to an introduction or to
  // authentication, at most handshake_time; twice as many for networks with few
  // connections (HandshakeLimiter). Two cores do about 1,300 in a second, so
  // those that begin end within the 3 s that an agent first waits, and clients
  // that stop halfway leave 256 a second to the others. A connection beyond
  // handshake_time gives its place to another one of its network that waits.
  size_t handshakes_at_once = 512;
  absl::Duration handshake_time = absl::Seconds(2);
  // From the beginning of the handshake to authentication by a token or a node
  // credential. Longer than a slow handshake and hello_timeout.
  absl::Duration unauthenticated_patience = absl::Seconds(32);
  // Bytes that a client may send until it has authenticated: the first window
  // of an HTTP/2 stream, and about as much again for TLS and headers; with the
  // user's own PKI, the client's certificates also. Connections that open
  // streams instead keep gRPC busy before the daemon hears of any stream.
  size_t unauthenticated_bytes_max = 8 << 10;
  size_t client_certificates_bytes_max = 16 << 10;
  int stream_window_bytes = 4 << 10;
  // And after an introduction: the longest Hello, TLS and some more.
  size_t introduced_bytes_max = 800 << 10;
  // SO_RCVBUF: at first; and of connections that are introduced, or of agents
  // and admins. The TCP window is about as large. gRPC may read and parse all
  // that has arrived before it reports the first call, so others get little in
  // at once. The first size sets TCP's window scale to none, so the second one
  // has no effect beyond 64 KiB.
  int small_receive_buffer = 4 << 10;
  int receive_buffer = 64 << 10;
  // Calls that a client may make until then; an agent or a command makes one.
  int unauthenticated_calls_max = 4;
  // Unauthenticated connections at once, in total and of one network (an IPv4
  // address or an IPv6 /64). Beyond either bound a connection waits; see
  // HandshakeLimiter. An agent authenticates within two round trips, three with
  // an introduction: with 50 ms each, 320 or 213 agents a second of one
  // network, which may begin 256 handshakes a second. All may send at once, and
  // gRPC needs about 35 ms for what it has read of each before it is cut off.
  // The limits are lower if the process may open few descriptors: see FittedTo.
  size_t unauthenticated_max = 16384;
  size_t unauthenticated_per_network_max = 32;
  // For connections that have shown a viewer's token: bytes received over one
  // connection in its whole life (a status call takes about 500 bytes, an hour
  // of watching at most 1 MiB), bytes and calls in a second and at once, and
  // connections of one token at once.
  size_t viewer_bytes_max = 2 << 20;
  uint32_t viewer_bytes_per_second = 16 << 10;
  uint32_t viewer_bytes_burst = 32 << 10;
  uint32_t viewer_calls_per_second = 16;
  uint32_t viewer_calls_burst = 64;
  size_t viewer_connections_max = 64;
  // Connections of all viewers' tokens at once.
  size_t viewers_max = 4096;
  // Connections of agents at once: twice the number that the largest job has
  // with its spares. At the bound, a connection without an agent's stream is
  // disconnected. If all have a stream: a token with more than half of the
  // connections loses one to an agent of another token, and the token with the
  // most connections loses one to an agent that returns; see
  // UnauthenticatedConnections. Any other agent is told to redial later.
  size_t agents_max = 34816;
  // Agents' connections and waiting connections together, because a node that
  // is waited for has one or the other. Waiting connections may use what agents
  // do not use.
  size_t waiting_and_agents_max = 51200;
  // Bytes received over one agent's connection since the last whole message of
  // its stream, and over the connections of all agents together. One message
  // takes at most half of the first bound; the rest is for the overhead of TLS
  // and HTTP/2, and for HTTP/2's answers to a large world. Beyond the second
  // bound, the connection with the most bytes is disconnected.
  size_t agent_bytes_max = 4 << 20;
  size_t agents_bytes_max = size_t{1} << 30;
  // How long an agent's connection may stay without a stream; enough for the
  // agent to read why the stream was ended.
  absl::Duration agent_grace = absl::Seconds(10);
  // How long gRPC may take to close a connection whose peer has closed its
  // side; gRPC does not see that while it waits to write. Enough to read the
  // peer's last messages.
  absl::Duration end_grace = absl::Seconds(10);
  // How long a peer may acknowledge nothing, or keep its window closed, while
  // something waits to be sent to it. A node is lost before that.
  absl::Duration write_patience = absl::Seconds(30);
  // How many addresses are remembered: those at which connections wait, and
  // those whose burst is not whole yet (for at most 17 s).
  size_t addresses_max = 65536;
  // The listen(2) backlog, and how many connections are accepted from one
  // socket before the waiting ones are looked at again.
  int backlog = 4096;
  int accepts_per_round = 256;
  // A listen address given by name may resolve to this many addresses.
  size_t sockets_max = 16;
  // If no descriptor is free and none can be freed, there is no event when one
  // becomes free: the time until the next try.
  absl::Duration descriptor_pause = absl::Milliseconds(100);
};

// How many log lines the messages of one node, and of all nodes at one address,
// may cause: a burst, and then one more per interval. See LogQuota.
struct LogLimits {
  int per_node = 64;
  absl::Duration node_interval = absl::Seconds(10);
  int per_address = 512;
  absl::Duration address_interval = absl::Seconds(1);
  // The time from an address's first suppressed line until the number of its
  // suppressed lines is logged.
  absl::Duration told_interval = absl::Seconds(10);
  // Nodes and addresses remembered; enough for the largest job.
  size_t peers_max = 32768;
};

static_assert(ConnectionLimits{}.waiting_per_address_max <
              ConnectionLimits{}.waiting_max);
static_assert(ConnectionLimits{}.unauthenticated_per_network_max <
              ConnectionLimits{}.unauthenticated_max);
static_assert(ConnectionLimits{}.viewer_connections_max <
              ConnectionLimits{}.viewers_max);
static_assert(LogLimits{}.per_node < LogLimits{}.per_address);
static_assert(ConnectionLimits{}.introduced_bytes_max <
              ConnectionLimits{}.agent_bytes_max);
// What all clients without authentication together may send.
static_assert(ConnectionLimits{}.unauthenticated_max *
                  (ConnectionLimits{}.unauthenticated_bytes_max +
                   ConnectionLimits{}.client_certificates_bytes_max) <=
              (size_t{1} << 30));
// All nodes of the largest job may be in the middle of a small message at once.
static_assert(64 * ConnectionLimits{}.agent_bytes_max <=
              ConnectionLimits{}.agents_bytes_max);
static_assert(ConnectionLimits{}.stream_window_bytes <
              ConnectionLimits{}.unauthenticated_bytes_max);
static_assert(ConnectionLimits{}.silence < ConnectionLimits{}.patience);
static_assert(ConnectionLimits{}.waiting_max + ConnectionLimits{}.agents_max <=
              ConnectionLimits{}.waiting_and_agents_max);
static_assert(ConnectionLimits{}.handshakes_at_once <
              ConnectionLimits{}.unauthenticated_max);
static_assert(ConnectionLimits{}.handshake_time <
              ConnectionLimits{}.unauthenticated_patience);
static_assert(ConnectionLimits{}.handshakes_per_address_per_second <=
              ConnectionLimits{}.handshakes_per_second);
static_assert(ConnectionLimits{}.handshakes_per_address_burst <=
              ConnectionLimits{}.handshakes_burst);
// No address is removed early: neither those at which connections wait, nor
// those of connections that are handed on until the whole burst of one address
// is available again.
static_assert(ConnectionLimits{}.waiting_max +
                  ConnectionLimits{}.handshakes_burst +
                  size_t{ConnectionLimits{}.handshakes_per_second} *
                      ((ConnectionLimits{}.handshakes_per_address_burst +
                        ConnectionLimits{}.handshakes_per_address_debt) /
                       ConnectionLimits{}.handshakes_per_address_per_second) <=
              ConnectionLimits{}.addresses_max);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_CONNECTION_LIMITS_H_
