// ServedDaemon: the daemon that a crowd attends. It is either the real server
// with a journal, or BareServer. It runs in a process of its own, so that its
// memory and processor time can be measured.
//
// That process runs the benchmark's own binary. Thread rule: one thread.
#ifndef ROLLCALL_TESTS_BENCH_DAEMON_SERVED_DAEMON_H_
#define ROLLCALL_TESTS_BENCH_DAEMON_SERVED_DAEMON_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "daemon/security/trust.h"

namespace rollcall::bench {

struct Serving {
  bool bare = false;
  bool tls = true;
  // The nodes of the one world. The bare server takes this and the next two as
  // BareServer's constructor does.
  int nodes = 1;
  size_t answer_bytes = 0;
  bool tells_loss = false;
  // Only for rollcall. 0: so long that no node needs to send heartbeats.
  int lease_ms = 0;
  // Only for rollcall: it has an HTTP port on 127.0.0.1, without TLS.
  bool http = false;
};

class ServedDaemon {
 public:
  // Starts the daemon on a free port of 127.0.0.1. Exits this process if the
  // daemon does not start.
  explicit ServedDaemon(const Serving& serving);
  ~ServedDaemon();
  ServedDaemon(const ServedDaemon&) = delete;
  ServedDaemon& operator=(const ServedDaemon&) = delete;

  int port() const { return port_; }
  // 0: there is no HTTP port.
  int http_port() const { return http_port_; }
  // What clients need to authenticate the daemon.
  const Trust& trust() const { return trust_; }
  // The daemon's resident memory in KiB.
  int64_t resident_kib() const;
  // The processor time that the daemon has used since its start.
  absl::Duration processor_time() const;

 private:
  pid_t pid_ = -1;
  int lifeline_ = -1;
  int port_ = 0;
  int http_port_ = 0;
  Trust trust_;
};

// Must be called first in main. If this process was started by a ServedDaemon,
// serves until that one is gone and returns the exit code. Otherwise raises the
// limit of open files for thousands of sockets.
std::optional<int> ServeIfAsked(int argc, char** argv);

// Reads argument `at`, a number from 1 to `most`, into `value`; keeps `value`
// if there is no such argument. Returns false if it is not such a number.
bool ReadCount(int argc, char** argv, int at, int most, int& value);

}  // namespace rollcall::bench

#endif  // ROLLCALL_TESTS_BENCH_DAEMON_SERVED_DAEMON_H_
