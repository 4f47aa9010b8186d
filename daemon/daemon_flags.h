// DaemonFlags: the command line of rollcalld.
#ifndef ROLLCALL_DAEMON_DAEMON_FLAGS_H_
#define ROLLCALL_DAEMON_DAEMON_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/journal/etcd/etcd_location.h"
#include "daemon/security/server_certificate.h"

namespace rollcall {

// How to connect to etcd.
struct EtcdFlags {
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
  std::string user;
  std::string password_file;
  // Allows plaintext to other machines.
  bool insecure = false;
  // Key that seals the values; needed only without a shared secret.
  std::string sealing_key_file;

  bool empty() const {
    return ca_file.empty() && cert_file.empty() && key_file.empty() &&
           user.empty() && password_file.empty() && !insecure &&
           sealing_key_file.empty();
  }
};

struct DaemonFlags {
  std::string listen = "[::]:29400";
  // ADDRESS:PORT of the HTTP port; empty: there is no HTTP port.
  std::string http;
  bool http_insecure = false;
  // A folder, or etcd://...; empty: the default folder.
  std::string state;
  // Only with etcd. `advertise` has the endpoints of this daemon, `daemons` the
  // endpoints of all daemons; `join_dir` is the folder for join strings.
  std::vector<std::string> advertise;
  std::vector<std::string> daemons;
  std::string join_dir;
  EtcdFlags etcd;
  std::string token_ttl;
  std::string secret_file;
  TlsFiles tls;
  bool tls_bind_names = false;
  bool insecure = false;
  std::string log_level = "info";
  std::string log_format = "text";
};

// Name of the default state folder.
inline constexpr char kStateName[] = "rollcalld";

// Parses the command line. Returns the exit code if the process has to exit
// now (--help, --version or a usage error, which is printed).
std::optional<int> ParseDaemonFlags(int argc, char** argv, DaemonFlags& flags);

// Where in etcd the state is; nullopt: the state is in a folder.
// INVALID_ARGUMENT: a flag is malformed, or flags contradict each other.
absl::StatusOr<std::optional<EtcdLocation>> PlaceOf(const DaemonFlags& flags);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_DAEMON_FLAGS_H_
