// Crowd: many nodes in one process that attend one job over real connections.
//
// Each node has its own channel and so its own connection, as real agents have.
// Until it has a commit, it redials as agents do: with the same time limit for
// a connection, the same delays, and a new channel each time. An error after
// which an agent would not redial fails the run, and so does any stream that
// ends after the commit. Nodes send Hello and answer each proposal with
// Prepared at once. They send heartbeats only in Beat, and collect no facts.
// For benchmarks only.
//
// Thread rule: call it from one thread; streams run on gRPC's threads.
#ifndef ROLLCALL_TESTS_BENCH_DAEMON_CROWD_H_
#define ROLLCALL_TESTS_BENCH_DAEMON_CROWD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/grpc/poller_keep_alive.h"
#include "daemon/base/mutex.h"
#include "daemon/security/trust.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall::bench {

struct CrowdOptions {
  // The daemon's port on 127.0.0.1.
  int port = 0;
  Trust trust;
  // The number of the first node.
  int first = 1;
};

// What has happened so far. Times are of the last node.
struct CrowdSeen {
  int redials = 0;
  int welcomed = 0;
  int committed = 0;
  int aborted = 0;
  uint64_t generation = 0;  // The generation of the commit.
  size_t world_bytes = 0;   // The size of proposal and commit as received.
  std::string failure;      // The error of the first stream that failed.
  absl::Time last_welcome = absl::InfinitePast();
  absl::Time last_commit = absl::InfinitePast();
  absl::Time last_abort = absl::InfinitePast();
};

class Crowd {
 public:
  explicit Crowd(CrowdOptions options);
  // Stops dialling, cancels the streams and waits for their ends.
  ~Crowd();

  // Starts to dial with `count` nodes, `crowd-<first>` and so on.
  void Attend(int count);

  // Wait until all nodes are welcomed, have a commit, or were told that a
  // generation has ended. They return false after a failure or the timeout and
  // print the reason to stderr.
  bool AwaitWelcomes(absl::Duration timeout);
  bool AwaitCommits(absl::Duration timeout);
  bool AwaitAborts(absl::Duration timeout);
  // For `duration`, each node sends a heartbeat every `interval`; the nodes
  // take turns. Returns false after a failure, as above.
  bool Beat(absl::Duration interval, absl::Duration duration);

  CrowdSeen Seen();

 private:
  class Node;
  class Stream;
  bool Await(int CrowdSeen::*counter, const char* what, absl::Duration timeout);
  // Runs in a thread of its own: redials, and closes the channels of ended
  // streams.
  void Redial();

  const CrowdOptions options_;
  // Agents have one, too.
  const PollerKeepAlive poller_keep_alive_;
  std::vector<std::unique_ptr<Node>> nodes_;
  Mutex mutex_;
  // Notified when all nodes have reached a state, when a stream has ended, or
  // when a node has to redial.
  CondVar changed_;
  int dialled_ ABSL_GUARDED_BY(mutex_) = 0;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;  // The number of open streams.
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::multimap<absl::Time, Node*> redials_ ABSL_GUARDED_BY(mutex_);
  // Ended streams whose channels are not closed yet.
  std::vector<std::shared_ptr<Stream>> ended_ ABSL_GUARDED_BY(mutex_);
  std::mt19937 chance_ ABSL_GUARDED_BY(mutex_);
  CrowdSeen seen_ ABSL_GUARDED_BY(mutex_);
  std::thread redialling_;
};

}  // namespace rollcall::bench

#endif  // ROLLCALL_TESTS_BENCH_DAEMON_CROWD_H_
