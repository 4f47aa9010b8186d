// LeaveSignals: SIGTERM and SIGUSR1 as a wish that the training loop reads at
// its next step, instead of an end in the middle of one.
//
// Thread rule: one of it a process, from one thread; the signals may come to
// any.
#ifndef ROLLCALL_TRAINER_LEAVE_SIGNALS_H_
#define ROLLCALL_TRAINER_LEAVE_SIGNALS_H_

#include <functional>
#include <thread>

namespace rollcall {

class LeaveSignals {
 public:
  // Takes them from now on.
  LeaveSignals();
  ~LeaveSignals();
  LeaveSignals(const LeaveSignals&) = delete;
  LeaveSignals& operator=(const LeaveSignals&) = delete;

  // Whether one has come.
  bool asked() const;

  // For a wait that has no step to end at: from BeginWait to EndWait, one that
  // comes or has come calls `wake`, once, from another thread.
  void BeginWait(std::function<void()> wake);
  void EndWait();

  // They end this process from now on, and so does one that has come.
  void Release();

 private:
  std::thread waiting_;
  int end_wait_ = -1;  // An event that ends `waiting_`.
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_LEAVE_SIGNALS_H_
