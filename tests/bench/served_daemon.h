// ServedDaemon: what a crowd attends, in a process of its own, whose memory and
// time can be read from outside: the real server with a journal, or BareServer.
//
// The process is the benchmark's own binary once more. One thread.
#ifndef ROLLCALL_TESTS_BENCH_SERVED_DAEMON_H_
#define ROLLCALL_TESTS_BENCH_SERVED_DAEMON_H_

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
  // Of the one world; bare: as BareServer has them, both.
  int nodes = 1;
  size_t answer_bytes = 0;
  bool tells_loss = false;
  // Of rollcall's; 0: so long that nobody needs to send heartbeats.
  int lease_ms = 0;
  // Of rollcall's: its HTTP port too, on 127.0.0.1, without TLS.
  bool http = false;
};

class ServedDaemon {
 public:
  // Starts it on a free port of 127.0.0.1. Exits the process where it does not
  // come up.
  explicit ServedDaemon(const Serving& serving);
  ~ServedDaemon();
  ServedDaemon(const ServedDaemon&) = delete;
  ServedDaemon& operator=(const ServedDaemon&) = delete;

  int port() const { return port_; }
  // 0: none.
  int http_port() const { return http_port_; }
  // What its clients know it by.
  const Trust& trust() const { return trust_; }
  // KiB that are resident.
  int64_t resident_kib() const;
  // Of processors, since its start.
  absl::Duration processor_time() const;

 private:
  pid_t pid_ = -1;
  int lifeline_ = -1;
  int port_ = 0;
  int http_port_ = 0;
  Trust trust_;
};

// First thing in main: where this process was started by a ServedDaemon it
// serves until that one is gone, and returns the exit code. Otherwise it makes
// room for thousands of sockets.
std::optional<int> ServeIfAsked(int argc, char** argv);

// Reads argument `at`, a number from 1 to `most`, where there is one. False: it
// is none.
bool ReadCount(int argc, char** argv, int at, int most, int& value);

}  // namespace rollcall::bench

#endif  // ROLLCALL_TESTS_BENCH_SERVED_DAEMON_H_
