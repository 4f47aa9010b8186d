#include "daemon/server/loop/acts/shutdown.h"

#include "daemon/server/loop/streams/refusal.h"

namespace rollcall {

void EndAll(LoopState& loop, const absl::Status& status) {
  if (loop.quit) return;
  loop.quit = true;
  loop.TellSuppressed(absl::InfiniteFuture());
  // The latest changes are still published, but only if this daemon leads.
  if (loop.Leads()) loop.watches.Publish(absl::InfiniteFuture());
  loop.watches.EndAll(status);
  loop.sessions.ForEach([&](Session& session) {
    // An agent that knows of the job's end does not need to redial.
    const LiveJob* live = loop.jobs.Find(session.job);
    const bool over =
        live == nullptr ? session.greeted : live->job.end().has_value();
    loop.sessions.Close(session,
                        over && loop.Leads() ? absl::OkStatus() : status);
  });
  loop.delayed.Run(absl::InfiniteFuture());
  for (LoopInput& late : loop.inbox.Close()) Decline(late, status);
}

void StandDown(LoopState& loop) {
  if (loop.quit) return;
  const absl::Status status = NotLeader({});
  loop.batch.DropAll(status);
  EndAll(loop, status);
}

}  // namespace rollcall
