// RankGroup: what happens to ranks from their end to the last of their output.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/agent/processes/rank_group.h"
#include "client/agent/processes/sweep.h"

namespace rollcall {
namespace {

constexpr absl::Duration kSweepPatience = absl::Milliseconds(500);
constexpr absl::Duration kBetweenSweeps = absl::Seconds(1);
constexpr absl::Duration kBetweenLooks = absl::Seconds(2);
// How long a blocked terminal may delay the next generation.
constexpr absl::Duration kWritingMost = absl::Seconds(2);
constexpr size_t kLeaversMost = 64;
constexpr size_t kNamedMost = 8;

}  // namespace

bool RankGroup::AnyLives() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const auto& entry) { return !entry.second.ended; });
}

std::vector<RankGroup::Rank*> RankGroup::Going() {
  const bool all = !AnyLives();
  std::vector<Rank*> going;
  for (auto& [number, rank] : ranks_) {
    if (!rank.swept() && (all || rank.stopping)) going.push_back(&rank);
  }
  return going;
}

void RankGroup::Depart(absl::Time now) {
  const std::vector<Rank*> going = Going();
  const bool ended = std::all_of(going.begin(), going.end(),
                                 [](const Rank* rank) { return rank->ended; });
  if (going.empty() || !ended) return;
  const bool killed = std::all_of(
      going.begin(), going.end(),
      [](const Rank* rank) { return rank->killed || !rank->stopping; });
  if (phase_ == Phase::kRunning) phase_ = Phase::kLeaving;
  if (phase_ == Phase::kLeaving && killed) {
    phase_ = Phase::kSweeping;
  } else if (phase_ == Phase::kLeaving && leavers_living_ == 0) {
    // Ranks that were told to stop have their grace, even if only their shell
    // has ended so far. Processes of other ranks get none.
    if (!AwaitLeavers(going)) phase_ = Phase::kSweeping;
  }
  if (phase_ == Phase::kSweeping &&
      (sweep_at_ == absl::InfiniteFuture() || now >= sweep_at_)) {
    SweepOnce(going, now);
  }
}

// Watches the living processes of the groups that still have their grace.
// False: there are none, or this kernel cannot watch them.
bool RankGroup::AwaitLeavers(const std::vector<Rank*>& going) {
  DropLeavers();
  std::set<pid_t> groups;
  for (const Rank* rank : going) {
    if (rank->stopping && !rank->killed) groups.insert(rank->process.pid);
  }
  for (const FoundProcess& found : FindKin(KinOf(going))) {
    if (!groups.contains(found.group)) continue;
    if (leavers_.size() >= kLeaversMost) break;
    Fd pidfd(syscall(SYS_pidfd_open, found.pid, 0));
    if (!pidfd.open() || StartTicks(found.pid) != found.start_ticks ||
        !house_.poller.Add(pidfd.get(), leavers_.size() * 4 + kLeaver)) {
      continue;
    }
    leavers_.push_back(std::move(pidfd));
  }
  leavers_living_ = leavers_.size();
  return leavers_living_ > 0;
}

void RankGroup::DropLeavers() {
  for (const Fd& leaver : leavers_) house_.poller.Remove(leaver.get());
  leavers_.clear();
  leavers_living_ = 0;
}

// The signs that identify these ranks and no other living ones.
Kin RankGroup::KinOf(const std::vector<Rank*>& ranks) const {
  Kin kin;
  const auto left = static_cast<size_t>(
      std::count_if(ranks_.begin(), ranks_.end(),
                    [](const auto& entry) { return !entry.second.swept(); }));
  if (left == ranks.size()) {
    kin.markers.push_back(house_.options.marker);
    kin.reparented = house_.options.subreaper;
  }
  for (const Rank* rank : ranks) {
    kin.sessions.push_back({rank->process.pid, rank->process.start_ticks});
    kin.processes.insert(kin.processes.end(), rank->detached.begin(),
                         rank->detached.end());
    if (rank->cgroup) kin.cgroups.push_back(rank->cgroup->folder());
    if (!rank->command.marker.empty()) {
      kin.markers.push_back(rank->command.marker);
    }
  }
  kin.spared.push_back(house_.guard.pid());
  return kin;
}

void RankGroup::SweepOnce(const std::vector<Rank*>& going, absl::Time now) {
  DropLeavers();
  SweepResult result = Sweep(KinOf(going), kSweepPatience);
  const std::vector<FoundProcess>& alive =
      result.left.empty() ? result.denied : result.left;
  if (!alive.empty() && !std::exchange(warned_left_, true)) {
    std::vector<pid_t> named;
    for (const FoundProcess& process : alive) named.push_back(process.pid);
    const size_t count = named.size();
    if (named.size() > kNamedMost) named.resize(kNamedMost);
    Warn(absl::StrCat(
        count, " process(es) of generation ", going.front()->life.generation,
        " ",
        result.left.empty()
            ? "belong to another user and cannot be ended by this one"
            : "did not end by SIGKILL yet; a device or file system may hold "
              "them",
        "; look at: ps -o pid,stat,wchan,cmd -p ", absl::StrJoin(named, ",")));
  }
  if (!result.left.empty()) {
    // Not gone: they may still hold the GPUs.
    sweep_at_ = now + kSweepPatience + kBetweenSweeps;
    return;
  }
  phase_ = Phase::kRunning;
  sweep_at_ = absl::InfiniteFuture();
  warned_left_ = false;
  house_.guard.Forget(KinOf(going));
  for (Rank* rank : going) {
    Settle(*rank, now);
    rank->written_by = now + kWritingMost;
  }
  LookForDetached(now);
}

std::vector<RankGroup::Rank*> RankGroup::Unswept() {
  std::vector<Rank*> unswept;
  for (auto& [number, rank] : ranks_) {
    if (!rank.swept()) unswept.push_back(&rank);
  }
  return unswept;
}

void RankGroup::LookForDetached(absl::Time now) {
  look_at_ = now + kBetweenLooks;
  const std::vector<Rank*> ranks = Unswept();
  std::vector<Kin> kins = {KinOf(ranks)};
  for (Rank* rank : ranks) {
    kins.push_back(
        {.sessions = {{rank->process.pid, rank->process.start_ticks}},
         .processes = rank->detached,
         .spared = {house_.guard.pid()}});
  }
  Look look = LookFor(kins);
  // Processes in a rank's session can be found by it at any time.
  std::set<pid_t> sessions;
  for (const Rank* rank : ranks) sessions.insert(rank->process.pid);
  for (std::vector<FoundProcess>& found : look.found) {
    std::erase_if(found, [&](const FoundProcess& process) {
      return sessions.contains(process.session);
    });
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    ranks[i]->detached = std::move(look.found[i + 1]);
  }
  house_.guard.SetProcesses(std::move(look.found[0]));
  ReapOrphans(look.ended_children);
}

void RankGroup::ReapOrphans(const std::vector<pid_t>& ended) {
  std::set<pid_t> own = {house_.guard.pid()};
  for (const Rank* rank : Unswept()) own.insert(rank->process.pid);
  for (const pid_t pid : ended) {
    if (!own.contains(pid)) Reap(pid);
  }
}

// Called after the sweep: reads its last output, reaps it, removes its cgroup.
void RankGroup::Settle(Rank& rank, absl::Time now) {
  for (RankPipe* stream : {rank.out.get(), rank.err.get()}) {
    if (stream == nullptr) continue;
    stream->Drain(now);
    CloseStream(*stream);
  }
  if (rank.watch) house_.poller.Remove(rank.watch->fd());
  Reap(rank.process.pid);
  if (rank.cgroup && !RemoveCgroup(rank.cgroup->folder())) {
    Warn(absl::StrCat("the cgroup ", rank.cgroup->folder(),
                      " could not be removed; it is empty of ranks"));
  }
}

void RankGroup::TellGone(absl::Time now) {
  RanksGone gone;
  const bool written = house_.writer.empty();
  for (auto at = ranks_.begin(); at != ranks_.end();) {
    const Rank& rank = at->second;
    if (rank.swept() && (written || now >= *rank.written_by)) {
      gone.ranks.push_back(rank.life);
      at = ranks_.erase(at);
    } else {
      ++at;
    }
  }
  if (!gone.ranks.empty()) house_.callbacks.gone(std::move(gone));
}

}  // namespace rollcall
