// LeaveSignals: SIGTERM and SIGUSR1 as a wish that the training loop reads at
// its next step, instead of an end in the middle of one.
//
// Thread rule: one of it a process, from one thread; the signals may come to
// any.
#ifndef ROLLCALL_TRAINER_LEAVE_SIGNALS_H_
#define ROLLCALL_TRAINER_LEAVE_SIGNALS_H_

namespace rollcall {

class LeaveSignals {
 public:
  // Takes them from now on.
  LeaveSignals();

  // Whether one has come.
  bool asked() const;

  // Between two worlds there is no step to wait for: from Release to Take they
  // end this process, as does one that has come before.
  void Release();
  void Take();
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_LEAVE_SIGNALS_H_
