// Daemon: runs the real Job in a shell that orders its effects as
// daemon/server/loop does. Its journal loses what was not committed.
//
// Input that arrives during a commit waits, and is then handled as one batch;
// nothing of a batch is sent before its journal entries are durable. A crash
// during a commit loses the batch and its messages, or only the messages. After
// a failed write, the job is restored from the journal. All tokens are valid; a
// node credential must be the one that was given, and a world that agents bring
// to a daemon without a journal must have the proof of its commit.
#ifndef ROLLCALL_TESTS_SIM_DAEMONS_DAEMON_H_
#define ROLLCALL_TESTS_SIM_DAEMONS_DAEMON_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "daemon/core/job/job.h"
#include "daemon/core/tick_timer.h"
#include "daemon/journal/fold.h"
#include "tests/sim/checker/invariant_checker.h"
#include "tests/sim/daemons/daemons.h"
#include "tests/sim/network.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

struct DaemonSettings {
  std::string name;
  v1::JobSettings job;
  // The journal that an earlier daemon left.
  std::optional<JournalState> journal;
  // True: a rollcalld, which stays and remembers the job's end. False: a daemon
  // that ends with its job.
  bool standing = false;
  // How long one commit of the journal takes.
  Nanos commit_min = 100 * kMicro;
  Nanos commit_max = 5 * kMilli;
};

class Daemon final : public Daemons {
 public:
  Daemon(World& world, Network& network, InvariantChecker& checker,
         const DaemonSettings& settings, Clock clock);

  void Start(uint32_t daemon) override;
  void Crash(Nanos back_after) override;
  void LoseJournal(Nanos back_after) override;
  bool LaunchAgain(Nanos back_after) override;
  void RollBack(Nanos back_after) override;
  // The loop handles nothing until `until`.
  void Stall(Nanos until) override;
  void BreakJournal(Nanos until) override;
  void AskStop(int exit_code, bool now) override;
  void AskDrain(const std::string& node, absl::Duration deadline) override;
  void AskEvict(const std::string& node) override;
  void Calm() override;

  bool Take(StreamId stream, uint32_t node, Parcel& parcel) override;
  void OnWake(const Wake& wake) override;

  bool Attends(StreamId stream) const override;
  bool HasJob() const override { return job_.has_value(); }
  std::string JobText() const override;
  const JournalState& journal() const override { return journal_; }

 private:
  struct Session {
    StreamId stream;
    uint32_t node;
    bool attends = false;
    bool greeted = false;
    bool closed = false;
    absl::Time expires = absl::InfiniteFuture();
  };
  struct Said {
    SessionId session;
    std::unique_ptr<v1::AgentMessage> message;
  };
  struct Gone {
    SessionId session;
  };
  using Input = std::variant<Said, Gone, StopAsked, DrainAsked, EvictAsked>;
  using Effect = std::variant<Send, CloseStream, Log, Forget>;

  absl::Time Local() const { return clock_.At(world_.now()); }
  void OnWish(uint64_t wish);
  void OnCommitted(uint64_t life);
  void OnStreamGone(uint64_t session);
  void OnTakeBack(uint64_t life);
  void Post(Input input);
  void Iterate();
  void On(Said& said);
  void On(Gone& gone);
  void On(StopAsked& stop);
  void On(DrainAsked& drain);
  void On(EvictAsked& evict);
  void OnHello(Session& session, SessionId id, v1::Hello& hello);
  void TakeBack();
  void TakeUp();
  void FoldOwn(const Journal& entry);
  void MakeJob();
  void GiveKeys();
  std::optional<Ended> Permit(const v1::Hello& hello) const;
  void AnswerEnded(Session& session, SessionId id, const v1::Hello& hello);
  void Step(const Event& event);
  void Collect(std::vector<Action> actions);
  void Commit();
  void MakeDurable();
  void SetBack();
  void CarryOut();
  void CloseSession(SessionId id, absl::StatusCode code,
                    const v1::Refusal& refusal);
  void ExpireSessions();
  void ForgetJob();
  void End();
  void Sleep();
  void AskWhenDue();

  World& world_;
  Network& network_;
  InvariantChecker& checker_;
  const DaemonSettings settings_;
  const Clock clock_;

  // What survives the daemon's death: the journal as it is on the disk.
  JournalState journal_;
  // The journal at each of its latest generations, the latest last.
  std::deque<JournalState> earlier_;
  bool begun_ = false;
  uint64_t runs_ = 0;
  // The number of runs that were lost or forgotten. A run that begins without
  // memory counts its generations from this multiple of kGenerationsARun.
  uint64_t forgotten_ = 0;

  // The state of one life of the daemon.
  bool up_ = false;
  bool over_ = false;
  uint64_t life_ = 0;
  std::optional<Job> job_;
  bool ended_ = false;  // The job is gone; journal_.end has its end.
  bool set_back_ = false;
  SessionId last_session_ = 0;
  std::map<SessionId, Session> sessions_;
  std::map<StreamId, SessionId> by_stream_;
  std::vector<Input> inbox_;
  std::vector<Journal> entries_;
  std::vector<Effect> effects_;
  bool committing_ = false;
  bool journal_broken_ = false;
  bool stalls_over_ = false;
  Nanos stalled_until_ = 0;
  TickTimer tick_;
  absl::Time over_at_ = absl::InfiniteFuture();
  Nanos wish_at_ = kNever;
  uint64_t wish_ = 0;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_DAEMONS_DAEMON_H_
