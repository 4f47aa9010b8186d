// SpikeGuard: decides which steps of a training are skipped, because their
// gradient is far larger than those before.
//
// A step is skipped if its loss or its norm is not finite, or if its norm is
// above `factor` times the median of the last norms. It must have kJudgedFrom
// norms to judge by. Skipped steps do not count as norms, so a training whose
// norms stay high ends by an error after kInARowMax of them.
//
// All ranks have the same loss and the same norm to the bit, so all decide
// alike if they have the same State. A rank that joins gets that of the others.
//
// A pure value; any thread.
#ifndef ROLLCALL_TRAINER_STEPS_SPIKE_GUARD_H_
#define ROLLCALL_TRAINER_STEPS_SPIKE_GUARD_H_

#include <cstdint>
#include <string>

namespace rollcall {

class SpikeGuard {
 public:
  static constexpr int kWindow = 128;
  static constexpr int kJudgedFrom = 16;
  // This many skipped steps in a row are an error.
  static constexpr int kInARowMax = 10;

  // What it remembers, as bytes that another rank can take over.
  struct State {
    double norms[kWindow] = {};  // A ring.
    int64_t taken = 0;           // Steps that were not skipped.
    int64_t skipped = 0;
    int64_t skipped_in_a_row = 0;
  };

  // `factor` 0: skips nothing.
  explicit SpikeGuard(double factor) : factor_(factor) {}

  bool on() const { return factor_ > 0; }
  // The largest norm that the next step may have; infinite: any finite one.
  double norm_max() const;

  // The step was done; or it was skipped.
  void Took(double norm);
  void Skipped();

  // Why a step with these values is skipped, as a text for people, which also
  // holds for a step that has been skipped just now.
  std::string Reason(double loss, double norm) const;

  // Whether the next step ends the run if it would be skipped.
  bool NextSkipEnds() const {
    return state_.skipped_in_a_row + 1 >= kInARowMax;
  }

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  // The number of norms that are remembered, and their median.
  int Remembered() const;
  double Median() const;

  double factor_;
  State state_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_STEPS_SPIKE_GUARD_H_
