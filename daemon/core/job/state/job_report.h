// JobReport: what a job tells people and waiting agents about itself.
//
// A view that reads a JobState and changes nothing. Valid until the next Step
// of that job. Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_STATE_JOB_REPORT_H_
#define ROLLCALL_DAEMON_CORE_JOB_STATE_JOB_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/job/state/job_state.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class JobReport {
 public:
  explicit JobReport(const JobState& job) : job_(job) {}

  v1::JobState State() const;
  v1::JobStatus Status(absl::Time now) const;
  // Why the current world was formed; while the next one is awaited, why the
  // last one ended.
  const v1::Reform& LastReform() const;
  // For the nodes of a gathering job: which nodes it waits for, and why.
  v1::Waiting Waiting() const;
  // Which answers a gathering job waits for; empty: none.
  std::string Awaits() const;
  // Which nodes a gathering job still lacks.
  std::string MissingText() const;
  std::string SettingUpText() const;
  // Why this node has no seat in the running world; empty: all seats are taken.
  std::string WhyNoSeat(const Node& node) const;
  // Whether no world is formed yet because nodes probe each other.
  bool IsProbing() const { return job_.vetting.probes().UnderWay(job_.now); }
  // The number of nodes in the world that is proposed or runs; 0: there is
  // none.
  size_t world_nodes() const {
    return static_cast<size_t>(job_.world().members_size());
  }
  uint32_t world_size() const { return job_.world().world_size(); }

 private:
  std::vector<std::string> AwayFromTakenUp() const;

  const JobState& job_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_STATE_JOB_REPORT_H_
