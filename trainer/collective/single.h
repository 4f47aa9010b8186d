// SingleCollective: a world of one rank, in which nothing is sent. Buffers that
// it copies (AllGather, ReduceScatter, SendReceive) must be in host memory.
#ifndef ROLLCALL_TRAINER_COLLECTIVE_SINGLE_H_
#define ROLLCALL_TRAINER_COLLECTIVE_SINGLE_H_

#include <algorithm>
#include <string>

#include "trainer/collective/collective.h"

namespace rollcall {

class SingleCollective final : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  absl::Status AllReduce(absl::Span<float>, Reduction) override {
    return absl::OkStatus();
  }
  absl::Status BeginSum(absl::Span<float>) override { return absl::OkStatus(); }
  absl::Status Wait() override { return absl::OkStatus(); }
  absl::Status Broadcast(absl::Span<char>, int) override {
    return absl::OkStatus();
  }
  absl::Status AllGather(absl::Span<const char> mine,
                         absl::Span<char> all) override {
    std::copy(mine.begin(), mine.end(), all.begin());
    return absl::OkStatus();
  }
  absl::Status ReduceScatter(absl::Span<float> all,
                             absl::Span<float> mine) override {
    std::copy_n(all.begin(), mine.size(), mine.begin());
    return absl::OkStatus();
  }
  absl::Status SendReceive(absl::Span<const char> out,
                           absl::Span<char> in) override {
    std::copy(out.begin(), out.end(), in.begin());
    return absl::OkStatus();
  }
  absl::Status SendReceiveBack(absl::Span<const char> out,
                               absl::Span<char> in) override {
    return SendReceive(out, in);
  }
  std::string transport() const override { return "single"; }
  CollectiveSeen seen() const override { return {}; }
  absl::Status Finish() override { return absl::OkStatus(); }
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_COLLECTIVE_SINGLE_H_
