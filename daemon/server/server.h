// Server: the daemon without its command line: one gRPC server, one loop thread
// that alone calls Job::Step, one journal. With etcd it has the loop only while
// it leads.
//
// gRPC threads validate and convert messages, and post them to the loop's
// bounded inbox. The loop takes all that is queued, steps the jobs, commits the
// journal once for the whole batch, and only then sends.
//
// Thread rule: all functions from any thread.
#ifndef ROLLCALL_DAEMON_SERVER_SERVER_H_
#define ROLLCALL_DAEMON_SERVER_SERVER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/core/events.h"
#include "daemon/core/limits.h"
#include "daemon/journal/etcd_client.h"
#include "daemon/journal/etcd_location.h"
#include "daemon/security/server_certificate.h"
#include "daemon/security/shared_secret.h"
#include "daemon/security/token_table.h"
#include "daemon/server/loop/logger.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct ServerOptions {
  // ADDRESS:PORT; port 0: a free one. "[::]" listens on IPv4 as well.
  std::string listen = "[::]:0";
  // Folder of the journal (0700, created if missing); empty: no journal here.
  std::string state_dir;
  // Set: the journal is in etcd and shared by several daemons, one of which
  // leads. All of them need the same identity (a secret, the files of a PKI, or
  // neither) and the same tokens. Only for daemons with many jobs; excludes
  // state_dir.
  std::optional<EtcdLocation> etcd;
  // With etcd: how to connect to it; the endpoints are those of `etcd`.
  EtcdAccess etcd_access;
  // With etcd, instead of `secret`: the key that encrypts the values there.
  // Exactly one of the two.
  std::optional<SharedSecret> etcd_key;
  // With etcd: the tokens are stored there, and `tokens` may be empty.
  bool tokens_in_etcd = false;
  // Lifetime of the worker's token there.
  absl::Duration token_ttl = Limits().token_ttl;
  // With etcd: returns the addresses of this daemon, given its port.
  std::function<std::vector<std::string>(int port)> endpoints;
  // The tokens at the start: at least one.
  std::vector<SeededToken> tokens;
  // Writes a token that has replaced a kept one to its file; called on the
  // loop's thread. Empty: kept tokens are not replaced.
  KeepToken keep_token;
  // See Loop::Options::beat.
  std::function<void()> beat;
  // See Loop::Options::journal_changed.
  std::function<void(const absl::Status&)> journal_changed;
  // Called by Start once the port and the CA's pin are known, before the first
  // call of keep_token. `pin` is empty without a CA of its own. An error ends
  // Start.
  std::function<absl::Status(int port, const std::string& pin)> listening;
  // How connections are encrypted. By default with a CA of the daemon's own,
  // kept in state_dir; with `secret`, with the CA that is derived from it; with
  // `tls`, with the user's PKI; with `insecure`, on loopback only, not at all.
  // At most one of them.
  std::optional<SharedSecret> secret;
  TlsFiles tls;
  // With `tls`: an agent's node name must be a DNS name of the certificate that
  // it shows, or its common name if it has no DNS name.
  bool tls_bind_names = false;
  bool insecure = false;
  // ADDRESS:PORT of the HTTP port; empty: none. `http_insecure`: plain HTTP
  // also beyond loopback; see WebPort. `http_optional`: go on without it if it
  // cannot be opened, since ranks that run matter more.
  std::string http;
  bool http_insecure = false;
  bool http_optional = false;
  // Set: a single job, created at the start; the server ends when it has ended.
  // Unset (rollcalld): the first Hello with settings creates a job.
  std::string job;
  v1::JobSettings settings;
  // True: continue the job's unfinished run from the journal, if there is one.
  // False: a new run, whatever the journal contains. rollcalld: applies to the
  // unfinished runs of all jobs.
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
// the message says what is missing. Start checks it too.
absl::Status CheckShared(const ServerOptions& options);

class Server {
 public:
  // INVALID_ARGUMENT: an option breaks its grammar. UNAVAILABLE: the address
  // cannot be listened on, or the journal cannot be written.
  // FAILED_PRECONDITION: another daemon holds the state folder; or its journal
  // is another program's, newer or damaged; or a key or certificate is not
  // valid. The message names it.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);

  // As Shutdown.
  ~Server();

  int port() const;
  // Of the HTTP port; 0 and empty: none.
  int http_port() const;
  std::string http_url() const;
  // Pin of its CA for join strings; empty if it has no CA of its own.
  const std::string& pin() const;
  // Blocks until the single job has ended and is removed, or until Shutdown.
  // Returns how it ended. Not with etcd.
  std::optional<v1::End> Wait();
  // Ends all streams with UNAVAILABLE (with OK if their job has ended) and
  // stops the loop. The second call does nothing.
  void Shutdown();

 private:
  class Core;
  explicit Server(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_SERVER_H_
