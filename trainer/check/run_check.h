// RunCheck: checks one world, from the first row to the verdict.
//
// It attaches to no agent and ends no process; check_worlds.h does that.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_CHECK_RUN_CHECK_H_
#define ROLLCALL_TRAINER_CHECK_RUN_CHECK_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/check/check_options.h"
#include "trainer/check/memory.h"
#include "trainer/check/report.h"
#include "trainer/check/verdict.h"
#include "trainer/collective/collective.h"

namespace rollcall {

// The description of the checked world for the verdict.
struct CheckedWorld {
  std::vector<CheckedNode> nodes;
  bool one_machine = true;
  // The ports of its node that NCCL may use in this rank, see UsedPorts.
  uint64_t ports_used = kAllPortsUsed;
  // Whether this rank was asked to stop at a boundary.
  std::function<bool()> noticed = [] { return false; };
};

// Every rank must call it with the same options and world, except for
// `ports_used`; rank 0 prints the
// report. All ranks get the same verdict. FAILED_PRECONDITION: the ranks'
// options differ. CANCELLED: a rank was asked to stop, and all ranks have
// stopped at the same row. Other errors are the collective's: this world cannot
// be checked.
absl::StatusOr<Verdict> RunCheck(const CheckOptions& options,
                                 Collective& collective, CheckMemory& memory,
                                 const CheckedWorld& world,
                                 const CheckReport::Say& say);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_RUN_CHECK_H_
