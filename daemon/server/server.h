// Server: the daemon without its command line. It has one gRPC server, one loop
// thread, which alone calls Job::Step, and one journal. With etcd it has the
// loop only while it leads.
//
// gRPC threads validate and convert messages, and post them to the loop's
// bounded inbox. The loop takes all that is queued, steps the jobs, commits the
// journal once for the whole batch, and only then sends.
//
// Thread rule: all functions from any thread.
#ifndef ROLLCALL_DAEMON_SERVER_SERVER_H_
#define ROLLCALL_DAEMON_SERVER_SERVER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/server/server_options.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Server {
 public:
  // INVALID_ARGUMENT: an option breaks its grammar. UNAVAILABLE: the server
  // cannot listen on the address, or the journal cannot be written.
  // FAILED_PRECONDITION: another daemon has locked the state folder; or the
  // journal in it belongs to another program, is of a newer version or is
  // damaged; or a key or certificate is not valid. The message has the file and
  // the reason.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);

  // As Shutdown.
  ~Server();

  int port() const;
  // Port and URL of the HTTP port; 0 and empty: there is none.
  int http_port() const;
  std::string http_url() const;
  // Pin of the daemon's CA, for join strings; empty if the daemon has no CA of
  // its own.
  const std::string& pin() const;
  // Blocks until the single job has ended and is removed, or until Shutdown.
  // Returns how the job ended; nullopt: it has not ended, or the state is in
  // etcd (then it does not block).
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
