// Job: a run that this daemon has no memory of. Its agents bring it along, and
// when over half of its last world's members bring the same bytes, it goes on.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/core/admission.h"
#include "daemon/core/grammar.h"
#include "daemon/core/job.h"
#include "daemon/core/world.h"

namespace rollcall {
namespace {

// What the lost daemon may have proposed beyond what its agents have seen.
constexpr uint64_t kGenerationsUnseen = 1000;

// The world that a Hello claims to run in, if it can be this job's.
absl::StatusOr<v1::World> ClaimedWorld(const v1::Hello& hello,
                                       uint32_t nodes_max) {
  if (hello.held().running_generation() == 0) {
    return absl::NotFoundError("it runs in no world");
  }
  absl::StatusOr<v1::World> world = DecodeWorld(hello.held().world());
  if (!world.ok()) return world;
  bool fits = world->job() == hello.job() && world->run() == hello.run() &&
              world->generation() == hello.held().running_generation();
  bool member = false;
  for (const v1::Member& row : world->members()) {
    fits = fits && row.seat() < nodes_max;
    member =
        member || (row.node() == hello.node() && row.ranks() == hello.ranks());
  }
  v1::Seal seal;
  fits = fits && member && seal.ParseFromString(hello.held().seal()) &&
         AdmitSeal(seal, *world).ok() &&
         AdmitCount("generation", world->generation(), uint64_t{1} << 61).ok();
  if (fits) return world;
  return absl::InvalidArgumentError("a world that is not of this job");
}

}  // namespace

// True: it is kept waiting until enough others say the same, or its time is
// over.
bool Job::Claims(const Attend& attend) {
  if (!adoptable_ || claims_.size() >= Limits::nodes_max ||
      !ClaimedWorld(attend.hello, nodes_max_).ok()) {
    return false;
  }
  if (claims_.empty()) claims_until_ = now_ + limits_.reattach_grace;
  // A stream of the same agent that broke unheard.
  for (auto at = claims_.begin(); at != claims_.end();) {
    const bool same = at->second.hello.node() == attend.hello.node();
    const SessionId older = at->first;
    at = same ? claims_.erase(at) : std::next(at);
    if (same) {
      Close(older, absl::StatusCode::kAborted, v1::REFUSAL_CODE_REDIALED,
            "a newer stream of this agent is here");
    }
  }
  claims_[attend.session] = attend;
  Say(Log::Level::kWarning,
      absl::StrCat(
          "event=claim node=", attend.hello.node(), " run=", attend.hello.run(),
          " generation=", attend.hello.held().running_generation(),
          " reason=\"it runs in a world that this daemon has no memory "
          "of\""));
  MaybeAdopt(attend.hello.held());
  return true;
}

void Job::MaybeAdopt(const v1::Held& held) {
  std::set<std::string> agree;
  for (const auto& [session, claim] : claims_) {
    const v1::Held& other = claim.hello.held();
    if (other.world() == held.world() && other.seal() == held.seal()) {
      agree.insert(claim.hello.node());
    }
  }
  const absl::StatusOr<v1::World> world = DecodeWorld(held.world());
  v1::Seal seal;
  if (!world.ok() || !seal.ParseFromString(held.seal())) return;
  if (agree.size() * 2 <= static_cast<size_t>(world->members_size())) return;
  Adopt(held, *world, seal);
}

void Job::Adopt(const v1::Held& held, const v1::World& world,
                const v1::Seal& seal) {
  adoptable_ = false;
  std::map<SessionId, Attend> claims = std::exchange(claims_, {});
  claims_until_ = absl::InfiniteFuture();
  // Who came in meanwhile was told of a run that there will never be.
  for (const SessionId session : AllSessions()) {
    Close(session, absl::StatusCode::kUnavailable, v1::REFUSAL_CODE_UNSPECIFIED,
          "an older run of this job goes on; dial again");
  }
  sessions_.clear();
  nodes_.clear();
  deadlines_.clear();
  suspects_.clear();
  barred_.clear();
  checking_.clear();
  leaving_.clear();
  gone_order_.clear();
  former_run_ = run_;
  run_ = world.run();
  generation_ = world.generation();
  const uint64_t unseen = generation_ + kGenerationsUnseen;
  generation_seen_ = std::max(generation_seen_, unseen);
  restarts_charged_ = std::min(world.restarts_charged(), limits_.max_restarts);
  why_.Clear();
  why_.set_code(v1::REASON_CODE_DAEMON_RESTART);
  why_.set_reason("a daemon without memory was told of it by its members");
  v1::Proposal proposal;
  proposal.set_generation(generation_);
  proposal.set_world(held.world());
  proposal.set_compression(v1::COMPRESSION_NONE);
  proposal.set_world_bytes(static_cast<uint32_t>(held.world().size()));
  actions_.push_back(
      Journal{Journal::Kind::kRunStarted, 0, settings_.SerializeAsString()});
  // As the highest that may have been proposed: the next daemon goes on above
  // it, too.
  actions_.push_back(
      Journal{Journal::Kind::kProposed, unseen, proposal.SerializeAsString()});
  actions_.push_back(
      Journal{Journal::Kind::kCommitted, unseen, seal.SerializeAsString()});
  Say(Log::Level::kWarning,
      absl::StrCat("event=adopt run=", run_, " generation=", generation_,
                   " members=", world.members_size(),
                   " claims=", claims.size()));
  TakeUpWorld(world, proposal, seal);
  Changed();
  for (const auto& [session, claim] : claims) On(claim);
}

// Not enough of them came: theirs is a run that has ended.
void Job::RefuseClaims() {
  const std::map<SessionId, Attend> claims = std::exchange(claims_, {});
  claims_until_ = absl::InfiniteFuture();
  adoptable_ = false;
  for (const auto& [session, claim] : claims) {
    Close(session, absl::StatusCode::kAborted, v1::REFUSAL_CODE_OTHER_RUN,
          absl::StrCat("job ", job_, " is in run ", run_, " now, not ",
                       claim.hello.run(),
                       ": too few members of that one came "
                       "to go on with it"));
  }
  last_arrival_ = now_;
}

}  // namespace rollcall
