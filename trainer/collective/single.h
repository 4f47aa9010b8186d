// SingleCollective: the world of one rank, where all is reduced already.
#ifndef ROLLCALL_TRAINER_COLLECTIVE_SINGLE_H_
#define ROLLCALL_TRAINER_COLLECTIVE_SINGLE_H_

#include "trainer/collective/collective.h"

namespace rollcall {

class SingleCollective final : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  absl::Status AllReduce(absl::Span<float>, Reduction) override {
    return absl::OkStatus();
  }
  absl::Status Broadcast(absl::Span<char>, int) override {
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_COLLECTIVE_SINGLE_H_
