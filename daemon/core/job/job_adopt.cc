// Job: adoption of a run that this daemon has no memory of. The run's agents
// send its last world; when over half of that world's members send the same
// bytes, the run continues.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/core/job/job.h"

namespace rollcall {
namespace {

// How many generations the lost daemon may have proposed beyond the highest one
// that its agents have seen.
constexpr uint64_t kGenerationsUnseen = 1000;

}  // namespace

// Returns true if the claim is kept, and its stream waits until enough agents
// claim the same world or until the time for claims is over; or if the agent
// was told to redial.
bool Job::TakeClaim(const Attend& attend) {
  const Adoption::Taken taken =
      adoption_.Take(attend, settings_, now_, limits_);
  if (adoption_.until() != absl::InfiniteFuture()) {
    gathering_.NodesComeAt(adoption_.until(), limits_);
  }
  switch (taken.answer) {
    case Adoption::Answer::kNone:
      return false;
    case Adoption::Answer::kRedial:
      out_.Close(
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
    out_.Close(*taken.older, absl::StatusCode::kAborted,
               v1::REFUSAL_CODE_REDIALED,
               "a newer stream of this agent is here");
  }
  out_.SayOf(attend.observed_address, Log::Level::kWarning,
             absl::StrCat("event=claim node=", attend.hello.node(),
                          " run=", attend.hello.run(), " generation=",
                          attend.hello.resume_state().running_generation(),
                          " reason=\"it runs in a world that this daemon has "
                          "no memory of\""));
  MaybeAdopt(/*time_is_over=*/false);
  return true;
}

void Job::MaybeAdopt(bool time_is_over) {
  if (const Claims::Claimed* chosen = adoption_.Chosen(time_is_over)) {
    Adopt(*chosen);
  }
}

void Job::Adopt(const Claims::Claimed& chosen) {
  adoption_.Forgo();
  const Claims::Claimed taken = chosen;
  const v1::World& world = taken.world;
  const std::vector<Attend> claims = adoption_.TakeAll();
  // Agents that attended meanwhile have joined a run that adoption discards.
  for (const SessionId session : membership_.Streams()) {
    out_.Close(session, absl::StatusCode::kUnavailable,
               v1::REFUSAL_CODE_UNSPECIFIED,
               "an older run of this job continues; dial again");
  }
  membership_.Clear();
  quarantine_.Clear();
  notices_.ForgetAll();
  vetting_.Clear();
  gathering_.fence() = Fence();
  credentials_.Adopt(world, taken.world_commit);
  // Journaled as the highest generation that may have been proposed, so that
  // the next daemon continues above it too.
  const uint64_t unseen = world.generation() + kGenerationsUnseen;
  generations_.Adopt(unseen);
  failures_.SetCharged(
      std::min(world.restarts_charged(), limits_.max_restarts));
  failures_.reasons() =
      Reasons(v1::REASON_CODE_DAEMON_RESTART,
              "a daemon without memory has adopted it from its members");
  v1::Proposal proposal;
  proposal.set_generation(world.generation());
  proposal.set_world(taken.world_bytes);
  proposal.set_compression(v1::COMPRESSION_NONE);
  proposal.set_world_bytes(static_cast<uint32_t>(taken.world_bytes.size()));
  out_.Write(Journal::Kind::kRunStarted, 0, settings_);
  out_.Write(Journal::Kind::kProposed, unseen, proposal);
  out_.WriteBytes(Journal::Kind::kCommitted, unseen, taken.world_commit_bytes);
  out_.Say(Log::Level::kWarning,
           absl::StrCat(
               "event=adopt run=", run(), " generation=", world.generation(),
               " members=", world.members_size(), " claims=", claims.size()));
  TakeUpWorld(world, proposal, taken.world_commit);
  out_.Changed();
  for (const Attend& claim : claims) {
    const std::string& node = claim.hello.node();
    if (claim.hello.run() != run() ||
        claim.epoch == credentials_.epochs().EpochOf(node)) {
      On(claim);
      continue;
    }
    // This agent claimed an older world of the run: its node may have been
    // evicted since.
    out_.Close(
        claim.session, absl::StatusCode::kUnauthenticated,
        v1::REFUSAL_CODE_CREDENTIAL,
        absl::StrCat("the credential of node ", node,
                     " is not of the adopted world; attend with a token"));
  }
}

// The time for claims is over.
void Job::EndClaims() {
  MaybeAdopt(/*time_is_over=*/true);
  if (adoption_.possible() || adoption_.waiting()) RefuseClaims();
  adoption_.End();
}

// Too few agents came, so their run counts as ended.
void Job::RefuseClaims() {
  adoption_.Forgo();
  for (const Attend& claim : adoption_.TakeAll()) {
    out_.Close(claim.session, absl::StatusCode::kAborted,
               v1::REFUSAL_CODE_OTHER_RUN,
               absl::StrCat("job ", name(), " is in run ", run(), " now, not ",
                            claim.hello.run(),
                            ": too few members of that run came back"));
  }
  gathering_.CallAgain(now_);
}

}  // namespace rollcall
