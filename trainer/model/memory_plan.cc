#include "trainer/model/memory_plan.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "daemon/base/counted.h"

namespace rollcall {
namespace {

constexpr double kGb = 1e9;

// The largest number of sequences, up to `share`, that fits; at least 1.
int Fitting(int share, double room, const std::function<double(int)>& bytes) {
  if (bytes(share) <= room) return share;
  int fits = 1;
  int too_many = share;
  while (too_many - fits > 1) {
    const int middle = fits + (too_many - fits) / 2;
    (bytes(middle) <= room ? fits : too_many) = middle;
  }
  return fits;
}

}  // namespace

absl::StatusOr<MemoryPlan> PlanMemory(const MemoryWishes& wishes,
                                      const MemoryFacts& facts) {
  MemoryPlan plan;
  plan.share = std::max(wishes.share, 1);
  plan.state = facts.state;
  plan.room = facts.room;
  if (wishes.most > 0) {
    plan.room = std::min(plan.room, wishes.most - facts.state);
  }
  if (wishes.micro_batch > 0) {
    plan.micro_batch = std::min(wishes.micro_batch, plan.share);
  } else {
    const int fits = Fitting(plan.share, plan.room, facts.activations);
    const int count = (plan.share + fits - 1) / fits;
    plan.micro_batch = (plan.share + count - 1) / count;
  }
  plan.activations = facts.activations(plan.micro_batch);
  if (wishes.most > 0 && plan.state + plan.activations > wishes.most) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "%s; --memory-max gives it %.4f GB; lower --micro-batch, --context or "
        "--width",
        plan.ToString(), wishes.most / kGb));
  }
  return plan;
}

std::string MemoryPlan::ToString() const {
  return absl::StrFormat(
      "this rank needs %.4f GB for weights, moments and gradients, and %.4f GB "
      "for activations of %d of its %s at once; %.4f GB are free for "
      "activations",
      state / kGb, activations / kGb, micro_batch, Counted(share, "sample"),
      std::max(room, 0.0) / kGb);
}

}  // namespace rollcall
