// Agent: worlds, from their proposal to their end.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/core/agent.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/exit_codes.h"
#include "daemon/core/formation/world.h"

namespace rollcall {
namespace {

constexpr size_t kProofBytesMax = 64;

const v1::Member* RowOf(const v1::World& world, const std::string& node) {
  for (const v1::Member& member : world.members()) {
    if (member.node() == node) return &member;
  }
  return nullptr;
}

// Returns the world if it belongs to this agent's run. Otherwise an error: the
// world's names are written to files and environments.
absl::StatusOr<v1::World> OwnWorld(v1::World world,
                                   const v1::Proposal& proposal,
                                   const v1::Hello& hello) {
  if (world.job() == hello.job() && world.run() == hello.run() &&
      world.generation() == proposal.generation()) {
    return world;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "expected a world of job ", hello.job(), ", run ", hello.run(),
      ", generation ", proposal.generation(), "; got job ", world.job(),
      ", run ", world.run(), ", generation ", world.generation()));
}

}  // namespace

void Agent::On(const FromDaemon& from) {
  const auto kind = from.message.kind_case();
  if (exit_.has_value() && kind != v1::DaemonMessage::kEnd) return;
  // These messages contain text from users and other nodes, which is printed on
  // this terminal.
  const bool wordy = kind == v1::DaemonMessage::kWaiting ||
                     kind == v1::DaemonMessage::kAbort ||
                     kind == v1::DaemonMessage::kNotice ||
                     kind == v1::DaemonMessage::kEnd;
  v1::DaemonMessage clean;
  if (wordy) {
    clean = from.message;
    CleanDaemonMessage(clean);
  }
  const v1::DaemonMessage& m = wordy ? clean : from.message;
  switch (kind) {
    case v1::DaemonMessage::kWelcome:
      return OnWelcome(m.welcome());
    case v1::DaemonMessage::kNewCredential:
      return TakeCredential(m.new_credential().node_credential());
    case v1::DaemonMessage::kWaiting:
      return OnWaiting(m.waiting());
    case v1::DaemonMessage::kProposal:
      return OnProposal(m.proposal());
    case v1::DaemonMessage::kCommit:
      return OnCommit(m.commit());
    case v1::DaemonMessage::kAbort:
      return OnAbort(m.abort());
    case v1::DaemonMessage::kEnd:
      return OnEnd(m.end());
    case v1::DaemonMessage::kExchange:
      return OnExchange(m.exchange());
    case v1::DaemonMessage::kStore:
      return Carry(store_.Hear(m.store()));
    case v1::DaemonMessage::kNotice:
      return OnNotice(m.notice());
    case v1::DaemonMessage::kCheckRequest:
      actions_.push_back(RunChecks{m.check_request().request()});
      return;
    case v1::DaemonMessage::kProbe:
      actions_.push_back(RunProbe{m.probe()});
      return;
    case v1::DaemonMessage::kRanksLink:
      return OnRanksLink(m.ranks_link());
    case v1::DaemonMessage::kGroupCheck:
      check_round_ = m.group_check().round();
      actions_.push_back(RunGroupCheck{m.group_check()});
      return;
    // A message of a newer daemon; this agent ignores it.
    case v1::DaemonMessage::KIND_NOT_SET:
      return;
  }
}

void Agent::OnProposal(const v1::Proposal& proposal) {
  if (proposal.generation() <= generation_seen_) return;  // Old or a retry.
  generation_seen_ = proposal.generation();
  absl::StatusOr<v1::World> world = DecodeWorld(proposal.world());
  if (world.ok()) world = OwnWorld(*std::move(world), proposal, hello_);
  const v1::Member* row = world.ok() ? RowOf(*world, hello_.node()) : nullptr;
  EndGroupCheck();
  DropPreparation();
  const bool starts = row == nullptr || RanksStarted(*row) > 0;
  EndGeneration(
      v1::REASON_CODE_UNSPECIFIED,
      absl::StrCat("generation ", proposal.generation(), " takes its place"),
      starts ? Keep::kElastic : Keep::kNobody);
  stopped_.generation = 0;  // Prepared implies Stopped.
  refused_.reset();
  if (setup_.pending()) {
    return Refuse(proposal.generation(),
                  "its set-up command has not succeeded yet");
  }
  if (row == nullptr || row->ranks() != hello_.ranks() ||
      row->once() != hello_.once()) {
    return Refuse(proposal.generation(),
                  world.ok()
                      ? absl::StrCat("the world has no row for ", hello_.node(),
                                     " with ", hello_.ranks(), " ranks",
                                     hello_.once() ? " and --once" : "")
                      : std::string(world.status().message()));
  }
  Preparing preparing;
  preparing.node_rank = row->node_rank();
  preparing.world_bytes = proposal.world();
  preparing.world = *std::move(world);
  actions_.push_back(Prepare{preparing.world, preparing.node_rank});
  preparing_ = std::move(preparing);
}

void Agent::On(const PreparationDone& done) {
  if (!preparing_.has_value() ||
      preparing_->world.generation() != done.generation) {
    return;
  }
  v1::Prepared prepared;
  prepared.set_generation(done.generation);
  prepared.set_master_port(done.master_port);
  for (const std::string& id : done.nccl_ids) prepared.add_nccl_ids(id);
  prepared.set_nccl_version(done.nccl_version);
  prepared.set_nccl_absent(done.nccl_absent);
  for (const std::string& warning : done.warnings) {
    prepared.add_warnings(warning);
    Tell(Report::Kind::kWarning, warning);
  }
  preparing_->done = std::move(prepared);
  SayPreparedIfReady();
}

void Agent::On(const PreparationFailed& failed) {
  if (!preparing_.has_value() ||
      preparing_->world.generation() != failed.generation) {
    return;
  }
  DropPreparation();
  Refuse(failed.generation, failed.reason);
  Tell(Report::Kind::kWarning,
       absl::StrCat("cannot take part in generation ", failed.generation, ": ",
                    failed.reason));
}

void Agent::Refuse(uint64_t generation, const std::string& reason) {
  refused_.emplace().set_generation(generation);
  refused_->set_reason(reason);
  SayRefused();
}

void Agent::SayRefused() {
  if (!refused_.has_value()) return;
  v1::AgentMessage message;
  *message.mutable_refused() = *refused_;
  Tell(std::move(message));
}

void Agent::SayPreparedIfReady() {
  if (!preparing_.has_value() || !preparing_->done.has_value() ||
      preparing_->said || preparing_->world_commit.has_value() || !Settled() ||
      link_ != Link::kAttending) {
    return;
  }
  preparing_->said = preparing_->promised = true;
  v1::AgentMessage message;
  *message.mutable_prepared() = *preparing_->done;
  for (const auto& [local_rank, rank] : rank_processes_) {
    *message.mutable_prepared()->add_states() = *rank.waits;
  }
  Tell(std::move(message));
}

void Agent::OnCommit(const v1::Commit& commit) {
  if (!preparing_.has_value() || !preparing_->promised ||
      preparing_->world_commit.has_value() ||
      preparing_->world.generation() != commit.generation()) {
    return;
  }
  v1::WorldCommit world_commit;
  if (!world_commit.ParseFromString(commit.world_commit()) ||
      !AdmitWorldCommit(world_commit, preparing_->world).ok()) {
    return Leave(kExitRendezvous,
                 absl::StrCat("the commit of generation ", commit.generation(),
                              " does not fit its world; the daemon speaks "
                              "another version of rollcall"));
  }
  CleanWorldCommit(world_commit);
  preparing_->world_commit_bytes = commit.world_commit();
  // The daemon never sends a longer proof.
  if (commit.proof().size() <= kProofBytesMax) {
    preparing_->proof = commit.proof();
  }
  preparing_->world_commit = std::move(world_commit);
  StartIfSettled();
}

// The local rank that is the state source, if its process has ended since it
// waited. A new process in its place does not have the state.
std::optional<uint32_t> Agent::LostSource() const {
  const v1::WorldCommit& world_commit = *preparing_->world_commit;
  const v1::Member& me =
      preparing_->world.members(static_cast<int>(preparing_->node_rank));
  const uint32_t rank = world_commit.state_source().rank();
  if (!world_commit.has_state_source() || rank < me.first_rank() ||
      rank - me.first_rank() >= me.ranks() ||
      rank_processes_.contains(rank - me.first_rank())) {
    return std::nullopt;
  }
  return rank - me.first_rank();
}

void Agent::StartIfSettled() {
  if (!preparing_.has_value() || !preparing_->world_commit.has_value() ||
      !Settled()) {
    return;
  }
  const v1::World& world = preparing_->world;
  if (const std::optional<uint32_t> lost = LostSource()) {
    v1::AgentMessage message;
    v1::RankExited& exited = *message.mutable_rank_exited();
    exited.set_generation(world.generation());
    exited.set_local_rank(*lost);
    exited.set_code(1);
    exited.set_stderr_tail("the state source ended before its state was sent");
    // If the agent redials, the daemon sends the commit again and gets this
    // answer again, until it ends the generation.
    preparing_->world_commit.reset();
    return Tell(std::move(message));
  }
  running_ = Running();
  running_->generation = world.generation();
  running_->ranks = hello_.ranks();
  const v1::Member& me = world.members(static_cast<int>(preparing_->node_rank));
  running_->first_rank = me.first_rank();
  exchanges_.Begin(world.generation(), me.first_rank(), hello_.ranks(),
                   static_cast<int>(world.world_size()));
  Carry(store_.Begin(world.generation()));
  running_->world_bytes = std::move(preparing_->world_bytes);
  running_->world_commit_bytes = std::move(preparing_->world_commit_bytes);
  running_->proof = std::move(preparing_->proof);
  StartRanks start;
  for (uint32_t local = 0; local < RanksStarted(me); ++local) {
    const auto [at, fresh] = rank_processes_.try_emplace(local);
    if (fresh) {
      at->second.born = world.generation();
      at->second.started_at = now_;
      WatchStart(at->second);
      start.fresh.push_back(local);
    } else {
      at->second.waits.reset();
      at->second.signalled = false;
      at->second.step = 0;
      Watch(local, at->second);
      start.waiting.push_back({at->second.born, local});
    }
  }
  Tell(Report::Kind::kState,
       absl::StrCat("generation ", world.generation(), ": node rank ",
                    preparing_->node_rank, " of ", world.members_size(),
                    ", world size ", world.world_size(),
                    start.waiting.empty()
                        ? ""
                        : absl::StrCat(", ", start.waiting.size(), " of ",
                                       hello_.ranks(), " ranks stayed alive")));
  start.node_rank = preparing_->node_rank;
  start.world_commit = *std::move(preparing_->world_commit);
  start.world = std::move(preparing_->world);
  const std::optional<v1::Notice> notice = std::move(preparing_->notice);
  actions_.push_back(std::move(start));
  preparing_.reset();
  if (notice.has_value()) OnNotice(*notice);
}

void Agent::OnAbort(const v1::Abort& abort) {
  // A late abort must not stop ranks of a newer generation.
  if (abort.generation() < generation_seen_) return;
  generation_seen_ = abort.generation();
  refused_.reset();
  DropPreparation();
  const bool ran = running_.has_value();
  if (ran) {
    Tell(Report::Kind::kState, absl::StrCat("generation ", abort.generation(),
                                            " ended: ", abort.reason()));
  }
  EndGeneration(abort.code(), abort.reason(), Keep::kElastic);
  if (ran && abort.hung_node() == hello_.node()) {
    KillTheHung(abort.hung_local_rank());
  }
  stopped_.generation = abort.generation();
  stopped_.said = false;
  SayStoppedIfSettled();
}

void Agent::SayStoppedIfSettled() {
  if (stopped_.generation == 0 || stopped_.said || !Settled() ||
      link_ != Link::kAttending) {
    return;
  }
  stopped_.said = true;
  v1::AgentMessage message;
  message.mutable_stopped()->set_generation(stopped_.generation);
  Tell(std::move(message));
}

bool Agent::Settled() const {
  return std::all_of(
      rank_processes_.begin(), rank_processes_.end(),
      [](const auto& entry) { return entry.second.waits.has_value(); });
}

void Agent::DropPreparation() {
  if (!preparing_.has_value()) return;
  actions_.push_back(Undo{preparing_->world.generation()});
  preparing_.reset();
}

void Agent::EndGeneration(v1::ReasonCode code, const std::string& reason,
                          Keep keep) {
  if (running_.has_value()) {
    ended_generation_ = running_->generation;
    actions_.push_back(AbortRanks{running_->generation, code, reason});
    running_.reset();
    UnwatchAll();
    exchanges_.End();
    store_.End();
  }
  Stop(limits_.stop_grace, keep);
  notice_.reset();
}

void Agent::Stop(absl::Duration grace, Keep keep) {
  const auto kept = [keep](const RankProcess& rank) {
    return keep == Keep::kElastic && rank.elastic && !rank.ended &&
           !rank.stopping;
  };
  for (auto& [local_rank, rank] : rank_processes_) {
    if (kept(rank)) {
      if (!rank.waits.has_value() && rank.answer_by == absl::InfiniteFuture()) {
        rank.answer_by = now_ + grace;
      }
    }
  }
  // Ranks that were signalled for a notice have already used part or all of
  // their grace period.
  if (notice_.has_value()) {
    const absl::Duration left =
        std::clamp(notice_->kill_at - now_, absl::ZeroDuration(), grace);
    StopThose(left, [&](const RankProcess& rank) {
      return rank.signalled && !kept(rank);
    });
  }
  StopThose(grace, [&](const RankProcess& rank) {
    return !(notice_.has_value() && rank.signalled) && !kept(rank);
  });
}

void Agent::StopThose(absl::Duration grace,
                      const std::function<bool(const RankProcess&)>& which) {
  const absl::Time kill_at = now_ + grace;
  std::vector<RankIncarnation> told;
  for (auto& [local_rank, rank] : rank_processes_) {
    if (!which(rank) || (rank.stopping && kill_at >= rank.kill_at)) continue;
    rank.stopping = true;
    rank.kill_at = kill_at;
    rank.answer_by = absl::InfiniteFuture();
    rank.waits.reset();
    told.push_back({rank.born, local_rank});
  }
  if (!told.empty()) actions_.push_back(StopRanks{std::move(told), grace});
}

}  // namespace rollcall
