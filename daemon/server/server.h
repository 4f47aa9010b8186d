// Server: the daemon's shell. One gRPC server, one loop thread that alone calls
// Job::Step, one journal. With etcd it has the loop only while it leads.
//
// gRPC threads validate and convert, and post to the loop's bounded inbox; the
// loop takes all that waits, steps the jobs, commits the journal once for the
// whole batch, and only then sends.
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
#include "daemon/core/job/events.h"
#include "daemon/core/limits.h"
#include "daemon/journal/etcd_client.h"
#include "daemon/journal/etcd_place.h"
#include "daemon/security/server_certificate.h"
#include "daemon/security/shared_secret.h"
#include "daemon/security/token_table.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct ServerOptions {
  // ADDRESS:PORT; port 0: a free one. "[::]" listens on IPv4 as well.
  std::string listen = "[::]:0";
  // Folder of the journal (0700, made where missing); empty: no journal here.
  std::string state_dir;
  // Where set: the journal lies in etcd, and several daemons share it, of which
  // one leads; all of them need the same identity (a secret, files of a PKI, or
  // none at all) and the same tokens. For many jobs alone; excludes state_dir.
  std::optional<EtcdPlace> etcd;
  // With etcd: how it is reached; the endpoints are those of the place.
  EtcdAccess etcd_access;
  // With etcd, instead of `secret`: what seals the values there. One of them.
  std::optional<SharedSecret> etcd_key;
  // With etcd: the tokens lie there, and `tokens` may be empty.
  bool tokens_in_etcd = false;
  // Of the worker's token there.
  absl::Duration token_ttl = Limits().token_ttl;
  // With etcd: where others reach this daemon, given its port.
  std::function<std::vector<std::string>(int port)> endpoints;
  // The tokens that it is started with: at least one.
  std::vector<SeededToken> tokens;
  // Writes a token that has taken the place of a kept one to its file; called
  // on the loop's thread. Empty: kept tokens are not replaced.
  KeepToken keep_token;
  // See Loop::Options::beat.
  std::function<void()> beat;
  // See Loop::Options::journal_changed.
  std::function<void(const absl::Status&)> journal_changed;
  // Called by Start once the port and the CA's pin (empty: no CA of its own)
  // are known, before keep_token can be. An error ends Start.
  std::function<absl::Status(int port, const std::string& pin)> listening;
  // How the wire is closed. By default by a CA of the daemon's own, kept in
  // state_dir; with a secret, by the one that is derived from it; with files,
  // by the user's PKI; or, on loopback only, not at all. One of them.
  std::optional<SharedSecret> secret;
  TlsFiles tls;
  // With `tls`: an agent's node name must be a DNS name of the certificate that
  // it shows (or its common name, where it has no DNS name).
  bool tls_bind_names = false;
  bool insecure = false;
  // Where set: one job, made at once, and the server ends when it has ended.
  // Unset (rollcalld): jobs are made by the first Hello with settings.
  std::string job;
  v1::JobSettings settings;
  // Go on with the job's unfinished run from the journal, if there is one.
  // False: a new run, whatever the journal says.
  // rollcalld: the unfinished runs of all jobs.
  bool resume = false;
  Limits limits;
  // A client from which nothing has come for so long is pinged. One that does
  // not answer within 10 s is disconnected.
  absl::Duration keepalive_time = absl::Seconds(20);
  // What goes to stderr: lines of this level and above.
  Log::Level log_level = Log::Level::kInfo;
};

// INVALID_ARGUMENT: options of several daemons that cannot share one state;
// says what is missing. Start asks it too.
absl::Status CheckShared(const ServerOptions& options);

class Server {
 public:
  // INVALID_ARGUMENT: an option breaks its grammar. UNAVAILABLE: the address
  // cannot be listened on, or the journal not written. FAILED_PRECONDITION: the
  // state folder is held by another daemon, or its journal is foreign, newer or
  // damaged, or a key or certificate is not what it should be; named.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);

  // As Shutdown.
  ~Server();

  int port() const;
  // What join strings say of its CA; empty where it has none of its own.
  const std::string& pin() const;
  // Blocks until the one job has ended and is forgotten, or Shutdown. Returns
  // how it ended. Not with etcd.
  std::optional<v1::End> Wait();
  // Ends all streams with UNAVAILABLE (with OK where their job has ended) and
  // stops the loop. The second call does nothing.
  void Shutdown();

 private:
  class Core;
  explicit Server(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_SERVER_H_
