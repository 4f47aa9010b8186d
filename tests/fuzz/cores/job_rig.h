// JobRig: a Job with the shell that surrounds it in a daemon: streams that open
// and end, messages that pass admission first, a journal that is written in
// order, a clock that only goes on.
//
// Checks the promises of daemon/core's headers after each Step:
//   1. Generations only grow, over restarts too; no proposal or commit goes
//      out before it is journaled.
//   2. A message goes to streams that have attended and have not ended.
//   3. A proposal's world decodes: dense ranks, no name and no seat twice.
//   4. What is sent, logged and shown is printable, and Status serializes.
//   5. Another Job can be restored from what was journaled, and goes on.
//   6. A tick leaves nothing due, and a job that was stopped ends.
//   7. The numbers of notices grow. The state source of a world commit is a
//      rank of its world. No two nodes have one seat.
//   8. A probe has secrets of their size, and asks for other nodes at addresses
//      and ports, no more than its bounds.
// The Job's own checks and the sanitizers check the rest.
#ifndef ROLLCALL_TESTS_FUZZ_CORES_JOB_RIG_H_
#define ROLLCALL_TESTS_FUZZ_CORES_JOB_RIG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "daemon/core/job/job.h"

namespace rollcall {

class JobRig {
 public:
  // One of these two must be called first. Begin starts a new run with these
  // settings, which must be within their bounds.
  void Begin(const v1::JobSettings& settings);
  // Restores the job from a journal with any contents. Returns false if the
  // shell would refuse the journal; then nothing else may be called.
  bool TakeUp(const JournalState& journal);

  // --- Events and requests ---------------------------------------------------

  // A stream's first message. Returns its session; 0: admission refused it.
  SessionId Hello(v1::Hello hello, const std::string& address);
  // A later message of the stream. If admission refuses it, the stream ends.
  void Message(SessionId session, v1::AgentMessage message);
  void CloseStream(SessionId session);
  void Stop(int exit_code, std::string_view reason, bool now);
  // A drain as admin_service passes it on.
  void Drain(const std::string& node, absl::Duration deadline,
             std::string_view reason);
  // An eviction, as an admin requests it.
  void Evict(const std::string& node, std::string_view reason);
  void Tick(absl::Duration late);
  void Wait(absl::Duration time);
  // The daemon dies, and another one restores what was journaled.
  void Restart();

  // The generation of the world that was proposed last; 0: none.
  uint64_t generation() const { return generation_; }
  // The numbers of the latest notice and of the latest check request; 0: none.
  uint64_t notice() const { return notice_; }
  uint64_t check() const { return check_; }
  // What this stream was last asked to probe; empty: nothing.
  v1::Probe ProbeOf(SessionId session) const {
    const auto at = probes_.find(session);
    return at == probes_.end() ? v1::Probe() : at->second;
  }
  const std::string& run() const { return journal_.run; }
  absl::Time NextDeadline() const { return job_->NextDeadline(); }
  absl::Time now() const { return now_; }
  // Ends the checks: reads Status once more, and waits for the end if a stop
  // was asked for.
  void Finish();

 private:
  // Called before the job's first step.
  void GiveKeys();
  void Step(const Event& event);
  void Carry(const std::vector<Action>& actions);
  void Take(const Send& send);
  void Take(const rollcall::CloseStream& close);
  void Take(const Journal& entry);
  void Take(const Log& log);
  void Take(const Forget& forget);
  void CheckCommit(const v1::Commit& commit);
  void CheckNotice(const v1::Notice& notice);
  void CheckProbe(const v1::Probe& probe);
  void CheckProposal(const v1::Proposal& proposal);
  void CheckStatus();

  std::optional<Job> job_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  uint64_t revision_ = 0;

  SessionId last_session_ = 0;
  // Streams that attend; and those that the Job has closed, but whose end it
  // has not been told yet.
  std::set<SessionId> open_;
  std::set<SessionId> closing_;

  JournalState journal_;
  uint64_t generation_ = 0;
  bool forgotten_ = false;

  uint64_t notice_ = 0;
  uint64_t check_ = 0;
  std::map<SessionId, v1::Probe> probes_;
  // Values of this daemon's life.
  uint64_t notice_min_ = 0;
  bool stopped_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_FUZZ_CORES_JOB_RIG_H_
