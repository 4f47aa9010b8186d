#include "client/cli/flags/flags_text.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/core/limits.h"

namespace rollcall {

std::string LimitsText() {
  const Limits limits;
  std::string text = "Limits and defaults:\n";
  const auto time = [&](const char* name, absl::Duration value) {
    absl::StrAppend(&text, "  ", name, " ", absl::FormatDuration(value), "\n");
  };
  const auto count = [&](const char* name, uint64_t value) {
    absl::StrAppend(&text, "  ", name, " ", value, "\n");
  };
  time("lease", limits.lease);
  time("heartbeat", limits.heartbeat());
  time("reconnect grace", limits.reconnect_grace);
  time("last call", limits.last_call);
  time("last call at most, once enough nodes attend", limits.arrivals_wait_max);
  time("delay of a node that was lost twice soon after it joined",
       limits.newcomer_delay_first);
  time("that delay at most", limits.newcomer_delay_max);
  time("prepare timeout", limits.prepare_timeout);
  time("join timeout", limits.join_timeout);
  time("daemon grace", limits.daemon_grace);
  time("reattach grace", limits.reattach_grace);
  time("stop grace", limits.stop_grace);
  time("notice time", limits.notice_time);
  time("hang timeout", limits.hang_timeout);
  time("start timeout", limits.start_timeout);
  time("setup timeout", limits.setup_timeout);
  time("token ttl", limits.token_ttl);
  count("max restarts", limits.max_restarts);
  count("requeue exit code", static_cast<uint64_t>(limits.requeue_exit_code));
  count("nodes at most", Limits::nodes_max);
  count("ranks per node at most", Limits::ranks_per_node_max);
  count("addresses per node at most", Limits::addresses_per_node_max);
  count("bytes of a node name at most", Limits::node_name_bytes_max);
  count("bytes of a job id at most", Limits::job_id_bytes_max);
  count("bytes of an exchange value at most", Limits::exchange_value_bytes_max);
  count("bytes of facts at most", Limits::facts_bytes_max);
  count("jobs per daemon at most", Limits::jobs_per_daemon_max);
  count("jobs of one worker's token that have not run yet at most",
        Limits::gathering_jobs_per_token_max);
  count("tokens at most", Limits::tokens_max);
  count("streams without a Hello at most", limits.streams_without_hello_max);
  count("handshakes a second", limits.connections.handshakes_per_second);
  count("handshakes a second of one address",
        limits.connections.handshakes_per_address_per_second);
  count("connections waiting for a handshake at most",
        limits.connections.waiting_max);
  count("unauthenticated connections at most",
        limits.connections.unauthenticated_max);
  count("unauthenticated connections of one network at most",
        limits.connections.unauthenticated_per_network_max);
  count("watchers of one viewer's token at most",
        Limits::watches_per_viewer_max);
  absl::StrAppend(&text,
                  "Exit codes: 0 all ranks exited 0; 2 usage; 69 rendezvous "
                  "failed or timed "
                  "out; 71 the limits leave too little to start; 75 stopped "
                  "for requeue; 77 refused; else the root "
                  "cause's own code, "
                  "or 128+signal.");
  return text;
}

}  // namespace rollcall
