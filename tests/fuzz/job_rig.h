// JobRig: a Job with what stands around it in a daemon, as far as the Job can
// tell: streams that open and end, messages that admission looks at first, a
// journal that is written in order, a clock that only goes on.
//
// Holds the promises of daemon/core's headers against each Step:
//   1. Generations only grow, over restarts too; no proposal or commit goes
//      out before it is journaled.
//   2. A message goes to streams that have attended and have not ended.
//   3. A proposal's world decodes: dense ranks, no name and no seat twice.
//   4. What is sent, logged and shown is printable, and Status serializes.
//   5. What was journaled can be taken up by another Job, which steps on.
//   6. A tick leaves nothing due, and a job that was stopped ends.
//   7. A notice goes out under a number that grows; whose state a world commit
//   names
//      is a rank of its world. No two nodes have one seat.
//   8. A probe has secrets of their size, and asks for other nodes at addresses
//      and ports, no more than its bounds.
// Its own checks and the sanitizers hold the rest.
#ifndef ROLLCALL_TESTS_FUZZ_JOB_RIG_H_
#define ROLLCALL_TESTS_FUZZ_JOB_RIG_H_

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
  // Before anything else, one of these two. A new run with these settings,
  // which are within their bounds.
  void Begin(const v1::JobSettings& settings);
  // Goes on with what a journal says, whatever that is. False: the shell would
  // not, and neither may the caller.
  bool TakeUp(const JournalState& journal);

  // --- What comes in ---------------------------------------------------------

  // A stream's first message. Returns its session; 0: admission refused it.
  SessionId Hello(v1::Hello hello, const std::string& address);
  // Any later one. What admission refuses ends the stream.
  void Message(SessionId session, v1::AgentMessage message);
  void CloseStream(SessionId session);
  void Stop(int exit_code, std::string_view reason, bool now);
  // As admin_service hands it on.
  void Drain(const std::string& node, absl::Duration deadline,
             std::string_view reason);
  // As an admin's request.
  void Evict(const std::string& node, std::string_view reason);
  void Tick(absl::Duration late);
  void Wait(absl::Duration time);
  // The daemon dies, and another takes up what was journaled.
  void Restart();

  // Of the world that was proposed last; 0: none.
  uint64_t generation() const { return generation_; }
  // Numbers of the latest of their kind; 0: none.
  uint64_t notice() const { return notice_; }
  uint64_t check() const { return check_; }
  // What this stream was asked to probe last; empty: nothing.
  v1::Probe ProbeOf(SessionId session) const {
    const auto at = probes_.find(session);
    return at == probes_.end() ? v1::Probe() : at->second;
  }
  const std::string& run() const { return journal_.run; }
  absl::Time NextDeadline() const { return job_->NextDeadline(); }
  absl::Time now() const { return now_; }
  // Ends the checks: Status once more, and the end where one was asked for.
  void Finish();

 private:
  // Before the job's first step.
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
  // Streams that attend; those the Job has ended, and whose end it is not told
  // yet.
  std::set<SessionId> open_;
  std::set<SessionId> closing_;

  JournalState journal_;
  uint64_t generation_ = 0;
  bool forgotten_ = false;

  uint64_t notice_ = 0;
  uint64_t check_ = 0;
  std::map<SessionId, v1::Probe> probes_;
  // Of this daemon's life.
  uint64_t notice_min_ = 0;
  bool stopped_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_FUZZ_JOB_RIG_H_
