// Process: one rollcalld of several that share a store. It runs the real
// LeaderSession, with its Leadership, its EtcdJournal and its Loop, on a
// simulated machine.
//
// Its threads are fibers: each runs until it waits, and time stands still
// meanwhile. All fibers can be paused (the process is stopped and goes on), or
// end at once (the process dies). In a process that dies, each call and each
// wait returns at once and has no effect, so that its threads end by
// themselves.
#ifndef ROLLCALL_TESTS_SIM_DAEMONS_PROCESS_H_
#define ROLLCALL_TESTS_SIM_DAEMONS_PROCESS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/machine.h"
#include "daemon/journal/etcd/key_value.h"
#include "daemon/server/leader/current_loop.h"
#include "daemon/server/leader/leader_session.h"
#include "tests/sim/daemons/fibers.h"
#include "tests/sim/daemons/store.h"
#include "tests/sim/network.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

class Process final : public Machine {
 public:
  Process(World& world, Network& network, Fibers& fibers, Store& store,
          uint32_t number, Clock clock, absl::Duration wall_offset);
  // Its threads must have ended, or are never resumed.
  ~Process() override = default;

  // --- Its life --------------------------------------------------------------

  // Sets `options.loop.machine` itself.
  void Boot(LeaderSession::Options options);
  void Kill();
  // Ends it as SIGTERM does, which takes a while.
  void EndInOrder();
  void Pause(Nanos until);
  // Pauses it for `how_long` when it next sends a renewal of its lease.
  void PauseAtRenewal(Nanos how_long) { pause_at_renewal_ = how_long; }
  void Renews();
  void StepWall(absl::Duration by) { wall_offset_ += by; }
  void Calm();
  bool up() const { return up_; }
  bool ending() const { return ending_; }
  bool dead() const { return dead_; }
  uint32_t number() const { return number_; }

  // --- The LeaderTerm of its latest loop
  // --------------------------------------

  void NoteLeaderTerm(int64_t create_revision, std::function<bool()> leads);
  int64_t leader_term() const { return leader_term_; }
  // Whether the process considers itself the leader of that term.
  bool Leads() const { return !dead_ && leads_ && leads_(); }

  // --- From the network and the clock ----------------------------------------

  bool Take(StreamId stream, uint32_t node, Parcel& parcel);
  // Posts an admin call.
  void Post(LoopInput input);
  void OnTask(uint64_t wish);
  void OnThaw();
  void OnStreamGone(SessionId session);
  bool Attends(StreamId stream) const;

  // The running fiber, which must belong to this process, is never resumed.
  void Halt() { fibers_.GiveWay(); }

  // --- As a Machine ----------------------------------------------------------

  absl::Time Now() override;
  absl::Time LeaseNow() override { return Now(); }
  absl::Time WallNow() override { return Now() + wall_offset_; }
  std::unique_ptr<Thread> Start(std::function<void()> body) override;
  void WaitFor(CondVar& condition, Mutex& mutex, absl::Duration most) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Notify(CondVar& condition) override;

 private:
  class Output;
  class Started;
  struct Task {
    std::unique_ptr<Fiber> fiber;
    CondVar* waits_at = nullptr;
    Task* joiner = nullptr;
    // The number of its latest wake-up; older ones are ignored.
    uint64_t wish = 0;
  };
  struct Session {
    StreamId stream;
    uint32_t node;
    std::shared_ptr<Stream> output;
    bool welcomed = false;
    bool closed = false;
  };
  struct Held {
    StreamId stream;
    uint32_t node;
    Parcel parcel;
  };

  bool paused() const { return world_.now() < paused_until_; }
  Task& Running();
  Task& Add(std::function<void()> body);
  void Run(Task& task);
  void Park(Nanos until);
  void Unpark(Task& task);
  void Main(const LeaderSession::Options& options);
  void Hear(StreamId stream, uint32_t node, Parcel& parcel);
  void HearMessage(SessionId id, Session& session, v1::AgentMessage& message);
  void PostOrEnd(SessionId session, LoopInput input);
  void Say(SessionId session, Parcel parcel);
  // Sends what was said meanwhile in the order of the sessions, because a loop
  // keeps them in an order that differs from run to run.
  void Flush();
  void Ended();

  World& world_;
  Network& network_;
  Fibers& fibers_;
  const uint32_t number_;
  const Clock clock_;
  absl::Duration wall_offset_;
  const std::unique_ptr<KeyValueStore> client_;

  // The state of one life of the process.
  bool up_ = false;
  bool dead_ = false;
  absl::Time dead_now_;
  Nanos paused_until_ = 0;
  Nanos pause_at_renewal_ = 0;  // 0: no pause.
  std::vector<std::unique_ptr<Task>> tasks_;
  uint64_t wishes_ = 0;
  std::optional<CurrentLoop> current_loop_;
  Mutex mutex_;
  CondVar end_;
  bool ending_ = false;
  int64_t leader_term_ = 0;
  std::function<bool()> leads_;
  SessionId last_session_ = 0;
  std::map<SessionId, Session> sessions_;
  std::map<StreamId, SessionId> by_stream_;
  std::vector<Held> held_;
  std::vector<LoopInput> held_inputs_;
  std::vector<std::pair<SessionId, Parcel>> said_;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_DAEMONS_PROCESS_H_
