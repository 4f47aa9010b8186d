// Crowd: many nodes that attend one job from one process, over the real wire.
//
// Each node has a channel and so a connection of its own, as real agents have.
// They say Hello, prepare for what is proposed at once, and say that their
// ranks exited 0 once a world is committed; they hold no lease (the daemon's
// is set long). For benchmarks only: no retries, no facts that are looked up.
//
// Thread rule: all functions from one thread; the streams run on gRPC's.
#ifndef ROLLCALL_TESTS_BENCH_CROWD_H_
#define ROLLCALL_TESTS_BENCH_CROWD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/server/mutex.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall::bench {

// What the crowd has seen so far. Times are the first and the last node's.
struct CrowdSeen {
  int welcomed = 0;
  int committed = 0;
  int ended = 0;        // Streams.
  bool ids = false;     // The committed world carries NCCL ids.
  std::string failure;  // Of the first stream that broke early.
  absl::Time first_proposal = absl::InfiniteFuture();
  absl::Time last_welcome = absl::InfinitePast();
  absl::Time last_commit = absl::InfinitePast();
};

class Crowd {
 public:
  // `port` on 127.0.0.1; nodes are called `crowd-1`...
  Crowd(int port, const std::string& job, const v1::JoinToken& token);
  // Cancels the streams and waits for their ends.
  ~Crowd();

  // Dials with `count` nodes.
  void Attend(int count);

  // Waits until all nodes are welcomed, or have got a commit, or all streams
  // have ended. False: something failed, or the time is up; said on stderr.
  bool AwaitWelcomes(absl::Duration timeout);
  bool AwaitCommits(absl::Duration timeout);
  bool AwaitEnds(absl::Duration timeout);

  CrowdSeen Seen();

 private:
  class Node;
  friend class Node;
  bool Await(int CrowdSeen::*counter, const char* what, absl::Duration timeout);

  const int port_;
  const std::string job_;
  const v1::JoinToken token_;
  std::vector<std::unique_ptr<Node>> nodes_;
  Mutex mutex_;
  CondVar changed_;
  CrowdSeen seen_ ABSL_GUARDED_BY(mutex_);
};

// A daemon of its own process, started as `/proc/self/exe --serve KIND N`,
// whose memory can be read from outside.
class ServedDaemon {
 public:
  // KIND: `rollcall`, the real server whose job wants `nodes` nodes; `bare`,
  // a gRPC server that welcomes, and sends all the same commit-sized bytes once
  // `nodes` are in. Exits the process where it does not come up.
  ServedDaemon(const std::string& kind, int nodes);
  ~ServedDaemon();

  int port() const { return port_; }
  // From /proc: KiB that are resident.
  int64_t resident_kib() const;

 private:
  int pid_ = -1;
  int lifeline_ = -1;
  int port_ = 0;
};

// The other side: serves until stdin ends. To be called by main for --serve.
int Serve(const std::string& kind, int nodes);

// The job and the token of ServedDaemon; no secret, it lives on loopback.
extern const char kJob[];
v1::JoinToken BenchToken();

// Room for thousands of sockets.
void RaiseFileLimit();

}  // namespace rollcall::bench

#endif  // ROLLCALL_TESTS_BENCH_CROWD_H_
