// Job: adoption of a run that this daemon has no memory of. Its agents bring
// the run's last world; when over half of that world's members bring the same
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
// The adopted run continues this far above every epoch that the world's members
// know. Nodes that the lost daemon has evicted since are not in that world, and
// their credentials must stay invalid.
constexpr uint64_t kEpochsUnseen = uint64_t{1} << 32;

}  // namespace

// True: the claim is kept, and its stream waits until enough agents claim the
// same world or until claims_until_; or the agent was told to redial.
bool Job::TakeClaim(const Attend& attend) {
  // A token proves nothing about a run: without a credential of that run there
  // is nothing to wait for.
  if (!adoptable_ || !attend.hello.has_node_credential()) return false;
  // The wait is not extended when agents come and go.
  if (claims_until_ == absl::InfiniteFuture()) {
    claims_until_ = now_ + limits_.reattach_grace;
  }
  const std::string& node = attend.hello.node();
  const std::optional<SessionId> older = claims_.StreamOf(node);
  if (!attend.commit_proven || claimants_.size() >= Limits::nodes_max ||
      !claims_.Take(attend.session, attend.hello, attend.epoch, nodes_min_,
                    nodes_max_)) {
    // It is of a run that may still be adopted but proves no world; for example
    // a spare.
    Close(attend.session, absl::StatusCode::kUnavailable,
          v1::REFUSAL_CODE_UNSPECIFIED,
          absl::StrCat("this daemon has no memory of run ", attend.hello.run(),
                       " and waits for the members of its world; dial again"));
    return true;
  }
  // An earlier stream of the same agent, whose end this daemon has not seen.
  if (older.has_value()) {
    Close(*older, absl::StatusCode::kAborted, v1::REFUSAL_CODE_REDIALED,
          "a newer stream of this agent is here");
    Unclaim(*older);
  }
  Attend& kept = claimants_[attend.session] = attend;
  kept.hello.mutable_held()->clear_world();
  kept.hello.mutable_held()->clear_seal();
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

void Job::MaybeAdopt(bool time_is_over) {
  if (const Claims::Claimed* chosen = claims_.Chosen(time_is_over)) {
    Adopt(*chosen);
  }
}

void Job::Unclaim(SessionId session) {
  if (claimants_.erase(session) > 0) claims_.Drop(session);
}

void Job::Adopt(const Claims::Claimed& chosen) {
  adoptable_ = false;
  const Claims::Claimed taken = chosen;
  const v1::World& world = taken.world;
  const std::vector<Attend> claims = TakeClaims();
  // Agents that attended meanwhile have joined a run that adoption discards.
  for (const SessionId session : AllSessions()) {
    Close(session, absl::StatusCode::kUnavailable, v1::REFUSAL_CODE_UNSPECIFIED,
          "an older run of this job continues; dial again");
  }
  sessions_.clear();
  nodes_.clear();
  deadlines_.clear();
  suspects_.clear();
  barred_.clear();
  checking_.clear();
  notices_.ForgetAll();
  gone_order_.clear();
  probing_.Clear();
  reach_ = Reach();
  rounds_.Reset();
  former_run_ = run_;
  run_ = world.run();
  knows_all_worlds_ = false;
  fence_ = Fence();
  generation_ = world.generation();
  const uint64_t unseen = generation_ + kGenerationsUnseen;
  generation_seen_ = std::max(generation_seen_, unseen);
  failures_.SetCharged(
      std::min(world.restarts_charged(), limits_.max_restarts));
  why_.Clear();
  why_.set_code(v1::REASON_CODE_DAEMON_RESTART);
  why_.set_reason("a daemon without memory has adopted it from its members");
  v1::Proposal proposal;
  proposal.set_generation(generation_);
  proposal.set_world(taken.world_bytes);
  proposal.set_compression(v1::COMPRESSION_NONE);
  proposal.set_world_bytes(static_cast<uint32_t>(taken.world_bytes.size()));
  actions_.push_back(
      Journal{Journal::Kind::kRunStarted, 0, settings_.SerializeAsString()});
  // Journaled as the highest generation that may have been proposed, so that
  // the next daemon continues above it too.
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
    // It claimed an older world of this run: the node may have been evicted
    // since.
    Close(claim.session, absl::StatusCode::kUnauthenticated,
          v1::REFUSAL_CODE_CREDENTIAL,
          absl::StrCat("the credential of node ", node,
                       " is not of the adopted world; attend with a token"));
  }
}

// The epochs of the adopted run, from its commit.
void Job::SetEpochs(const Claims::Claimed& chosen) {
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

// Returns all claims in the order of their arrival, and clears them.
std::vector<Attend> Job::TakeClaims() {
  claims_.Clear();
  claims_until_ = absl::InfiniteFuture();
  std::vector<Attend> taken;
  for (auto& [session, claim] : std::exchange(claimants_, {})) {
    taken.push_back(std::move(claim));
  }
  return taken;
}

// The time for claims is over.
void Job::EndClaims() {
  MaybeAdopt(/*time_is_over=*/true);
  if (adoptable_ || !claimants_.empty()) RefuseClaims();
  claims_until_ = absl::InfiniteFuture();
}

// Too few agents came: their run has ended.
void Job::RefuseClaims() {
  adoptable_ = false;
  for (const Attend& claim : TakeClaims()) {
    Close(claim.session, absl::StatusCode::kAborted, v1::REFUSAL_CODE_OTHER_RUN,
          absl::StrCat("job ", job_, " is in run ", run_, " now, not ",
                       claim.hello.run(),
                       ": too few members of that run came back"));
  }
  last_call_ = LastCall(now_);
}

}  // namespace rollcall
