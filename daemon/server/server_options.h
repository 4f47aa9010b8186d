// ServerOptions: what a daemon is started with, and which of it fits together.
//
// The checks are pure, but for CheckOptions, which reads the files of a PKI.
#ifndef ROLLCALL_DAEMON_SERVER_SERVER_OPTIONS_H_
#define ROLLCALL_DAEMON_SERVER_SERVER_OPTIONS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/core/events.h"
#include "daemon/core/limits.h"
#include "daemon/journal/etcd/etcd_client.h"
#include "daemon/journal/etcd/etcd_location.h"
#include "daemon/security/secrets/shared_secret.h"
#include "daemon/security/secrets/token_table.h"
#include "daemon/security/server_certificate.h"
#include "daemon/server/loop/state/logger.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct ServerOptions {
  // ADDRESS:PORT; port 0: a free one. "[::]" listens on IPv4 as well.
  std::string listen = "[::]:0";
  // Folder of the journal (0700, created if missing); empty: no journal in a
  // folder.
  std::string state_dir;
  // If set, the journal is in etcd and shared by several daemons, one of which
  // leads. All of them need the same identity (a secret, the files of a PKI, or
  // neither) and the same tokens. Only for daemons with many jobs; excludes
  // state_dir.
  std::optional<EtcdLocation> etcd;
  // With etcd: how to connect to it. The endpoints are taken from `etcd`.
  EtcdAccess etcd_access;
  // With etcd, exactly one of `secret` and this is set. This is the key that
  // encrypts the values in etcd.
  std::optional<SharedSecret> etcd_key;
  // With etcd: whether the tokens are stored there; then `tokens` may be empty.
  bool tokens_in_etcd = false;
  // Lifetime of the worker's token in etcd.
  absl::Duration token_ttl = Limits().token_ttl;
  // With etcd: returns the addresses of this daemon, given its port.
  std::function<std::vector<std::string>(int port)> endpoints;
  // The tokens at the start; at least one.
  std::vector<SeededToken> tokens;
  // Writes a new token, which has replaced a kept one, to the file of that one.
  // Called on the loop's thread. Empty: kept tokens are not replaced.
  KeepToken keep_token;
  // See LoopOptions::beat.
  std::function<void()> beat;
  // See LoopOptions::journal_changed.
  std::function<void(const absl::Status&)> journal_changed;
  // Called by Start once the port and the CA's pin are known, before the first
  // call of keep_token. `pin` is empty if the daemon has no CA of its own. If
  // it returns an error, Start returns that error.
  std::function<absl::Status(int port, const std::string& pin)> listening;
  // How connections are encrypted; at most one of the three is set. None: with
  // the daemon's own CA, which is kept in state_dir. `secret`: with the CA that
  // is derived from the secret. `tls`: with the user's PKI. `insecure`: not
  // encrypted; only on loopback.
  std::optional<SharedSecret> secret;
  TlsFiles tls;
  // With `tls`: an agent's node name must be a DNS name of the agent's
  // certificate, or the common name of a certificate without DNS names.
  bool tls_bind_names = false;
  bool insecure = false;
  // ADDRESS:PORT of the HTTP port; empty: there is none. `http_insecure`:
  // allows plain HTTP also beyond loopback; see WebPort. `http_optional`: if
  // the port cannot be opened, Start continues without it, because running
  // ranks are more important.
  std::string http;
  bool http_insecure = false;
  bool http_optional = false;
  // Not empty: the server has a single job, which it creates at the start, and
  // ends when that job has ended. Empty (rollcalld): the first Hello with
  // settings creates a job.
  std::string job;
  v1::JobSettings settings;
  // True: continues the job's unfinished run from the journal, if there is one.
  // False: begins a new run, whatever the journal contains. In rollcalld it
  // applies to the unfinished runs of all jobs.
  bool resume = false;
  Limits limits;
  // A client that has sent nothing for this long is pinged. If it does not
  // answer within 10 s it is disconnected.
  absl::Duration keepalive_time = absl::Seconds(20);
  // Lines of this level and above are written to stderr.
  Log::Level log_level = Log::Level::kInfo;
  LogFormat log_format = LogFormat::kText;
};

// INVALID_ARGUMENT: with these options several daemons cannot share one state;
// the message says what is missing.
absl::Status CheckShared(const ServerOptions& options);

// INVALID_ARGUMENT: an option breaks its grammar, or options exclude each
// other. Includes CheckShared. Server::Start calls this.
absl::Status CheckOptions(const ServerOptions& options);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_SERVER_OPTIONS_H_
