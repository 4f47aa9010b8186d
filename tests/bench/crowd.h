// Crowd: many nodes that attend one job from one process, over the real wire.
//
// Each node has a channel and so a connection of its own, as real agents have,
// and dials again as they do until it has a commit: with their patience for a
// connection, their delays, and a new channel each time. What an agent does not
// dial again for, and any stream that ends after the commit, fails the run.
// Nodes say Hello and prepare for what is proposed at once; they hold no lease
// by themselves (Beat does) and look up no facts. For benchmarks only.
//
// Thread rule: all functions from one thread; the streams run on gRPC's.
#ifndef ROLLCALL_TESTS_BENCH_CROWD_H_
#define ROLLCALL_TESTS_BENCH_CROWD_H_

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
  // On 127.0.0.1.
  int port = 0;
  Trust trust;
  // Say that all ranks exited 0 once a world is committed, so that it ends.
  bool exits = false;
  // The number of the first node.
  int first = 1;
};

// What the crowd has seen so far. Times are the first and the last node's.
struct CrowdSeen {
  int redials = 0;
  int welcomed = 0;
  int committed = 0;
  int aborted = 0;
  uint64_t generation = 0;  // Of the commit.
  size_t world_bytes = 0;   // Of the proposal and the commit, as they came.
  bool ids = false;         // The committed world carries NCCL ids.
  std::string failure;      // Of the first stream that broke for good.
  absl::Time first_proposal = absl::InfiniteFuture();
  absl::Time last_welcome = absl::InfinitePast();
  absl::Time last_commit = absl::InfinitePast();
  absl::Time last_abort = absl::InfinitePast();
};

class Crowd {
 public:
  explicit Crowd(CrowdOptions options);
  // Dials no more, cancels the streams and waits for their ends.
  ~Crowd();

  // Dials with `count` nodes, `crowd-<first>` and so on.
  void Attend(int count);

  // Waits until all nodes are welcomed, have got a commit, or were told that a
  // generation has ended. False: something failed, or the time is up; said on
  // stderr.
  bool AwaitWelcomes(absl::Duration timeout);
  bool AwaitCommits(absl::Duration timeout);
  bool AwaitAborts(absl::Duration timeout);
  // For so long, each node sends a heartbeat every `interval`, one after the
  // other. False: as above.
  bool Beat(absl::Duration interval, absl::Duration duration);

  CrowdSeen Seen();

 private:
  class Node;
  class Stream;
  bool Await(int CrowdSeen::*counter, const char* what, absl::Duration timeout);
  // The redialling thread: dials again, and closes the channels of ended
  // streams.
  void Redial();

  const CrowdOptions options_;
  // As agents have one.
  const PollerKeepAlive poller_keep_alive_;
  std::vector<std::unique_ptr<Node>> nodes_;
  Mutex mutex_;
  // All have got it, a stream has ended, or somebody is to dial again.
  CondVar changed_;
  int dialled_ ABSL_GUARDED_BY(mutex_) = 0;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;  // Streams.
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::multimap<absl::Time, Node*> redials_ ABSL_GUARDED_BY(mutex_);
  // Streams that nothing is left of but their channels.
  std::vector<std::shared_ptr<Stream>> ended_ ABSL_GUARDED_BY(mutex_);
  std::mt19937 chance_ ABSL_GUARDED_BY(mutex_);
  CrowdSeen seen_ ABSL_GUARDED_BY(mutex_);
  std::thread redialling_;
};

}  // namespace rollcall::bench

#endif  // ROLLCALL_TESTS_BENCH_CROWD_H_
