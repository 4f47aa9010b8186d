// Agreement: whether all ranks of a world have the same flags, data and state.
//
// Ranks with other flags or data would train something else than their peers,
// or wait for collectives that their peers do not enter.
//
// Thread rule: as for the collective.
#ifndef ROLLCALL_TRAINER_RANK_AGREEMENT_H_
#define ROLLCALL_TRAINER_RANK_AGREEMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/collective/collective.h"
#include "trainer/rank/options.h"

namespace rollcall {

// A value that must be equal on all ranks.
struct MustAgree {
  std::string differs;  // The message if it differs.
  uint64_t value;
  // Set if people can read the value; the message then has both. `digits`: how
  // many a number has at most.
  std::string (*text)(uint64_t value, int digits) = nullptr;
};

// Compares the values with those of rank `source`; if no rank has a state that
// others receive, with those of more than half of the ranks, otherwise with
// those of rank 0. All ranks pass as many. Errors: the collective's; and if a
// rank differs, FAILED_PRECONDITION, which names it, or this rank if that one
// differs. If there is a source or such a majority, only a rank that differs
// gets FAILED_PRECONDITION; all others get UNAVAILABLE.
absl::Status Agree(Collective& collective, const std::vector<MustAgree>& values,
                   std::optional<int> source);

// Compares the flags and the fingerprints of --data and --val-data. The message
// names the first flag that differs. Errors: as for Agree.
absl::Status AgreeOnSettings(Collective& collective,
                             const TrainOptions& options, uint64_t data,
                             uint64_t validation_data,
                             std::optional<int> source);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_RANK_AGREEMENT_H_
