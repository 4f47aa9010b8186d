#include "tests/sim/fault_plan.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rollcall::sim {
namespace {

// By then, all nodes have attended for the first time.
constexpr Nanos kAllHere = 10 * kSecond;

}  // namespace

FaultPlan::FaultPlan(World& world, Network& network, InvariantChecker& checker,
                     Daemons& daemon, Trainer& trainer,
                     std::vector<std::unique_ptr<Node>>& nodes,
                     const FaultPlanSettings& settings)
    : world_(world),
      network_(network),
      checker_(checker),
      daemon_(daemon),
      trainer_(trainer),
      nodes_(nodes),
      settings_(settings),
      cut_epoch_(nodes.size()) {
  Chance& chance = world_.chance;
  if (settings_.flappers > 0) {
    renames_ = chance.OneIn(2);
    if (chance.OneIn(2)) flaps_after_ = 1500 * kMilli;
    return;
  }
  if (settings_.rolls_back) {
    kinds_ = {Kind::kRollBack, Kind::kRankFails};
    mean_ = chance.Skewed(kSecond, 12 * kSecond);
    return;
  }
  const uint64_t many = 1 + chance.Below(5);
  for (uint64_t i = 0; i < static_cast<uint64_t>(Kind::kCount); ++i) {
    const Kind kind = static_cast<Kind>(i);
    if (kind == Kind::kRollBack) continue;
    if (settings_.group && (kind == Kind::kDaemonDies || kind == Kind::kStall ||
                            kind == Kind::kJournalBreaks)) {
      if (!chance.OneIn(3)) kinds_.push_back(kind);
      continue;
    }
    // Faults that end a run early are rarer.
    const bool ends = kind == Kind::kStop || kind == Kind::kLeave ||
                      kind == Kind::kEvict || kind == Kind::kDaemonForgets;
    if (chance.OneIn(ends ? 3 * many : many)) kinds_.push_back(kind);
  }
  mean_ = chance.Skewed(300 * kMilli, 12 * kSecond);
}

void FaultPlan::Start() {
  const auto own = static_cast<uint32_t>(nodes_.size()) - 1;
  for (uint32_t i = own - settings_.flappers; i < own; ++i) {
    world_.Schedule(world_.chance.Skewed(kMilli, 5 * kSecond),
                    Wake::Kind::kFlap, i);
  }
  if (kinds_.empty()) return;
  world_.Schedule(world_.now() + world_.chance.Between(0, 2 * mean_),
                  Wake::Kind::kFault);
}

void FaultPlan::OnFault() {
  if (world_.now() >= settings_.calm_at) return;
  ++count_;
  Do(kinds_[world_.chance.Below(kinds_.size())]);
  Start();
}

// Most flapping nodes die; some are asked to leave, and are killed if they are
// slow.
void FaultPlan::OnFlap(uint32_t number) {
  if (daemon_.end().has_value()) return;
  Chance& chance = world_.chance;
  Node& node = *nodes_[number];
  Nanos next = chance.Skewed(kMilli, 2 * kSecond);
  if (!node.alive()) {
    if (renames_) node.Rename(absl::StrCat("flapper", ++names_));
    node.Start();
    next = chance.Skewed(flaps_after_, 4 * kSecond);
  } else if (chance.OneIn(4) && world_.now() > kAllHere) {
    // Earlier, the node could be the only one, and its leave would end the job.
    node.AskLeave(SIGTERM);
  } else {
    ++count_;
    node.Crash(chance.OneIn(4));
  }
  world_.Schedule(world_.now() + next, Wake::Kind::kFlap, number);
}

uint32_t FaultPlan::Any() {
  return static_cast<uint32_t>(world_.chance.Below(nodes_.size()));
}

void FaultPlan::Do(Kind kind) {
  Chance& chance = world_.chance;
  const Nanos now = world_.now();
  Node& node = *nodes_[Any()];
  switch (kind) {
    case Kind::kKill:
    case Kind::kPowerLoss:
      node.Crash(kind == Kind::kPowerLoss);
      return RestartLater(node.settings().number);
    case Kind::kCut:
      return Cut(node.settings().number);
    case Kind::kCutHalf:
      for (uint32_t i = 0; i < nodes_.size(); ++i) {
        if (chance.OneIn(2)) Cut(i);
      }
      return;
    case Kind::kRefuseHalf:
      for (uint32_t i = 0; i < nodes_.size(); ++i) {
        if (chance.OneIn(2)) Refuse(i);
      }
      return;
    case Kind::kFreeze:
      return node.Freeze(now + chance.Skewed(20 * kMilli, 20 * kSecond));
    case Kind::kStall:
      return daemon_.Stall(now + chance.Skewed(10 * kMilli, 10 * kSecond));
    case Kind::kRankFails: {
      const bool by_signal = chance.OneIn(2);
      constexpr int kSignals[] = {SIGKILL, SIGSEGV, SIGABRT};
      node.FailRank(static_cast<uint32_t>(chance.Below(4)),
                    by_signal ? 0 : 1 + static_cast<int>(chance.Below(3)),
                    by_signal ? kSignals[chance.Below(3)] : 0);
      // The failure makes ranks of its peers fail too.
      for (const auto& peer : nodes_) {
        if (peer->ranks().running() == node.ranks().running() &&
            chance.OneIn(3)) {
          peer->FailRank(0, 1, 0);
        }
      }
      return;
    }
    case Kind::kRankHangs: {
      if (chance.OneIn(4)) return node.ranks().HangStart();
      const bool for_good = settings_.watched && chance.OneIn(2);
      return node.HangRank(
          static_cast<uint32_t>(chance.Below(4)),
          for_good ? kNever : now + chance.Skewed(100 * kMilli, 30 * kSecond));
    }
    case Kind::kRankSticks:
      return node.StickRank(
          static_cast<uint32_t>(chance.Below(4)),
          std::max(now, std::min(now + chance.Skewed(kSecond, 60 * kSecond),
                                 settings_.calm_at)));
    case Kind::kSlowPrepare:
      return node.DelayNext(chance.Skewed(kSecond, 20 * kSecond));
    case Kind::kRefusal:
      return node.RefuseNext();
    case Kind::kDaemonDies:
      return daemon_.Crash(chance.Skewed(50 * kMilli, 15 * kSecond));
    case Kind::kDaemonForgets:
      return daemon_.LoseJournal(chance.Skewed(50 * kMilli, 5 * kSecond));
    case Kind::kLaunchAgain:
      return LaunchAgain();
    case Kind::kRollBack:
      return daemon_.RollBack(chance.Skewed(50 * kMilli, 2 * kSecond));
    case Kind::kJournalBreaks:
      return daemon_.BreakJournal(now + chance.Skewed(kMilli, 5 * kSecond));
    case Kind::kImpostor:
      return nodes_.back()->Start();
    case Kind::kGhost:
      return RaiseGhost();
    case Kind::kOldDaemon:
      return SpeakAsBefore(node);
    case Kind::kReset:
      return network_.Reset(node.settings().number);
    case Kind::kResetMax:
      for (uint32_t i = 0; i < nodes_.size(); ++i) {
        if (!chance.OneIn(4)) network_.Reset(i);
      }
      return;
    case Kind::kCutDaemon:
      for (uint32_t i = 0; i < nodes_.size(); ++i) CutFromDaemon(i);
      return;
    case Kind::kDrain:
      return daemon_.AskDrain(
          node.settings().name,
          chance.OneIn(2)
              ? absl::InfiniteDuration()
              : absl::Nanoseconds(chance.Skewed(100 * kMilli, 20 * kSecond)));
    case Kind::kEvict:
      daemon_.AskEvict(node.settings().name);
      return RestartLater(node.settings().number);
    case Kind::kSick:
      return node.FallSick();
    case Kind::kLeave:
      node.AskLeave(chance.OneIn(2) ? SIGTERM : SIGINT);
      return RestartLater(node.settings().number);
    case Kind::kStop:
      return daemon_.AskStop(static_cast<int>(chance.Below(3)),
                             chance.OneIn(3));
    case Kind::kCount:
      return;
  }
}

// Most of the time, the node is started again.
void FaultPlan::RestartLater(uint32_t node) {
  if (world_.chance.OneIn(5)) return;
  world_.Schedule(
      world_.now() + world_.chance.Skewed(10 * kMilli, 20 * kSecond),
      Wake::Kind::kNodeStarts, node);
}

void FaultPlan::Cut(uint32_t node) {
  Chance& chance = world_.chance;
  const uint64_t ways = 1 + chance.Below(3);
  world_.Trace("machine ", node, " is cut off", ways & 1 ? " up" : "",
               ways & 2 ? " down" : "");
  if (ways & 1) network_.Cut(node, kUp);
  if (ways & 2) network_.Cut(node, kDown);
  if (chance.OneIn(2)) trainer_.CutPeers(node);
  world_.Schedule(world_.now() + chance.Skewed(20 * kMilli, 30 * kSecond),
                  Wake::Kind::kMends, node, ++cut_epoch_[node]);
}

// The daemon's streams with the node are reset, and new ones are refused. Other
// nodes still reach the node.
void FaultPlan::Refuse(uint32_t node) {
  world_.Trace("machine ", node, " is refused");
  network_.Refuse(node);
  world_.Schedule(world_.now() + world_.chance.Skewed(kSecond, 60 * kSecond),
                  Wake::Kind::kMends, node, ++cut_epoch_[node]);
}

// The nodes still reach each other. Node 0 is on the daemon's machine, so it is
// cut off less often.
void FaultPlan::CutFromDaemon(uint32_t node) {
  Chance& chance = world_.chance;
  if (node == 0 && chance.OneIn(2)) return;
  world_.Trace("machine ", node, " is cut off from the daemon");
  network_.Cut(node, kUp);
  if (!chance.OneIn(4)) network_.Cut(node, kDown);
  world_.Schedule(world_.now() + chance.Skewed(20 * kMilli, 30 * kSecond),
                  Wake::Kind::kMends, node, ++cut_epoch_[node]);
}

void FaultPlan::OnMends(uint32_t node, uint64_t epoch) {
  if (epoch != cut_epoch_[node]) return;
  world_.Trace("machine ", node, " is reached again");
  network_.Mend(node);
  trainer_.MendPeers(node);
}

// A ghost: an earlier incarnation of a node speaks, like a process that was
// stopped and continues. It sends its last Hello, and messages that could have
// followed.
void FaultPlan::RaiseGhost() {
  const Node& node = *nodes_[Any()];
  if (!node.old_hello().has_value() || network_.IsCut(node.settings().number)) {
    return;
  }
  world_.Trace("a ghost of ", node.settings().name, ", incarnation ",
               node.old_hello()->incarnation());
  const StreamId stream = network_.Dial(node.settings().number, 3 * kSecond);
  ghosts_.push_back(stream);
  const auto say = [&](auto fill) {
    auto message = std::make_unique<v1::AgentMessage>();
    fill(*message);
    network_.Send(stream, kUp, std::move(message));
  };
  say([&](v1::AgentMessage& m) { *m.mutable_hello() = *node.old_hello(); });
  const uint64_t generation = daemon_.journal().generation;
  say([&](v1::AgentMessage& m) {
    m.mutable_prepared()->set_generation(generation);
    m.mutable_prepared()->set_master_port(1);
  });
  say([&](v1::AgentMessage& m) {
    m.mutable_rank_exited()->set_generation(generation);
    m.mutable_rank_exited()->set_code(99);
  });
  network_.Drop(stream, kUp, true);
}

// An earlier daemon speaks, like a process that was stopped and continues. It
// repeats a commit, and sends messages of an older generation than the agent
// has seen.
void FaultPlan::SpeakAsBefore(const Node& node) {
  if (!node.alive() || node.stream() == 0) return;
  const auto tell = [&](auto fill) {
    auto message = std::make_shared<v1::DaemonMessage>();
    fill(*message);
    network_.Send(node.stream(), kDown, ToAgent(std::move(message)));
  };
  const std::optional<v1::Commit> commit = checker_.LatestCommit(node.record());
  if (commit.has_value()) {
    tell([&](v1::DaemonMessage& m) { *m.mutable_commit() = *commit; });
  }
  const std::optional<v1::Proposal> older =
      checker_.OlderProposal(node.record());
  if (!older.has_value()) return;
  world_.Trace("an older daemon tells ", node.settings().name,
               " of generation ", older->generation());
  tell([&](v1::DaemonMessage& m) { *m.mutable_proposal() = *older; });
  tell([&](v1::DaemonMessage& m) {
    m.mutable_abort()->set_generation(older->generation());
    m.mutable_abort()->set_code(v1::REASON_CODE_LOST_LEASE);
    m.mutable_abort()->set_reason("an older world has ended");
  });
}

// Agents of the first run that have not learned of its end are still there.
void FaultPlan::LaunchAgain() {
  Chance& chance = world_.chance;
  if (!daemon_.LaunchAgain(chance.Skewed(50 * kMilli, 5 * kSecond))) return;
  for (size_t i = 0; i + 1 < nodes_.size(); ++i) {
    if (nodes_[i]->alive() || chance.OneIn(4)) continue;
    world_.Schedule(world_.now() + chance.Skewed(kMilli, 5 * kSecond),
                    Wake::Kind::kNodeStarts, static_cast<uint32_t>(i));
  }
}

bool FaultPlan::IsGhost(StreamId stream) const {
  return std::find(ghosts_.begin(), ghosts_.end(), stream) != ghosts_.end();
}

void FaultPlan::Calm() {
  network_.Calm();
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    OnMends(i, cut_epoch_[i]);
    nodes_[i]->Calm();
  }
  daemon_.Calm();
}

}  // namespace rollcall::sim
