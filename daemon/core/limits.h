// Every bound and default of rollcall in one place.
//
// Durations are defaults that a job may change within reason; the rest is
// fixed. `rollcall launch --help` shows them. Bounds that depend on each other
// are asserted at the end.
#ifndef ROLLCALL_DAEMON_CORE_LIMITS_H_
#define ROLLCALL_DAEMON_CORE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace rollcall {

// The front door: what strangers may cost before they have begun a handshake,
// and how many handshakes, the costly part, are begun in a second. Per address
// means one IPv4 address or one IPv6 /64, which is what one customer gets.
struct DoorLimits {
  // Connections that were accepted and not handed on; a descriptor each. All
  // nodes of the largest job find room, also behind one address. Fewer where
  // agents need the descriptors: see waiting_and_agents_max.
  size_t waiting_max = 16384;
  // Of these, those of one address that have not begun their handshake. A few
  // clients that say nothing must not take all places, and a machine that
  // starts a thousand agents at once must pass.
  size_t waiting_per_address_max = 1024;
  // A client that has connected speaks within a round trip and a bit.
  absl::Duration silence = absl::Seconds(5);
  // From arrival to hand-over: shorter than the 20 s that a gRPC client waits
  // for its connection, so that it hears of the end and redials.
  absl::Duration patience = absl::Seconds(10);
  // The burst is for the largest job's nodes; handshakes_at_once paces them.
  uint32_t handshakes_per_second = 1024;
  uint32_t handshakes_burst = 16384;
  uint32_t handshakes_per_address_per_second = 256;
  uint32_t handshakes_per_address_burst = 4096;
  // Handshakes under way: from the hand-over to a right that was shown, for at
  // most handshake_time. Two cores do about 1,300 handshakes a second: those
  // that begin end well within the 3 s that an agent first waits for its
  // connection, and clients that stop halfway leave 256 a second to the others.
  size_t handshakes_at_once = 512;
  absl::Duration handshake_time = absl::Seconds(2);
  // From the handshake's beginning to a right that was shown (a token, a node
  // credential): longer than a slow handshake and hello_timeout.
  absl::Duration guest_patience = absl::Seconds(32);
  // What somebody may say until then: a Hello, TLS and some more; and before
  // the first call: what HTTP/2's first window lets through, and as much again
  // as half of it for all else.
  size_t guest_bytes_max = 800 << 10;
  size_t guest_bytes_before_call = 96 << 10;
  // Calls until then: an agent or a command makes one.
  int guest_calls_max = 4;
  // Unauthenticated connections at once, in all and of one network (an IPv4
  // address or an IPv6 /64): as many handshakes as one network may begin at
  // once. Beyond either, a connection waits where it is; see Doorkeeper.
  // Fewer where the process may open few descriptors: see FittedTo.
  size_t guests_max = 16384;
  size_t guests_per_network_max = 4096;
  // Bytes received from all of them; beyond it the newest of the network that
  // has sent most is disconnected.
  size_t guests_bytes_max = size_t{1} << 30;
  // Connections that have shown a viewer's token: bytes received over the whole
  // life of one (a status call takes some 500 bytes, an hour of watching at
  // most 1 MiB), and connections of one token at once.
  size_t viewer_bytes_max = 2 << 20;
  size_t viewer_connections_max = 64;
  // Connections of all viewers' tokens at once.
  size_t viewers_max = 4096;
  // Connections of agents at once: those of the largest job with its spares,
  // and as many again. Where all are taken, one without an agent's stream is
  // disconnected. Where each has one, the token with more than half of them
  // loses one to an agent of another token, and the token with most of them to
  // an agent that returns; see Guests. Any other agent is told to dial again
  // later.
  size_t agents_max = 34816;
  // Agents' connections and those that wait, together: a node that is waited
  // for has one or the other. What agents do not take is room to wait in.
  size_t waiting_and_agents_max = 51200;
  // Bytes received by one of them since the last whole message of its stream,
  // and by all of them together. One message is at most half of the first; the
  // rest is for what TLS and HTTP/2 add, and for what a large world makes
  // HTTP/2 answer. Beyond the second, the connection with most is disconnected.
  size_t agent_bytes_max = 4 << 20;
  size_t agents_bytes_max = size_t{1} << 30;
  // How long one may stay without a stream: the time to read why the stream
  // was ended.
  absl::Duration agent_grace = absl::Seconds(10);
  // Addresses remembered: all that wait, and all whose burst is not yet whole
  // again, for at most 16 s.
  size_t addresses_max = 65536;
  // Connections that the kernel keeps for us, and how many are accepted from
  // one socket before those that wait are looked at again.
  int backlog = 4096;
  int accepts_per_round = 256;
  // A name to listen on may mean this many addresses.
  size_t sockets_max = 16;
  // Where no descriptor is left and none can be won back, nothing tells when
  // there is one again: how long until the next try.
  absl::Duration descriptor_pause = absl::Milliseconds(100);
};

// Log lines that the messages of one node, and of all from one address, cause:
// so many at once, and one more each interval. See LogQuota.
struct LogLimits {
  int per_node = 64;
  absl::Duration node_interval = absl::Seconds(10);
  int per_address = 512;
  absl::Duration address_interval = absl::Seconds(1);
  // From the first line of an address that is not written until it is told how
  // many were not.
  absl::Duration told_interval = absl::Seconds(10);
  // Nodes and addresses that are remembered: those of the largest job.
  size_t peers_max = 32768;
};

struct Limits {
  // --- Time ---------------------------------------------------------------
  // How long an agent is believed without being heard.
  absl::Duration lease = absl::Seconds(5);
  // An agent sends something at least this often: lease / 3.
  absl::Duration heartbeat() const { return lease / 3; }
  // How long a broken stream may take to come back before its node is lost.
  absl::Duration reconnect_grace = absl::Seconds(1);
  // Between min and max: how long after the latest arrival a world is formed.
  absl::Duration last_call = absl::Seconds(1);
  // How long arrivals may put that off, from when min nodes attend.
  absl::Duration arrivals_wait_max = absl::Minutes(1);
  // A node that is lost in its first newcomer_lasts in a world, for the second
  // time, gets no seat for newcomer_delay_first; twice that with each further
  // loss, and at most newcomer_delay_max. So long without a loss after its
  // delay, and the losses are forgotten.
  absl::Duration newcomer_lasts = absl::Minutes(10);
  absl::Duration newcomer_delay_first = absl::Seconds(1);
  absl::Duration newcomer_delay_max = absl::Minutes(5);
  absl::Duration prepare_timeout = absl::Seconds(30);
  absl::Duration probe_timeout = absl::Seconds(2);
  // How often the nodes of a running world probe each other again; 0: never.
  absl::Duration ping_interval = absl::ZeroDuration();
  // A node that could not be reached is probed again after so long; sooner
  // while no world can be formed without it.
  absl::Duration unreached_delay = absl::Seconds(30);
  absl::Duration unreached_delay_waiting = absl::Seconds(5);
  absl::Duration join_timeout = absl::Minutes(10);
  // How long agents redial a daemon that is gone.
  absl::Duration daemon_grace = absl::Minutes(10);
  // An agent pings a daemon from which it has read nothing for keepalive_time,
  // and takes the connection to be dead without an answer in keepalive_timeout.
  absl::Duration keepalive_time = absl::Seconds(15);
  absl::Duration keepalive_timeout = absl::Seconds(10);
  // How long members have to come back to a daemon that was restarted.
  absl::Duration reattach_grace = absl::Seconds(60);
  // How long a join string that the daemon made itself is valid, and a token
  // made by `rollcall token create` where --ttl does not say. A kept one is
  // replaced at half of it.
  absl::Duration token_ttl = absl::Hours(24);
  // How long a node credential is valid, and after how long an agent that
  // attends is given the next one.
  absl::Duration credential_ttl = absl::Hours(48);
  absl::Duration credential_renewal = absl::Hours(24);
  // Where a replaced token could not be written to its file: how long until
  // the next try.
  absl::Duration token_file_retry = absl::Seconds(10);
  // Between SIGTERM and SIGKILL of a rank.
  absl::Duration stop_grace = absl::Seconds(15);
  // How long ranks have to save and end once a notice has asked them to.
  absl::Duration notice_time = absl::Seconds(15);
  // A rank that makes no progress for so long is taken to hang; 0: none is.
  absl::Duration hang_timeout = absl::Minutes(10);
  // So is one that has neither linked nor published a step for so long after
  // its start, in a job where ranks do; 0, or without a hang_timeout: none is.
  absl::Duration start_timeout = absl::Minutes(10);
  // How long its agent waits for its word on where it is, and for its stacks.
  absl::Duration where_patience = absl::Seconds(2);
  absl::Duration stacks_patience = absl::Seconds(5);
  // From the first rank that is said to stand still to the verdict on who began
  // it, where not all of the world are said to.
  absl::Duration hang_settlement = absl::Seconds(10);
  // How long a failed node's checks may take before it is seated without.
  absl::Duration check_timeout = absl::Seconds(2);
  // How long ranks are left as they are after a failure: not at all.
  absl::Duration linger = absl::ZeroDuration();
  // Streams that break within it are counted together.
  absl::Duration mass_break_window = absl::Seconds(1);
  // A stream that has not said Hello by then is ended.
  absl::Duration hello_timeout = absl::Seconds(10);
  // Redialling: first delay and largest, doubled in between, with jitter.
  absl::Duration redial_first = absl::Milliseconds(50);
  absl::Duration redial_most = absl::Seconds(1);
  // The largest after a word from a daemon that stands by, and twice that after
  // others from then on: another one leads, or will within a lease of etcd's.
  absl::Duration redial_leader = absl::Milliseconds(250);

  // How long after its last word an agent that the daemon no longer hears has
  // ended its ranks at the latest: it sends its next word, finds its connection
  // dead, redials, gives up, and stops them.
  absl::Duration unheard() const {
    return lease + keepalive_time + keepalive_timeout + daemon_grace +
           stop_grace;
  }

  // The longest that a job may set: for what it waits for people, schedulers
  // and ranks (join_timeout, stop_grace, notice_time, hang_timeout,
  // start_timeout, daemon_grace, linger, ping_interval), as long as nodes may
  // stand in a cluster's queue; and for what it waits for its agents (all
  // others), beyond which a fault would only be found later.
  static constexpr absl::Duration wait_max = absl::Hours(24 * 7);
  static constexpr absl::Duration grace_max = absl::Hours(1);
  // How far a node's clock may be from the daemon's. etcd warns of peers whose
  // clocks differ by more (rafthttp's probing_status.go, "prober found high
  // clock drift").
  static constexpr absl::Duration clock_offset_max = absl::Seconds(1);

  uint32_t max_restarts = 3;
  int requeue_exit_code = 75;
  // A node that is to blame for so many failures in a row gets no seat.
  uint32_t blames_in_a_row = 2;
  // Over a tenth of a world's streams, and so many at least, is no node's
  // fault: in a world of four one is a quarter, and still only one.
  static constexpr size_t mass_break_least = 3;

  // --- Counts and sizes -----------------------------------------------------
  static constexpr uint32_t nodes_max = 16384;
  // Nodes of a job beyond its --nodes.
  static constexpr uint32_t spares_max = 1024;
  static constexpr uint32_t ranks_per_node_max = 64;
  static constexpr uint32_t addresses_per_node_max = 64;
  // Network interfaces of one node; further ones without an address are not
  // told.
  static constexpr size_t interfaces_per_node_max = 256;
  // Addresses of one node that others try to reach.
  static constexpr size_t probe_addresses_max = 8;
  // Up to so many nodes, each probes each other one; in a larger world each
  // probes its neighbours and some that are drawn by chance.
  static constexpr size_t probe_all_pairs_max = 64;
  // Spares beside a full world that are probed while it runs, so that a seat
  // that becomes free is taken without a round of probes.
  static constexpr uint32_t spares_probed = 8;
  // Nodes that one node is asked to probe: in a larger world it may be drawn by
  // others, some 30 times; four times that is never reached by chance.
  static constexpr size_t probe_targets_max = 128;
  static constexpr size_t probe_bytes = 16;
  static constexpr size_t probe_error_bytes_max = 128;
  // All pairs of 64 nodes fit.
  static constexpr size_t pings_shown_max = 4096;
  static constexpr size_t node_name_bytes_max = 253;
  static constexpr size_t job_id_bytes_max = 63;
  static constexpr size_t facts_bytes_max = 64 << 10;
  // What a node's facts may add to its row of the world, beside its name.
  static constexpr size_t member_bytes_max = 1 << 10;
  // A message from an agent: the NCCL ids of the largest world, and Hello with
  // the world it holds, are the largest.
  static constexpr size_t agent_message_bytes_max = 2 << 20;
  // The first message of a stream, from somebody who may be anybody.
  static constexpr size_t hello_bytes_max = 768 << 10;
  static constexpr size_t world_bytes_max = 64 << 20;
  static constexpr size_t exchange_value_bytes_max = 4 << 10;
  static constexpr size_t exchange_key_bytes_max = 128;
  // Keys that the ranks of one agent wait for.
  static constexpr size_t exchanges_open_max = 64;
  // Keys of one generation that one node has opened and that are not complete.
  static constexpr size_t exchanges_open_per_node_max = 16;
  // Complete keys of one generation that are still answered.
  static constexpr size_t exchanges_kept = 64;
  // The highest step that a rank can have completed: a number that every reader
  // of JSON keeps exactly, and that can be counted on from without an overflow.
  static constexpr uint64_t step_max = uint64_t{1} << 53;
  static constexpr size_t stderr_tail_bytes = 4 << 10;
  static constexpr size_t stderr_tail_lines = 20;
  // Of what an agent saw of a rank that stands still.
  static constexpr size_t stall_text_bytes_max = 256;
  // Why a node has no seat, in words: kept and shown for each node.
  static constexpr size_t node_reason_bytes_max = 2 << 10;
  static constexpr size_t jobs_per_daemon_max = 64;
  // Of these, jobs that one token has made (an admin's apart) and that have
  // never run. Further ones wait until one of them runs or ends.
  static constexpr size_t gathering_jobs_per_token_max = 8;
  static constexpr size_t tokens_max = 1024;
  // What the names, epochs and token ids of nodes that a run has admitted and
  // no longer has may take, unless those that it has take more. Half of what
  // one run may take in etcd, so that names alone cannot fill that.
  static constexpr size_t node_epochs_bytes = 512 << 10;
  // Streams that have not said Hello, or wait to be told that they may not;
  // beyond it the oldest is ended.
  size_t strangers_max = 4096;
  static constexpr size_t expected_nodes_max = 16384;
  // Names of lost nodes that are remembered, so that they can be named.
  static constexpr size_t lost_names_max = 1024;
  // Names whose losses are counted each by itself; see Newcomers. Each may end
  // one world in newcomer_delay_max, so few of them leave a world time to
  // train.
  static constexpr size_t newcomer_names_max = 4;
  // Root causes that are remembered.
  static constexpr size_t causes_max = 32;
  // What one viewer's token may have under way at once: watches (of
  // watchers_max in all), and status calls that are not read to their end.
  static constexpr size_t watchers_max = 256;
  static constexpr size_t watches_per_viewer_max = 32;
  static constexpr size_t status_calls_per_viewer_max = 32;
  // A watcher that has not read a status for so long while newer ones came is
  // ended as too slow.
  absl::Duration watcher_patience = absl::Seconds(30);
  // Bytes queued for one agent before its stream is ended as too slow.
  static constexpr size_t stream_queue_bytes_max = 64 << 20;
  // Bytes that wait for all agents together; a message that several wait for
  // counts once. Beyond it the stream with most of them is ended.
  size_t unread_bytes_max = size_t{512} << 20;
  // Messages that the loop gathers before it sends them.
  static constexpr size_t batch_bytes_max = 16 << 20;
  static constexpr size_t inbox_events_max = 65536;
  // Complete keys that an agent still answers for its own ranks.
  static constexpr size_t answers_kept = 8;
  // Earlier lives that one Hello may say to have swept.
  static constexpr int swept_max = 16;
  // The secret of each of them, see daemon/security/life_nonce.h.
  static constexpr size_t life_nonce_bytes = 16;
  // Largest world that an agent brings along when it redials.
  static constexpr size_t held_world_bytes_max = 512 << 10;
  // Worlds of a run without a journal that agents bring: of its last
  // generation, and some that strangers have made up.
  static constexpr size_t claimed_worlds_max = 16;
  // What one run may take in etcd, compressed: etcd takes 1.5 MiB a request by
  // default, everything included. 16,384 nodes of one rank take some 0.4 MiB;
  // with 64 ranks each, their NCCL ids alone are 1 MiB.
  static constexpr size_t etcd_value_bytes_max = 1400 << 10;
  // Operations of one request: etcd takes 128 by default.
  static constexpr size_t etcd_operations_max = 100;
  static constexpr int ranks_per_nccl_id = 128;
  static constexpr size_t nccl_id_bytes = 128;

  DoorLimits door;
  LogLimits log;
};

static_assert(Limits::job_id_bytes_max <= Limits::node_name_bytes_max);
static_assert(Limits::facts_bytes_max + Limits::held_world_bytes_max <
              Limits::hello_bytes_max);
// Each address may have an interface of its own.
static_assert(Limits::addresses_per_node_max <=
              Limits::interfaces_per_node_max);
static_assert(Limits::hello_bytes_max <= Limits::agent_message_bytes_max);
static_assert(Limits::hello_bytes_max < DoorLimits{}.guest_bytes_max);
static_assert(Limits::nccl_id_bytes * Limits::nodes_max *
                  Limits::ranks_per_node_max / Limits::ranks_per_nccl_id <
              Limits::agent_message_bytes_max);
static_assert(Limits::exchange_value_bytes_max * Limits::ranks_per_node_max <
              Limits::agent_message_bytes_max);
static_assert(Limits{}.credential_renewal < Limits{}.credential_ttl);
// One node takes at most a sixteenth of what all exchanges may take.
static_assert(16 * Limits::exchanges_open_per_node_max *
                  (Limits::exchange_value_bytes_max *
                   Limits::ranks_per_node_max) <=
              Limits::world_bytes_max);
static_assert(Limits::world_bytes_max <= Limits::stream_queue_bytes_max);
// One stream cannot use up what there is for all.
static_assert(8 * Limits::stream_queue_bytes_max <= Limits{}.unread_bytes_max);
static_assert(Limits::watches_per_viewer_max < Limits::watchers_max);
static_assert(Limits::gathering_jobs_per_token_max * 2 <=
              Limits::jobs_per_daemon_max);
static_assert(Limits{}.join_timeout <= Limits::wait_max &&
              Limits{}.stop_grace <= Limits::wait_max &&
              Limits{}.notice_time <= Limits::wait_max &&
              Limits{}.hang_timeout <= Limits::wait_max &&
              Limits{}.start_timeout <= Limits::wait_max &&
              Limits{}.daemon_grace <= Limits::wait_max &&
              Limits{}.linger <= Limits::wait_max);
static_assert(Limits{}.lease <= Limits::grace_max &&
              Limits{}.last_call <= Limits::grace_max &&
              Limits{}.prepare_timeout <= Limits::grace_max &&
              Limits{}.reconnect_grace <= Limits::grace_max &&
              Limits{}.reattach_grace <= Limits::grace_max);
static_assert(Limits{}.last_call <= Limits{}.arrivals_wait_max);
static_assert(Limits{}.newcomer_delay_first < Limits{}.newcomer_delay_max);
// A world that ends once for each name within the longest delay trains for a
// minute at a time.
static_assert(Limits{}.newcomer_delay_max >=
              absl::Minutes(static_cast<int>(Limits::newcomer_names_max) + 1));
// What an agent has to say of a rank that stands still is in by the verdict.
static_assert(Limits{}.where_patience <= Limits{}.stacks_patience);
static_assert(Limits{}.stacks_patience < Limits{}.hang_settlement);
static_assert(Limits::nccl_id_bytes * Limits::nodes_max *
                  Limits::ranks_per_node_max / Limits::ranks_per_nccl_id <
              Limits::etcd_value_bytes_max);
static_assert(Limits::probe_all_pairs_max * (Limits::probe_all_pairs_max - 1) <=
              Limits::pings_shown_max);
static_assert(2 * Limits::node_epochs_bytes < Limits::etcd_value_bytes_max);
static_assert(DoorLimits{}.waiting_per_address_max < DoorLimits{}.waiting_max);
static_assert(DoorLimits{}.guests_per_network_max < DoorLimits{}.guests_max);
static_assert(DoorLimits{}.handshakes_per_address_burst <=
              DoorLimits{}.guests_per_network_max);
static_assert(DoorLimits{}.viewer_connections_max < DoorLimits{}.viewers_max);
static_assert(LogLimits{}.per_node < LogLimits{}.per_address);
static_assert(LogLimits{}.peers_max >= 2 * size_t{Limits::nodes_max});
// Half of it is enough for the largest job.
static_assert(DoorLimits{}.agents_max >=
              2 * size_t{Limits::nodes_max + Limits::spares_max});
static_assert(2 * Limits::agent_message_bytes_max <=
              DoorLimits{}.agent_bytes_max);
static_assert(DoorLimits{}.guest_bytes_max < DoorLimits{}.agent_bytes_max);
// All nodes of the largest job may be in the middle of a small message.
static_assert(64 * DoorLimits{}.agent_bytes_max <=
              DoorLimits{}.agents_bytes_max);
static_assert(DoorLimits{}.silence < DoorLimits{}.patience);
static_assert(DoorLimits{}.handshakes_burst >= Limits::nodes_max);
static_assert(DoorLimits{}.waiting_max >= Limits::nodes_max);
static_assert(DoorLimits{}.waiting_max + DoorLimits{}.agents_max <=
              DoorLimits{}.waiting_and_agents_max);
static_assert(DoorLimits{}.handshakes_at_once < DoorLimits{}.guests_max);
static_assert(DoorLimits{}.handshake_time < DoorLimits{}.guest_patience);
static_assert(DoorLimits{}.handshakes_per_address_per_second <=
              DoorLimits{}.handshakes_per_second);
static_assert(DoorLimits{}.handshakes_per_address_burst <=
              DoorLimits{}.handshakes_burst);
// No address is forgotten early: those that wait, and those handed on while a
// whole burst of one address comes back.
static_assert(DoorLimits{}.waiting_max + DoorLimits{}.handshakes_burst +
                  size_t{DoorLimits{}.handshakes_per_second} *
                      (DoorLimits{}.handshakes_per_address_burst /
                       DoorLimits{}.handshakes_per_address_per_second) <=
              DoorLimits{}.addresses_max);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_LIMITS_H_
