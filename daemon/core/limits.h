// All bounds and defaults of rollcall. Those on connections are in
// connection_limits.h.
//
// Durations are defaults that a job may change within bounds; the rest is
// fixed. `rollcall launch --help` shows them. Bounds that depend on each other
// are asserted at the end.
#ifndef ROLLCALL_DAEMON_CORE_LIMITS_H_
#define ROLLCALL_DAEMON_CORE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "daemon/core/connection_limits.h"

namespace rollcall {

struct Limits {
  // --- Time ---------------------------------------------------------------
  // A loop that wakes this much later than it wanted to was itself held up. It
  // first reads what has arrived meanwhile, and extends others' deadlines by
  // its delay.
  static constexpr absl::Duration late_min = absl::Milliseconds(50);
  // How long an agent counts as alive after it was last heard.
  absl::Duration lease = absl::Seconds(5);
  // An agent sends something at least this often: lease / 3.
  absl::Duration heartbeat() const { return lease / 3; }
  // How long a node has to redial after its stream broke, before it is lost.
  absl::Duration reconnect_grace = absl::Seconds(1);
  // If the job has between min and max nodes: how long after the latest arrival
  // a world is formed.
  absl::Duration last_call = absl::Seconds(1);
  // How long others are waited for after an arrival elsewhere: newcomers of a
  // running world, before it probes them; members that redial, before a hang is
  // judged.
  absl::Duration arrivals_pause = absl::Seconds(1);
  // How long arrivals may delay the last call, counted from when min nodes
  // attend. Nodes that come and go delay a next world, or a round of probes,
  // for about as long.
  absl::Duration arrivals_wait_max = absl::Minutes(1);
  // If a node is lost within its first newcomer_lasts in a world for the second
  // time, it gets no seat for newcomer_delay_first. Each further such loss
  // doubles the delay, up to newcomer_delay_max. After newcomer_lasts without a
  // loss, counted from the end of the delay, the losses are forgotten.
  absl::Duration newcomer_lasts = absl::Minutes(10);
  absl::Duration newcomer_delay_first = absl::Seconds(1);
  absl::Duration newcomer_delay_max = absl::Minutes(5);
  absl::Duration prepare_timeout = absl::Seconds(30);
  absl::Duration probe_timeout = absl::Seconds(2);
  // How often the nodes of a running world probe each other again; 0: never.
  absl::Duration ping_interval = absl::ZeroDuration();
  // After this time a node that could not be reached is probed again; sooner if
  // no world can be formed without it.
  absl::Duration unreached_delay = absl::Seconds(30);
  absl::Duration unreached_delay_waiting = absl::Seconds(5);
  absl::Duration join_timeout = absl::Minutes(10);
  // How long agents redial a daemon that they cannot reach.
  absl::Duration daemon_grace = absl::Minutes(10);
  // If an agent has read nothing for keepalive_time, it pings the daemon;
  // without an answer within keepalive_timeout, it takes the connection to be
  // dead.
  absl::Duration keepalive_time = absl::Seconds(15);
  absl::Duration keepalive_timeout = absl::Seconds(10);
  // How long members have to come back to a daemon that was restarted.
  absl::Duration reattach_grace = absl::Seconds(60);
  // Lifetime of a join string that the daemon made itself, and of a token made
  // by `rollcall token create` without --ttl. A kept token is replaced after
  // half of this time.
  absl::Duration token_ttl = absl::Hours(24);
  // Lifetime of a node credential, and the time after which an attended agent
  // gets the next one.
  absl::Duration credential_ttl = absl::Hours(48);
  absl::Duration credential_renewal = absl::Hours(24);
  // If a replaced token could not be written to its file: the time until the
  // next try.
  absl::Duration token_file_retry = absl::Seconds(10);
  // Between SIGTERM and SIGKILL of a rank.
  absl::Duration stop_grace = absl::Seconds(15);
  // How long ranks have to save and end once a notice has asked them to.
  absl::Duration notice_time = absl::Seconds(15);
  // A rank that makes no progress for this long is taken to hang; 0: never.
  absl::Duration hang_timeout = absl::Minutes(10);
  // A rank that has neither linked nor published a step for this long after its
  // start is taken to hang too, in a job whose ranks link. 0, or no
  // hang_timeout: never.
  absl::Duration start_timeout = absl::Minutes(10);
  // How long a node's set-up command may take, all of its tries together.
  absl::Duration setup_timeout = absl::Minutes(10);
  // From the end of a failed try of the set-up command to the next one.
  absl::Duration setup_retry_delay = absl::Seconds(1);
  // How long the agent waits for a stalled rank's own report of its position,
  // and for its stacks.
  absl::Duration where_patience = absl::Seconds(2);
  absl::Duration stacks_patience = absl::Seconds(5);
  // From the report of the first stalled rank to the verdict on the root cause,
  // unless all ranks of the world are reported stalled before.
  absl::Duration hang_blame_window = absl::Seconds(10);
  // How long the checks of a failed node may take. After that the next world is
  // formed without their result.
  absl::Duration check_timeout = absl::Seconds(2);
  // How long ranks are left running after a failure; by default, not at all.
  absl::Duration linger = absl::ZeroDuration();
  // Streams that break within this time are counted together.
  absl::Duration mass_break_window = absl::Seconds(1);
  // A stream that has not sent Hello after this time is ended.
  absl::Duration hello_timeout = absl::Seconds(10);
  // The first and the largest delay between redials. The delay doubles each
  // time, with jitter.
  absl::Duration redial_first = absl::Milliseconds(50);
  absl::Duration redial_max = absl::Seconds(1);
  // The largest delay after an answer from a standby daemon, and twice that
  // after later errors of other kinds: another daemon leads already, or will
  // within one lease of etcd.
  absl::Duration redial_leader = absl::Milliseconds(250);

  // The longest time from the last message that the daemon received from an
  // agent until all of that agent's ranks have ended. In that time the agent
  // sends its next message, finds its connection dead, redials, gives up, and
  // stops its ranks.
  absl::Duration unheard() const {
    return lease + keepalive_time + keepalive_timeout + daemon_grace +
           stop_grace;
  }

  // How long one gathering waits for set-up commands at most, measured by the
  // daemon's clock: an agent ends its command before.
  absl::Duration setup_wait() const {
    return setup_timeout + stop_grace + lease;
  }

  // The longest durations that a job may set. wait_max is for waits for people,
  // schedulers and ranks (join_timeout, stop_grace, notice_time, hang_timeout,
  // start_timeout, setup_timeout, daemon_grace, linger, ping_interval); it is
  // as long as nodes may wait in a cluster's queue. grace_max is for waits for
  // agents (all other durations); beyond it, faults would be found too late.
  static constexpr absl::Duration wait_max = absl::Hours(24 * 7);
  static constexpr absl::Duration grace_max = absl::Hours(1);
  // How far a node's clock may be from the daemon's. etcd uses the same bound
  // for its peers (rafthttp's probing_status.go, "prober found high clock
  // drift").
  static constexpr absl::Duration clock_offset_max = absl::Seconds(1);
  // How long a round of --node-check may take at a node, and how much later a
  // node that has not answered is taken to have failed.
  static constexpr absl::Duration node_check_round = absl::Seconds(20);
  static constexpr absl::Duration node_check_answer = absl::Seconds(3);
  // How long the checks of one gathering may take in all until no further one
  // begins: an agent with a valid token may use any number of names. A check
  // with a node that hangs in both rounds takes 46 s.
  static constexpr absl::Duration node_check_total = absl::Seconds(60);

  uint32_t max_restarts = 3;
  // How often a set-up command that has failed may be run again.
  static constexpr uint32_t setup_retries_max = 100;
  int requeue_exit_code = 75;
  // A node that is to blame for this many failures in a row gets no seat.
  uint32_t blames_in_a_row = 2;
  // No single node is at fault if over a tenth of a world's streams break and
  // their number is at least this. (In a world of four, one stream is a
  // quarter, but still only one.)
  static constexpr size_t mass_break_min = 3;

  // --- Counts and sizes -----------------------------------------------------
  static constexpr uint32_t nodes_max = 16384;
  // Nodes of a job beyond its --nodes.
  static constexpr uint32_t spares_max = 1024;
  static constexpr uint32_t ranks_per_node_max = 64;
  static constexpr uint32_t addresses_per_node_max = 64;
  // Network interfaces of one node. Beyond this, interfaces without an address
  // are left out.
  static constexpr size_t interfaces_per_node_max = 256;
  // Addresses of one node that other nodes try to reach.
  static constexpr size_t probe_addresses_max = 8;
  // Up to this many nodes, each node probes each other one. In a larger world,
  // each probes its neighbours and some that are drawn at random.
  static constexpr size_t probe_all_pairs_max = 64;
  // Spares beside a full world that are probed while it runs, so that a free
  // seat is taken without another round of probes.
  static constexpr uint32_t spares_probed = 8;
  // Nodes that one node is asked to probe. In a larger world a node is drawn
  // about 30 times; being drawn four times as often does not occur by chance.
  static constexpr size_t probe_targets_max = 128;
  static constexpr size_t probe_bytes = 16;
  static constexpr size_t probe_error_bytes_max = 128;
  // Enough for all pairs of 64 nodes.
  static constexpr size_t pings_shown_max = 4096;
  static constexpr size_t node_name_bytes_max = 253;
  static constexpr size_t job_id_bytes_max = 63;
  static constexpr size_t facts_bytes_max = 64 << 10;
  // The communication variables that a node reports, and the bytes of a name
  // and of a value; of a longer value, only a digest is sent.
  static constexpr size_t communication_variables_max = 64;
  static constexpr size_t variable_name_bytes_max = 64;
  static constexpr size_t variable_value_bytes_max = 128;
  // Variables that are compared between nodes: those that most nodes set.
  static constexpr size_t compared_variables_max = 256;
  // Variables whose differences are reported for one world.
  static constexpr size_t differing_variables_max = 32;
  // The variables that a job sets for all ranks (--env), and the bytes of one
  // value.
  static constexpr size_t job_variables_max = 64;
  static constexpr size_t job_variable_bytes_max = 512;
  // Files of --same that one node reports, and the bytes of a path; and the
  // paths that are compared between nodes.
  static constexpr size_t same_files_max = 8;
  static constexpr size_t same_path_bytes_max = 1 << 10;
  static constexpr size_t compared_files_max = 64;
  // How long an agent may take to read all its files of --same.
  absl::Duration same_files_time = absl::Minutes(1);
  // Bytes that a node's facts may add to its row of the world, in addition to
  // its name.
  static constexpr size_t member_bytes_max = 1 << 10;
  // A message from an agent. The largest ones have the NCCL ids of the largest
  // world, or are a Hello with the world that the agent holds.
  static constexpr size_t agent_message_bytes_max = 2 << 20;
  // The first message of a stream, or the second one after an introduction.
  static constexpr size_t hello_bytes_max = 768 << 10;
  // An agent sends an introduction before a longer Hello. HTTP/2's first window
  // has room for a Hello of this size. An introduction is not longer either.
  static constexpr size_t hello_without_introduction_bytes = 3 << 10;
  static constexpr size_t world_bytes_max = 64 << 20;
  static constexpr size_t exchange_value_bytes_max = 4 << 10;
  static constexpr size_t exchange_key_bytes_max = 128;
  // Keys that the ranks of one agent wait for.
  static constexpr size_t exchanges_open_max = 64;
  // Keys of one generation that one node has opened and that are not complete.
  static constexpr size_t exchanges_open_per_node_max = 16;
  // Complete keys of one generation whose values are still returned.
  static constexpr size_t exchanges_kept = 64;
  // The key-value store of a generation. A key's name, value and overhead count
  // against the node that made the key, whose agent keeps its record.
  static constexpr size_t store_key_bytes_max = 1 << 10;
  // Bytes of an operation's value and expected value together.
  static constexpr size_t store_value_bytes_max = 1 << 20;
  // About how many bytes a key takes in addition to its name and value.
  static constexpr size_t store_key_overhead_bytes = 512;
  // The same for each node whose last change a key remembers.
  static constexpr size_t store_done_overhead_bytes = 64;
  static constexpr size_t store_bytes_max = 64 << 20;
  static constexpr size_t store_node_bytes_max = 16 << 20;
  // Keys that one node's ranks wait for.
  static constexpr size_t store_waits_per_node_max = 2048;
  // Other operations of one node that the daemon has not answered; further ones
  // wait in the node's agent, within store_queue_bytes_max.
  static constexpr size_t store_asked_per_node_max = 256;
  static constexpr size_t store_queue_bytes_max = 64 << 20;
  // No more parts are added to a message that has this many bytes.
  static constexpr size_t store_message_bytes = 256 << 10;
  // Operations of one rank that are not answered yet.
  static constexpr size_t store_asked_per_rank_max = 256;
  // An answer with more bytes than store_large_bytes counts as large. The next
  // two: bytes of large answers that one agent, and that all agents, have not
  // received yet; further large answers wait.
  static constexpr size_t store_large_bytes = 4 << 10;
  static constexpr size_t store_unread_node_bytes_max = 4 << 20;
  static constexpr size_t store_unread_bytes_max = 64 << 20;
  // The highest step that a rank can have completed. Every JSON reader
  // represents it exactly, and counting up from it does not overflow.
  static constexpr uint64_t step_max = uint64_t{1} << 53;
  static constexpr size_t stderr_tail_bytes = 4 << 10;
  static constexpr size_t stderr_tail_lines = 20;
  // RankExited.out_of_memory, which has the path of a cgroup.
  static constexpr size_t oom_text_bytes_max = 1 << 10;
  // Each text of a FactChange.
  static constexpr size_t fact_text_bytes_max = 128;
  // The latest changes of a node's facts that are kept. An agent sends fewer
  // than the burst at once, and then one in each fact_changes_between
  // (FactDamper); more are only counted.
  static constexpr size_t fact_changes_per_node = 8;
  static constexpr uint32_t fact_changes_burst = 32;
  static constexpr absl::Duration fact_changes_between = absl::Seconds(1);
  // A root cause names the changes of its node that are not older.
  static constexpr absl::Duration fact_changes_window = absl::Minutes(5);
  // An agent's text about a stalled rank.
  static constexpr size_t stall_text_bytes_max = 256;
  // The reason that an admin gives for a drain, an eviction or a stop.
  static constexpr size_t admin_reason_bytes_max = 512;
  // The reason why a node has no seat; kept and shown for each node.
  static constexpr size_t node_reason_bytes_max = 2 << 10;
  static constexpr size_t jobs_per_daemon_max = 64;

  // The event log: jobs, and for each the latest events that the job itself or
  // its nodes have caused, in memory. Together at most 64 MiB of text.
  static constexpr size_t event_jobs_max = 2 * jobs_per_daemon_max;
  static constexpr size_t events_of_job_max = 1024;
  static constexpr size_t events_of_job_bytes_max = 128 << 10;
  static constexpr size_t events_of_nodes_max = 3072;
  static constexpr size_t events_of_nodes_bytes_max = 384 << 10;
  // The text of an event; of an answer; of each of the two files; and of a live
  // job's own events in the beginning of a new file.
  static constexpr size_t event_bytes_max = 2 << 10;
  static constexpr size_t event_answer_bytes_max = 256 << 10;
  static constexpr size_t event_file_bytes_max = 4 << 20;
  static constexpr size_t event_carried_bytes_max = 16 << 10;
  // What an agent may say of a rank's memory.
  static constexpr uint64_t rank_memory_bytes_max = uint64_t{1} << 50;

  // Of these, jobs that were made with one token and have never run; an admin's
  // token has no such bound. Further jobs are refused until one of them runs or
  // ends.
  static constexpr size_t gathering_jobs_per_token_max = 8;
  static constexpr size_t tokens_max = 1024;
  // Bytes for the names, epochs and token ids of the nodes that a run has
  // admitted. Beyond this, entries of nodes that the run no longer has are
  // removed; its current nodes may take more. Half of what one run may take in
  // etcd, so that names alone cannot fill that.
  static constexpr size_t node_epochs_bytes = 512 << 10;
  // Streams that have not sent Hello, or that wait for a delayed refusal.
  // Beyond this, the oldest is ended.
  size_t streams_without_hello_max = 4096;
  static constexpr size_t expected_nodes_max = 16384;
  // Names of lost nodes that are remembered, so that messages can name them.
  static constexpr size_t lost_names_max = 1024;
  // How many names have their losses counted separately; see Newcomers. Each
  // name may end one world in newcomer_delay_max, so with few names a world has
  // time to train.
  static constexpr size_t newcomer_names_max = 4;
  // Root causes that are remembered.
  static constexpr size_t causes_max = 32;
  // Calls that one viewer's token may have open at once: watches (all tokens
  // together: watchers_max), and status calls whose answer is not fully read.
  static constexpr size_t watchers_max = 256;
  static constexpr size_t watches_per_viewer_max = 32;
  static constexpr size_t status_calls_per_viewer_max = 32;
  // If a watcher leaves a status unread for this long while newer ones come,
  // its call is ended as too slow.
  absl::Duration watcher_patience = absl::Seconds(30);
  // Bytes queued for one agent before its stream is ended as too slow.
  static constexpr size_t stream_queue_bytes_max = 64 << 20;
  // Bytes queued for all agents together; a message that is queued for several
  // agents counts once. Beyond this, the stream with the most bytes is ended.
  size_t unread_bytes_max = size_t{512} << 20;
  // Bytes of messages that the loop collects before it sends them.
  static constexpr size_t batch_bytes_max = 16 << 20;
  static constexpr size_t inbox_events_max = 65536;
  // Complete keys that an agent still answers for its own ranks.
  static constexpr size_t answers_kept = 8;
  // Earlier lives that one Hello may report as swept.
  static constexpr int swept_max = 16;
  // Bytes of the secret of each such life, see
  // daemon/security/secrets/incarnation_nonce.h.
  static constexpr size_t incarnation_nonce_bytes = 16;
  // Bytes of the largest world that an agent sends when it redials.
  static constexpr size_t resume_state_world_bytes_max = 512 << 10;
  // How many different worlds agents may claim of a run that this daemon does
  // not know: those of its last generation, and some that untrusted clients
  // have made up.
  static constexpr size_t claimed_worlds_max = 16;
  // Compressed bytes that one run may take in etcd. By default etcd accepts 1.5
  // MiB for a whole request. 16,384 nodes with one rank each take about 0.4
  // MiB; with 64 ranks each, their NCCL ids alone take 1 MiB.
  static constexpr size_t etcd_value_bytes_max = 1400 << 10;
  // Operations in one request to etcd, which accepts 128 by default.
  static constexpr size_t etcd_operations_max = 100;
  static constexpr int ranks_per_nccl_id = 128;
  static constexpr size_t nccl_id_bytes = 128;

  ConnectionLimits connections;
  LogLimits log;
};

static_assert(Limits::job_id_bytes_max <= Limits::node_name_bytes_max);
static_assert(Limits::communication_variables_max *
                      (Limits::variable_name_bytes_max +
                       Limits::variable_value_bytes_max + 8) +
                  Limits::same_files_max * 2 * Limits::same_path_bytes_max <
              Limits::facts_bytes_max / 2);
static_assert(Limits::facts_bytes_max + Limits::resume_state_world_bytes_max +
                  Limits::job_variables_max *
                      (Limits::variable_name_bytes_max +
                       Limits::job_variable_bytes_max + 16) <
              Limits::hello_bytes_max);
// Each address may have an interface of its own.
static_assert(Limits::addresses_per_node_max <=
              Limits::interfaces_per_node_max);
static_assert(Limits::hello_bytes_max <= Limits::agent_message_bytes_max);
static_assert(Limits::hello_bytes_max <
              ConnectionLimits{}.introduced_bytes_max);
static_assert(Limits::hello_without_introduction_bytes <
              ConnectionLimits{}.stream_window_bytes);
static_assert(Limits::nccl_id_bytes * Limits::nodes_max *
                  Limits::ranks_per_node_max / Limits::ranks_per_nccl_id <
              Limits::agent_message_bytes_max);
static_assert(Limits::exchange_value_bytes_max * Limits::ranks_per_node_max <
              Limits::agent_message_bytes_max);
// A message that is just below store_message_bytes and then gets the largest
// operation or record: a value, a key, and what each node changed last (a
// record's `done`).
static_assert(Limits::store_message_bytes + Limits::store_value_bytes_max +
                  2 * Limits::store_key_bytes_max +
                  size_t{Limits::nodes_max} * 32 <
              Limits::agent_message_bytes_max);
// All that one agent is sent of the store at once fits into its queue.
static_assert(2 * (Limits::store_node_bytes_max +
                   Limits::store_unread_node_bytes_max) <=
              Limits::stream_queue_bytes_max);
static_assert(4 * Limits::store_node_bytes_max <= Limits::store_bytes_max);
static_assert(4 * Limits::store_unread_bytes_max <= Limits{}.unread_bytes_max);
static_assert(Limits{}.credential_renewal < Limits{}.credential_ttl);
// One node may take at most a sixteenth of the total bytes of exchanges.
static_assert(16 * Limits::exchanges_open_per_node_max *
                  (Limits::exchange_value_bytes_max *
                   Limits::ranks_per_node_max) <=
              Limits::world_bytes_max);
static_assert(Limits::world_bytes_max <= Limits::stream_queue_bytes_max);
// One stream cannot use up the total.
static_assert(8 * Limits::stream_queue_bytes_max <= Limits{}.unread_bytes_max);
static_assert(Limits::watches_per_viewer_max < Limits::watchers_max);
static_assert(Limits::gathering_jobs_per_token_max * 2 <=
              Limits::jobs_per_daemon_max);
static_assert(Limits::event_jobs_max * Limits::event_carried_bytes_max <
              Limits::event_file_bytes_max);
static_assert(Limits{}.join_timeout <= Limits::wait_max &&
              Limits{}.stop_grace <= Limits::wait_max &&
              Limits{}.notice_time <= Limits::wait_max &&
              Limits{}.hang_timeout <= Limits::wait_max &&
              Limits{}.start_timeout <= Limits::wait_max &&
              Limits{}.setup_timeout <= Limits::wait_max &&
              Limits{}.daemon_grace <= Limits::wait_max &&
              Limits{}.linger <= Limits::wait_max);
static_assert(Limits{}.lease <= Limits::grace_max &&
              Limits{}.last_call <= Limits::grace_max &&
              Limits{}.prepare_timeout <= Limits::grace_max &&
              Limits{}.reconnect_grace <= Limits::grace_max &&
              Limits{}.reattach_grace <= Limits::grace_max);
static_assert(Limits{}.last_call <= Limits{}.arrivals_wait_max);
static_assert(Limits{}.newcomer_delay_first < Limits{}.newcomer_delay_max);
// If a world ends once for each of these names within the longest delay, it
// still trains for a minute at a time.
static_assert(Limits{}.newcomer_delay_max >=
              absl::Minutes(static_cast<int>(Limits::newcomer_names_max) + 1));
// The agent's report about a stalled rank must arrive before the verdict.
static_assert(Limits{}.where_patience <= Limits{}.stacks_patience);
static_assert(Limits{}.stacks_patience < Limits{}.hang_blame_window);
static_assert(Limits::nccl_id_bytes * Limits::nodes_max *
                  Limits::ranks_per_node_max / Limits::ranks_per_nccl_id <
              Limits::etcd_value_bytes_max);
static_assert(Limits::probe_all_pairs_max * (Limits::probe_all_pairs_max - 1) <=
              Limits::pings_shown_max);
static_assert(2 * Limits::node_epochs_bytes < Limits::etcd_value_bytes_max);
static_assert(LogLimits{}.peers_max >= 2 * size_t{Limits::nodes_max});
// Half of agents_max is enough for the largest job.
static_assert(ConnectionLimits{}.agents_max >=
              2 * size_t{Limits::nodes_max + Limits::spares_max});
static_assert(2 * Limits::agent_message_bytes_max <=
              ConnectionLimits{}.agent_bytes_max);
static_assert(ConnectionLimits{}.handshakes_burst >= Limits::nodes_max);
static_assert(ConnectionLimits{}.waiting_max >= Limits::nodes_max);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_LIMITS_H_
