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
  absl::Duration prepare_timeout = absl::Seconds(30);
  absl::Duration probe_timeout = absl::Seconds(2);
  absl::Duration join_timeout = absl::Minutes(10);
  // How long agents redial a daemon that is gone.
  absl::Duration daemon_grace = absl::Minutes(10);
  // How long members have to come back to a daemon that was restarted.
  absl::Duration reattach_grace = absl::Seconds(60);
  // Between SIGTERM and SIGKILL of a rank.
  absl::Duration stop_grace = absl::Seconds(15);
  absl::Duration hang_timeout = absl::Minutes(10);
  // A stream that has not said Hello by then is ended.
  absl::Duration hello_timeout = absl::Seconds(10);
  // Redialling: first delay and largest, doubled in between, with jitter.
  absl::Duration redial_first = absl::Milliseconds(50);
  absl::Duration redial_most = absl::Seconds(1);

  uint32_t max_restarts = 3;
  int requeue_exit_code = 75;

  // --- Counts and sizes -----------------------------------------------------
  static constexpr uint32_t nodes_max = 16384;
  static constexpr uint32_t ranks_per_node_max = 64;
  static constexpr uint32_t addresses_per_node_max = 64;
  static constexpr size_t node_name_bytes_max = 253;
  static constexpr size_t job_id_bytes_max = 63;
  static constexpr size_t facts_bytes_max = 64 << 10;
  // A message from an agent: Hello with the world it holds is the largest.
  static constexpr size_t agent_message_bytes_max = 8 << 20;
  static constexpr size_t world_bytes_max = 64 << 20;
  static constexpr size_t exchange_value_bytes_max = 4 << 10;
  static constexpr size_t exchange_key_bytes_max = 128;
  // Keys of one generation that are not complete yet.
  static constexpr size_t exchanges_open_max = 64;
  // Complete keys of one generation that are still answered.
  static constexpr size_t exchanges_kept = 64;
  static constexpr size_t stderr_tail_bytes = 4 << 10;
  static constexpr size_t stderr_tail_lines = 20;
  static constexpr size_t jobs_per_daemon_max = 64;
  static constexpr size_t tokens_max = 1024;
  static constexpr size_t expected_nodes_max = 16384;
  // Names of lost nodes that are remembered, so that they can be named.
  static constexpr size_t lost_names_max = 1024;
  // Root causes that are remembered.
  static constexpr size_t causes_max = 32;
  // Bytes queued for one agent before its stream is ended as too slow.
  static constexpr size_t stream_queue_bytes_max = 64 << 20;
  static constexpr size_t inbox_events_max = 65536;
  // Complete keys that an agent still answers for its own ranks.
  static constexpr size_t answers_kept = 8;
  // Largest world that an agent brings along when it redials.
  static constexpr size_t held_world_bytes_max = 512 << 10;
  static constexpr int ranks_per_nccl_id = 128;
  static constexpr size_t nccl_id_bytes = 128;
};

static_assert(Limits::job_id_bytes_max <= Limits::node_name_bytes_max);
static_assert(Limits::facts_bytes_max < Limits::agent_message_bytes_max);
static_assert(Limits::exchange_value_bytes_max * Limits::ranks_per_node_max <
              Limits::agent_message_bytes_max);
static_assert(Limits::world_bytes_max <= Limits::stream_queue_bytes_max);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_LIMITS_H_
