// RankEnd: how this rank's part in the job ended.
#ifndef ROLLCALL_TRAINER_RANK_RANK_END_H_
#define ROLLCALL_TRAINER_RANK_RANK_END_H_

#include <string>

#include "absl/status/statusor.h"

namespace rollcall {

struct RankEnd {
  // The exit code, or the error that ended the rank.
  absl::StatusOr<int> code;
  // Why the same ranks on the same nodes would end in the same way, so that the
  // job must not start them again; empty: another try may help.
  std::string permanent;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_RANK_RANK_END_H_
