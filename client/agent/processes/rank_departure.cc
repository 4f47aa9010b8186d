// RankGroup: what happens to ranks from their end until their output is
// written.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/agent/processes/process_tree/sweep.h"
#include "client/agent/processes/rank_group.h"

namespace rollcall {
namespace {

constexpr absl::Duration kSweepPatience = absl::Milliseconds(500);
constexpr absl::Duration kBetweenSweeps = absl::Seconds(1);
constexpr absl::Duration kBetweenLooks = absl::Seconds(2);
// The time for which a blocked terminal may delay the next generation.
constexpr absl::Duration kWritingMax = absl::Seconds(2);
constexpr size_t kLeaversMax = 64;
constexpr size_t kNamedMax = 8;

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
    // The process groups of ranks that were told to stop keep their grace
    // period, even if only their leader (a shell) has ended. Processes of other
    // ranks get none.
    if (!AwaitLeavers(going)) phase_ = Phase::kSweeping;
  }
  if (phase_ == Phase::kSweeping &&
      (sweep_at_ == absl::InfiniteFuture() || now >= sweep_at_)) {
    SweepOnce(going, now);
  }
}

// Watches the running processes of the groups that still have their grace
// period. Returns false if there are none, or if this kernel cannot watch them.
bool RankGroup::AwaitLeavers(const std::vector<Rank*>& going) {
  DropLeavers();
  std::set<pid_t> groups;
  for (const Rank* rank : going) {
    if (rank->stopping && !rank->killed) groups.insert(rank->process.pid);
  }
  for (const FoundProcess& found : FindMatching(MatcherOf(going))) {
    if (!groups.contains(found.group)) continue;
    if (leavers_.size() >= kLeaversMax) break;
    Fd pidfd(syscall(SYS_pidfd_open, found.pid, 0));
    if (!pidfd.open() || StartTicks(found.pid) != found.start_ticks ||
        !dependencies_.poller.Add(pidfd.get(), leavers_.size() * 4 + kLeaver)) {
      continue;
    }
    leavers_.push_back(std::move(pidfd));
  }
  leavers_living_ = leavers_.size();
  return leavers_living_ > 0;
}

void RankGroup::DropLeavers() {
  for (const Fd& leaver : leavers_) dependencies_.poller.Remove(leaver.get());
  leavers_.clear();
  leavers_living_ = 0;
}

// The signs that identify these ranks and no other running ranks.
ProcessMatcher RankGroup::MatcherOf(const std::vector<Rank*>& ranks) const {
  ProcessMatcher matcher;
  const auto left = static_cast<size_t>(
      std::count_if(ranks_.begin(), ranks_.end(),
                    [](const auto& entry) { return !entry.second.swept(); }));
  if (left == ranks.size()) {
    matcher.markers.push_back(dependencies_.options.marker);
    matcher.reparented = dependencies_.options.subreaper;
  }
  for (const Rank* rank : ranks) {
    matcher.sessions.push_back({rank->process.pid, rank->process.start_ticks});
    matcher.processes.insert(matcher.processes.end(), rank->detached.begin(),
                             rank->detached.end());
    if (rank->cgroup) matcher.cgroups.push_back(rank->cgroup->folder());
    if (!rank->command.marker.empty()) {
      matcher.markers.push_back(rank->command.marker);
    }
  }
  matcher.spared.push_back(dependencies_.guard.pid());
  return matcher;
}

void RankGroup::SweepOnce(const std::vector<Rank*>& going, absl::Time now) {
  DropLeavers();
  SweepResult result = Sweep(MatcherOf(going), kSweepPatience);
  const std::vector<FoundProcess>& alive =
      result.left.empty() ? result.denied : result.left;
  if (!alive.empty() && !std::exchange(warned_left_, true)) {
    std::vector<pid_t> named;
    for (const FoundProcess& process : alive) named.push_back(process.pid);
    const size_t count = named.size();
    if (named.size() > kNamedMax) named.resize(kNamedMax);
    Warn(absl::StrCat(
        count, " process(es) of ",
        going.front()->command.label.empty()
            ? absl::StrCat("generation ", going.front()->incarnation.generation)
            : going.front()->command.label,
        " ",
        result.left.empty()
            ? "belong to another user and cannot be ended by this one"
            : "did not end by SIGKILL yet; a device or file system may hold "
              "them",
        "; look at: ps -o pid,stat,wchan,cmd -p ", absl::StrJoin(named, ",")));
  }
  if (!result.left.empty()) {
    // These processes may still hold the GPUs, so the ranks do not count as
    // gone.
    sweep_at_ = now + kSweepPatience + kBetweenSweeps;
    return;
  }
  phase_ = Phase::kRunning;
  sweep_at_ = absl::InfiniteFuture();
  warned_left_ = false;
  dependencies_.guard.Forget(MatcherOf(going));
  for (Rank* rank : going) {
    Settle(*rank, now);
    rank->written_by = now + kWritingMax;
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
  std::vector<ProcessMatcher> matchers = {MatcherOf(ranks)};
  for (Rank* rank : ranks) {
    matchers.push_back(
        {.sessions = {{rank->process.pid, rank->process.start_ticks}},
         .processes = rank->detached,
         .spared = {dependencies_.guard.pid()}});
  }
  Look look = LookFor(matchers);
  // Processes in a rank's session are left out, because the session identifies
  // them at any time.
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
  dependencies_.guard.SetProcesses(std::move(look.found[0]));
  ReapOrphans(look.ended_children);
}

void RankGroup::ReapOrphans(const std::vector<pid_t>& ended) {
  std::set<pid_t> own = {dependencies_.guard.pid()};
  for (const Rank* rank : Unswept()) own.insert(rank->process.pid);
  for (const pid_t pid : ended) {
    if (!own.contains(pid)) Reap(pid);
  }
}

// Called after the sweep: reads the rank's last output, reaps it, and removes
// its cgroup.
void RankGroup::Settle(Rank& rank, absl::Time now) {
  for (RankPipe* stream : {rank.out.get(), rank.err.get()}) {
    if (stream == nullptr) continue;
    stream->Drain(now);
    CloseStream(*stream);
  }
  if (rank.watch) dependencies_.poller.Remove(rank.watch->fd());
  Reap(rank.process.pid);
  if (rank.cgroup && !RemoveCgroup(rank.cgroup->folder())) {
    Warn(absl::StrCat("the cgroup ", rank.cgroup->folder(),
                      " could not be removed; it is empty of ranks"));
  }
}

void RankGroup::TellGone(absl::Time now) {
  RanksGone gone;
  const bool written = dependencies_.writer.empty();
  for (auto at = ranks_.begin(); at != ranks_.end();) {
    const Rank& rank = at->second;
    if (rank.swept() && (written || now >= *rank.written_by)) {
      gone.ranks.push_back(rank.incarnation);
      at = ranks_.erase(at);
    } else {
      ++at;
    }
  }
  if (!gone.ranks.empty()) dependencies_.callbacks.gone(std::move(gone));
}

}  // namespace rollcall
