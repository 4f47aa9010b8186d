// HangChecks: which node the daemon may blame for a hang (kHangIsTold), from
// what agents have told it about ranks that make no progress.
#ifndef ROLLCALL_TESTS_SIM_CHECKER_HANG_CHECKS_H_
#define ROLLCALL_TESTS_SIM_CHECKER_HANG_CHECKS_H_

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"
#include "tests/sim/checker/finding.h"

namespace rollcall::sim {

class HangChecks {
 public:
  explicit HangChecks(absl::Duration lease) : lease_(lease) {}

  void OnSaid(const std::string& node, const v1::AgentMessage& message);
  // The node has attended again, and reports again which ranks are stalled.
  void OnAttended(const std::string& node, absl::Time now);
  void OnGenerationEnded() { stalls_.clear(); }
  void OnDaemonDied();

  // Checks a generation that ends by a hang. `world`: the world of that
  // generation; no value if it is that of a given journal. `isolated`: the
  // daemon is.
  Finding Check(const v1::Reform& reform, const std::optional<v1::World>& world,
                bool isolated, absl::Time now) const;

 private:
  struct Rank {
    uint64_t generation;
    std::string node;
    uint32_t local_rank;

    auto operator<=>(const Rank&) const = default;
  };
  // How far the rank has come; a smaller value is further behind.
  struct Place {
    bool runs;
    bool begun;  // It has linked or published a step.
    bool answers;
    int nccl;  // -1: behind, 1: waits.
    uint64_t entered;

    auto operator<=>(const Place&) const = default;
  };
  struct Stall {
    Place place;
    // The agent has attended again since this report. It has sent neither the
    // report again nor a heartbeat, which comes after all reports.
    bool to_say_again = false;
    absl::Time attended_at = absl::InfinitePast();

    // The daemon waits one lease at most for such a report.
    bool Counts(absl::Time now, absl::Duration lease) const {
      return !to_say_again || now < attended_at + lease;
    }
  };

  bool MostHaveStarted(const v1::World& world) const;

  const absl::Duration lease_;
  std::map<Rank, Stall> stalls_;
  // The latest generation in which a step was reported. In that one, ranks that
  // have not begun are not to blame.
  uint64_t stepped_in_ = 0;
  // Nodes that have reported that their ranks linked or published a step.
  std::set<std::string> have_started_;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_CHECKER_HANG_CHECKS_H_
