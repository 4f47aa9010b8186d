// Loop: the one thread that owns all jobs.
//
// This class has the thread and the order of a round; state/ has the fields,
// acts/ and handlers/ what each input leads to.
//
// It takes everything from its inbox, steps the jobs, commits their journal
// entries once for the whole batch, and only then carries out their sends, in
// order. If entries of a job could not be made durable, nothing of that job is
// sent. Instead its streams are ended with UNAVAILABLE, and the job continues
// from the journal, as after a restart. If several daemons share the journal,
// nothing is sent after this one stops leading.
//
// Thread rule: the inbox and Wait from any thread, Start and Stop from the
// owner's thread; everything else is private to the loop's own thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_LOOP_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_LOOP_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/inbox.h"
#include "daemon/base/machine.h"
#include "daemon/journal/journal.h"
#include "daemon/server/loop/state/logger.h"
#include "daemon/server/loop/state/loop_input.h"
#include "daemon/server/loop/state/loop_options.h"
#include "daemon/server/loop/state/loop_state.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Loop {
 public:
  using Options = LoopOptions;
  static constexpr absl::Duration kBeatEvery = absl::Seconds(2);

  // `journal` may be null; it and `logger` must outlive the loop.
  Loop(Options options, JournalStore* journal, Logger& logger);
  ~Loop();

  // Restores the journal's content and starts the thread.
  absl::Status Start();

  Inbox<LoopInput>& inbox() { return state_.inbox; }

  // Blocks until the only job has ended and is removed, or until Stop. Returns
  // how the job ended; nullopt: it has not.
  std::optional<v1::End> Wait();

  // Ends all streams, all calls and the thread; later posts are declined. To be
  // called from one thread, which is not the loop's. `why`: the status that
  // clients get; OK: they get the error that the daemon shuts down.
  void Stop(absl::Status why = absl::OkStatus());

 private:
  void Run();
  void TakeAll(absl::Duration timeout);
  void Handle(LoopInput& input);
  // Commits, records the end of a lingering job, and ends the loop.
  void Quits(const absl::Status& why);
  void Beat(absl::Time now);
  absl::Time NextWake(absl::Time now);

  LoopState state_;
  absl::Time beat_at_ = absl::InfinitePast();  // When the next beat is due.
  std::unique_ptr<Machine::Thread> thread_;    // Null: not running.
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_LOOP_H_
