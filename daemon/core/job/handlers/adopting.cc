#include "daemon/core/job/handlers/adopting.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/core/adoption/claims.h"
#include "daemon/core/job/handlers/restoring.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {
namespace {

// How many generations the lost daemon may have proposed beyond the highest one
// that its agents have seen.
constexpr uint64_t kGenerationsUnseen = 1000;

std::vector<Attend> Adopt(JobState& job, const Claims::Claimed& chosen) {
  job.adoption.Forgo();
  const Claims::Claimed taken = chosen;
  const v1::World& world = taken.world;
  std::vector<Attend> claims = job.adoption.TakeAll();
  // Agents that attended meanwhile have joined a run that adoption discards.
  for (const SessionId session : job.membership.Streams()) {
    job.out.Close(session, absl::StatusCode::kUnavailable,
                  v1::REFUSAL_CODE_UNSPECIFIED,
                  "an older run of this job continues; dial again");
  }
  job.membership.Clear();
  job.quarantine.Clear();
  job.notices.ForgetAll();
  job.vetting.Clear();
  job.gathering.fence() = Fence();
  job.credentials.Adopt(world, taken.world_commit);
  // Journaled as the highest generation that may have been proposed, so that
  // the next daemon continues above it too.
  const uint64_t unseen = world.generation() + kGenerationsUnseen;
  job.generations.Adopt(unseen);
  job.failures.SetCharged(
      std::min(world.restarts_charged(), job.limits.max_restarts));
  job.failures.reasons() =
      Reasons(v1::REASON_CODE_DAEMON_RESTART,
              "a daemon without memory has adopted it from its members");
  v1::Proposal proposal;
  proposal.set_generation(world.generation());
  proposal.set_world(taken.world_bytes);
  proposal.set_compression(v1::COMPRESSION_NONE);
  proposal.set_world_bytes(static_cast<uint32_t>(taken.world_bytes.size()));
  job.out.Write(Journal::Kind::kRunStarted, 0, job.settings);
  job.out.Write(Journal::Kind::kProposed, unseen, proposal);
  job.out.WriteBytes(Journal::Kind::kCommitted, unseen,
                     taken.world_commit_bytes);
  job.out.Say(Log::Level::kWarning,
              absl::StrCat("event=adopt run=", job.run(),
                           " generation=", world.generation(), " members=",
                           world.members_size(), " claims=", claims.size()));
  TakeUpWorld(job, world, proposal, taken.world_commit);
  job.out.Changed();
  return claims;
}

}  // namespace

bool TakeClaim(JobState& job, const Attend& attend) {
  const Adoption::Taken taken =
      job.adoption.Take(attend, job.settings, job.now, job.limits);
  if (job.adoption.until() != absl::InfiniteFuture()) {
    job.gathering.NodesComeAt(job.adoption.until(), job.limits);
  }
  switch (taken.answer) {
    case Adoption::Answer::kNone:
      return false;
    case Adoption::Answer::kRedial:
      job.out.Close(
          attend.session, absl::StatusCode::kUnavailable,
          v1::REFUSAL_CODE_UNSPECIFIED,
          absl::StrCat("this daemon has no memory of run ", attend.hello.run(),
                       " and waits for the members of its world; dial again"));
      return true;
    case Adoption::Answer::kKept:
      break;
  }
  // This daemon did not see the older stream end.
  if (taken.older.has_value()) {
    job.out.Close(*taken.older, absl::StatusCode::kAborted,
                  v1::REFUSAL_CODE_REDIALED,
                  "a newer stream of this agent is here");
  }
  job.out.SayOf(
      attend.observed_address, Log::Level::kWarning,
      absl::StrCat(
          "event=claim node=", attend.hello.node(), " run=", attend.hello.run(),
          " generation=", attend.hello.resume_state().running_generation(),
          " reason=\"it runs in a world that this daemon has "
          "no memory of\""));
  return true;
}

std::vector<Attend> MaybeAdopt(JobState& job, bool time_is_over) {
  const Claims::Claimed* const chosen = job.adoption.Chosen(time_is_over);
  if (chosen == nullptr) return {};
  return Adopt(job, *chosen);
}

}  // namespace rollcall
