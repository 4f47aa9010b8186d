// LeaveSignals: turns SIGTERM and SIGUSR1 into a request that the training loop
// reads at its next step, so that they do not end the process within a step.
//
// Thread rule: one object per process, used from one thread. The signals may
// arrive on any thread.
#ifndef ROLLCALL_TRAINER_RANK_LEAVE_SIGNALS_H_
#define ROLLCALL_TRAINER_RANK_LEAVE_SIGNALS_H_

#include <functional>
#include <thread>

namespace rollcall {

class LeaveSignals {
 public:
  // Installs the handlers.
  LeaveSignals();
  ~LeaveSignals();
  LeaveSignals(const LeaveSignals&) = delete;
  LeaveSignals& operator=(const LeaveSignals&) = delete;

  // True once a signal has come.
  bool asked() const;

  // Readable once a signal has come; -1: there was no free descriptor.
  int fd() const;

  // For a wait that has no steps. From BeginWait to EndWait, a signal (also one
  // that came earlier) calls `wake` once, from another thread.
  void BeginWait(std::function<void()> wake);
  void EndWait();

  // Restores the default: the signals end this process from now on. If one has
  // come already, it ends the process now.
  void Release();

 private:
  std::thread waiting_;
  int end_wait_ = -1;  // An eventfd that ends `waiting_`.
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_RANK_LEAVE_SIGNALS_H_
