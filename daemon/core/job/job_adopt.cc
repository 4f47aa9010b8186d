// Job: a run that this daemon has no memory of. Its agents bring it along, and
// when over half of its last world's members bring the same bytes, it goes on.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/admission/grammar.h"
#include "daemon/core/formation/world.h"
#include "daemon/core/job/job.h"

namespace rollcall {
namespace {

// What the lost daemon may have proposed beyond what its agents have seen.
constexpr uint64_t kGenerationsUnseen = 1000;
// So far below what a journal may say that the run can be taken up again.
constexpr uint64_t kAdoptedMost = uint64_t{1} << 60;

// How far above every epoch that the world's members know of the adopted run
// goes on: nodes that the lost daemon evicted since are not in that world, and
// their credentials must stay dead.
constexpr uint64_t kEpochsUnseen = uint64_t{1} << 32;

// Whether this Hello is said by a member of that world of this job: by name,
// ranks, and the life and the epoch that its row was committed with.
bool Fits(const v1::World& world, const v1::Seal& seal, const Attend& attend) {
  const v1::Hello& hello = attend.hello;
  if (world.job() != hello.job() || world.run() != hello.run() ||
      world.generation() != hello.held().running_generation() ||
      hello.previous_incarnation() != 0) {
    return false;
  }
  for (int row = 0; row < world.members_size(); ++row) {
    if (world.members(row).node() != hello.node()) continue;
    return world.members(row).ranks() == hello.ranks() &&
           row < seal.incarnations_size() && row < seal.epochs_size() &&
           seal.incarnations(row) == hello.incarnation() &&
           seal.epochs(row) == attend.epoch;
  }
  return false;
}

}  // namespace

// The world that this Hello claims to run in, if it can be this job's.
Job::Claimed* Job::ClaimedBy(const Attend& attend) {
  const v1::Held& held = attend.hello.held();
  for (Claimed& claimed : claimed_) {
    if (claimed.world_bytes == held.world() &&
        claimed.seal_bytes == held.seal()) {
      return Fits(claimed.world, claimed.seal, attend) ? &claimed : nullptr;
    }
  }
  if (held.running_generation() == 0 ||
      claimed_.size() >= Limits::claimed_worlds_max) {
    return nullptr;
  }
  absl::StatusOr<v1::World> world = DecodeWorld(held.world());
  v1::Seal seal;
  if (!world.ok() || !seal.ParseFromString(held.seal())) return nullptr;
  // Of fewer or more than the job's nodes it was another job's.
  const uint32_t members = static_cast<uint32_t>(world->members_size());
  bool fits =
      nodes_min_ <= members && members <= nodes_max_ &&
      AdmitSeal(seal, *world).ok() && Fits(*world, seal, attend) &&
      AdmitCount("generation", world->generation(), kAdoptedMost).ok() &&
      AdmitCount("epoch", seal.epoch_highest(), kAdoptedMost).ok();
  for (const v1::Member& row : world->members()) {
    fits = fits && row.seat() < nodes_max_;
  }
  if (!fits) return nullptr;
  claimed_.push_back(
      {held.world(), held.seal(), *std::move(world), std::move(seal), {}});
  return &claimed_.back();
}

// True: its stream is kept waiting until enough others say the same or its time
// is over, or it was told to dial again.
bool Job::Claims(const Attend& attend) {
  // A token proves nothing about a run: without a credential of that run there
  // is nothing to wait for.
  if (!adoptable_ || !attend.hello.has_node_credential()) return false;
  // Not longer than that, however often they come and go.
  if (claims_until_ == absl::InfiniteFuture()) {
    claims_until_ = now_ + limits_.reattach_grace;
  }
  Claimed* claimed =
      attend.commit_proven && claimants_.size() < Limits::nodes_max
          ? ClaimedBy(attend)
          : nullptr;
  if (claimed == nullptr) {
    // Of a run that may still be adopted, and no proof of it: a spare, say.
    Close(attend.session, absl::StatusCode::kUnavailable,
          v1::REFUSAL_CODE_UNSPECIFIED,
          absl::StrCat("this daemon has no memory of run ", attend.hello.run(),
                       " and waits for the members of its world; dial again"));
    return true;
  }
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
  Attend& kept = claimed->by[node] = attend;
  kept.hello.mutable_held()->clear_world();
  kept.hello.mutable_held()->clear_seal();
  claimants_[attend.session] = node;
  actions_.push_back(
      Log{Log::Level::kWarning,
          absl::StrCat("job=", job_, " event=claim node=", node,
                       " run=", attend.hello.run(),
                       " generation=", attend.hello.held().running_generation(),
                       " reason=\"it runs in a world that this daemon has no "
                       "memory of\""),
          attend.observed_address});
  MaybeAdopt(/*time_is_over=*/false);
  return true;
}

// The highest generation that most of its members claim. While a higher one is
// claimed, by fewer, the rest of its members are waited for.
void Job::MaybeAdopt(bool time_is_over) {
  const Claimed* chosen = nullptr;
  for (const Claimed& claimed : claimed_) {
    if (claimed.by.empty() || (time_is_over && !claimed.most())) continue;
    if (chosen == nullptr ||
        claimed.world.generation() > chosen->world.generation()) {
      chosen = &claimed;
    }
  }
  if (chosen != nullptr && chosen->most()) Adopt(*chosen);
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
  const std::vector<Attend> claims = TakeClaims();
  // Agents that attended meanwhile joined a run that adoption discards.
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
  probing_.Clear();
  reach_ = Reach();
  round_.clear();
  probe_again_at_ = absl::InfinitePast();
  former_run_ = run_;
  run_ = world.run();
  knows_all_worlds_ = false;
  fence_ = Fence();
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
  actions_.push_back(
      Journal{Journal::Kind::kCommitted, unseen, taken.seal_bytes});
  Say(Log::Level::kWarning,
      absl::StrCat("event=adopt run=", run_, " generation=", generation_,
                   " members=", world.members_size(),
                   " claims=", claims.size()));
  SetEpochs(taken);
  TakeUpWorld(world, proposal, taken.seal);
  Changed();
  for (const Attend& claim : claims) {
    const std::string& node = claim.hello.node();
    if (claim.hello.run() != run_ ||
        claim.epoch == node_epochs_.EpochOf(node)) {
      On(claim);
      continue;
    }
    // Of an older world of this run: it may have been evicted since.
    Close(claim.session, absl::StatusCode::kUnauthenticated,
          v1::REFUSAL_CODE_CREDENTIAL,
          absl::StrCat("the credential of node ", node,
                       " is not of the world that goes on; attend with a "
                       "token"));
  }
}

// The epochs of the adopted run, as its commit says them.
void Job::SetEpochs(const Claimed& chosen) {
  former_epochs_ = std::exchange(node_epochs_, NodeEpochs());
  const v1::Seal& seal = chosen.seal;
  for (int row = 0; row < chosen.world.members_size(); ++row) {
    const uint32_t place = row < seal.token_of_size() ? seal.token_of(row) : 0;
    node_epochs_.Set(
        chosen.world.members(row).node(), seal.epochs(row),
        place > 0 ? seal.token_ids(static_cast<int>(place) - 1) : "");
  }
  node_epochs_.RaiseFloor(seal.epoch_highest() + kEpochsUnseen);
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

// Their time is over.
void Job::EndClaims() {
  MaybeAdopt(/*time_is_over=*/true);
  if (adoptable_ || !claimants_.empty()) RefuseClaims();
  claims_until_ = absl::InfiniteFuture();
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
  last_call_ = LastCall(now_);
}

}  // namespace rollcall
