// Job: a run that this daemon has no memory of. Its agents bring it along, and
// when over half of its last world's members bring the same bytes, it goes on.
#include <algorithm>
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
// So far below what a journal may say that the run can be taken up again.
constexpr uint64_t kAdoptedMost = uint64_t{1} << 60;

// Whether this Hello's node can be in that world of this job.
bool Fits(const v1::World& world, const v1::Hello& hello) {
  const bool run = world.job() == hello.job() && world.run() == hello.run() &&
                   world.generation() == hello.held().running_generation();
  return run && std::any_of(world.members().begin(), world.members().end(),
                            [&](const v1::Member& row) {
                              return row.node() == hello.node() &&
                                     row.ranks() == hello.ranks();
                            });
}

}  // namespace

// The world that this Hello claims to run in, if it can be this job's.
Job::Claimed* Job::ClaimedBy(const v1::Hello& hello) {
  const v1::Held& held = hello.held();
  for (Claimed& claimed : claimed_) {
    if (claimed.world_bytes == held.world() && claimed.seal == held.seal()) {
      return Fits(claimed.world, hello) ? &claimed : nullptr;
    }
  }
  if (held.running_generation() == 0 ||
      claimed_.size() >= Limits::claimed_worlds_max) {
    return nullptr;
  }
  absl::StatusOr<v1::World> world = DecodeWorld(held.world());
  if (!world.ok()) return nullptr;
  // Of fewer or more than the job's nodes it was another job's.
  const uint32_t members = static_cast<uint32_t>(world->members_size());
  bool fits =
      Fits(*world, hello) && nodes_min_ <= members && members <= nodes_max_;
  for (const v1::Member& row : world->members()) {
    fits = fits && row.seat() < nodes_max_;
  }
  v1::Seal seal;
  fits = fits && seal.ParseFromString(held.seal()) &&
         AdmitSeal(seal, *world).ok() &&
         AdmitCount("generation", world->generation(), kAdoptedMost).ok();
  if (!fits) return nullptr;
  claimed_.push_back({held.world(), held.seal(), *std::move(world), {}});
  return &claimed_.back();
}

// True: it is kept waiting until enough others say the same, or its time is
// over.
bool Job::Claims(const Attend& attend) {
  if (!adoptable_ || claimants_.size() >= Limits::nodes_max) return false;
  Claimed* claimed = ClaimedBy(attend.hello);
  if (claimed == nullptr) return false;
  const std::string& node = attend.hello.node();
  // A stream of the same agent that broke unheard.
  for (const Claimed& other : claimed_) {
    const auto at = other.by.find(node);
    if (at == other.by.end()) continue;
    const SessionId older = at->second.session;
    Close(older, absl::StatusCode::kAborted, v1::REFUSAL_CODE_REDIALED,
          "a newer stream of this agent is here");
    Unclaim(older);
    break;
  }
  // Not longer than that, however often they come and go.
  if (claims_until_ == absl::InfiniteFuture()) {
    claims_until_ = now_ + limits_.reattach_grace;
  }
  Attend& kept = claimed->by[node] = attend;
  kept.hello.mutable_held()->clear_world();
  kept.hello.mutable_held()->clear_seal();
  claimants_[attend.session] = node;
  Say(Log::Level::kWarning,
      absl::StrCat(
          "event=claim node=", node, " run=", attend.hello.run(),
          " generation=", attend.hello.held().running_generation(),
          " reason=\"it runs in a world that this daemon has no memory "
          "of\""));
  const size_t members = static_cast<size_t>(claimed->world.members_size());
  if (claimed->by.size() * 2 > members) Adopt(*claimed);
  return true;
}

void Job::Unclaim(SessionId session) {
  const auto claimant = claimants_.find(session);
  if (claimant == claimants_.end()) return;
  for (Claimed& claimed : claimed_) {
    const auto at = claimed.by.find(claimant->second);
    if (at == claimed.by.end() || at->second.session != session) continue;
    claimed.by.erase(at);
    break;
  }
  claimants_.erase(claimant);
}

void Job::Adopt(const Claimed& chosen) {
  adoptable_ = false;
  const Claimed taken = chosen;
  const v1::World& world = taken.world;
  v1::Seal seal;
  seal.ParseFromString(taken.seal);  // It was, before.
  const std::vector<Attend> claims = TakeClaims();
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
  proposal.set_world(taken.world_bytes);
  proposal.set_compression(v1::COMPRESSION_NONE);
  proposal.set_world_bytes(static_cast<uint32_t>(taken.world_bytes.size()));
  actions_.push_back(
      Journal{Journal::Kind::kRunStarted, 0, settings_.SerializeAsString()});
  // As the highest that may have been proposed: the next daemon goes on above
  // it, too.
  actions_.push_back(
      Journal{Journal::Kind::kProposed, unseen, proposal.SerializeAsString()});
  actions_.push_back(Journal{Journal::Kind::kCommitted, unseen, taken.seal});
  Say(Log::Level::kWarning,
      absl::StrCat("event=adopt run=", run_, " generation=", generation_,
                   " members=", world.members_size(),
                   " claims=", claims.size()));
  TakeUpWorld(world, proposal, seal);
  Changed();
  for (const Attend& claim : claims) On(claim);
}

// All of them, in the order in which they came; nobody claims any more.
std::vector<Attend> Job::TakeClaims() {
  std::map<SessionId, Attend> claims;
  for (Claimed& claimed : claimed_) {
    for (auto& [node, claim] : claimed.by) {
      claims[claim.session] = std::move(claim);
    }
  }
  claimed_.clear();
  claimants_.clear();
  claims_until_ = absl::InfiniteFuture();
  std::vector<Attend> taken;
  for (auto& [session, claim] : claims) taken.push_back(std::move(claim));
  return taken;
}

// Not enough of them came: theirs is a run that has ended.
void Job::RefuseClaims() {
  adoptable_ = false;
  for (const Attend& claim : TakeClaims()) {
    Close(claim.session, absl::StatusCode::kAborted, v1::REFUSAL_CODE_OTHER_RUN,
          absl::StrCat("job ", job_, " is in run ", run_, " now, not ",
                       claim.hello.run(),
                       ": too few members of that one came "
                       "to go on with it"));
  }
  last_arrival_ = now_;
}

}  // namespace rollcall
