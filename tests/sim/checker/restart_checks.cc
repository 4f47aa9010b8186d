#include "tests/sim/checker/restart_checks.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace rollcall::sim {

Finding RestartChecks::OnGenerationEnded(const v1::Reform& reform,
                                         uint64_t generation,
                                         std::set<std::string> members,
                                         absl::Time until) {
  const bool failure = reform.code() == v1::REASON_CODE_RANK_EXIT ||
                       reform.code() == v1::REASON_CODE_RANK_SIGNAL ||
                       reform.code() == v1::REASON_CODE_RANK_COMMUNICATION ||
                       reform.code() == v1::REASON_CODE_GPU_ERROR ||
                       reform.code() == v1::REASON_CODE_RANK_GONE ||
                       reform.code() == v1::REASON_CODE_OUT_OF_MEMORY ||
                       reform.code() == v1::REASON_CODE_HANG ||
                       reform.code() == v1::REASON_CODE_NOT_STARTED;
  const uint32_t charged = reform.restarts_charged();
  Finding finding{failure || charged_ > 0 ? 1 : 0, ""};
  // Progress takes back all charges; the loss of a node takes back the charge
  // for its failure.
  if (charged > charged_ + (failure ? 1 : 0)) {
    finding.broken =
        absl::StrCat("generation ", generation, " ended by ",
                     v1::ReasonCode_Name(reform.code()), ", and ", charged,
                     " restarts are charged after ", charged_);
  }
  // The end of a generation for any reason closes the blame window.
  charge_.reset();
  if (charged > charged_) charge_ = Charge{std::move(members), until};
  charged_ = charged;
  return finding;
}

bool RestartChecks::MayTakeBack(const std::string& lost, absl::Time now) const {
  return charge_.has_value() && now <= charge_->until &&
         charge_->members.contains(lost);
}

Finding RestartChecks::TakeBack() {
  charge_.reset();
  if (charged_ > 0) --charged_;
  return Finding{1, ""};
}

}  // namespace rollcall::sim
