#include "client/agent/rank_group.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/agent/error_file.h"
#include "client/agent/sweep.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr absl::Duration kSweepPatience = absl::Milliseconds(500);
constexpr absl::Duration kBetweenSweeps = absl::Seconds(1);
// How long a terminal that is held may hold up the next generation.
constexpr absl::Duration kWritingMost = absl::Seconds(2);
constexpr size_t kLeaversMost = 64;
constexpr size_t kNamedMost = 8;

}  // namespace

RankGroup::RankGroup(const House& house, uint64_t generation)
    : house_(house),
      generation_(generation),
      stdout_(OutputTarget::Standing(house.options.output_to_stderr ? 2 : 1)),
      stderr_(OutputTarget::Standing(2)) {}

absl::StatusOr<std::unique_ptr<RankGroup>> RankGroup::Start(
    const House& house, uint64_t generation,
    const std::vector<RankCommand>& commands) {
  std::unique_ptr<RankGroup> group(new RankGroup(house, generation));
  group->cgroup_ = RankCgroup::Make(
      absl::StrCat("rollcall-", getpid(), "-gen-", generation));
  if (const absl::Status status = group->ForkAll(commands); !status.ok()) {
    group->Abandon();
    return status;
  }
  if (group->cgroup_) house.guard.AddCgroup(group->cgroup_->folder());
  for (const Rank& rank : group->ranks_) {
    house.guard.AddSession({rank.process.pid, rank.process.start_ticks});
  }
  for (Rank& rank : group->ranks_) Release(rank.process);
  return group;
}

absl::Status RankGroup::ForkAll(const std::vector<RankCommand>& commands) {
  if (commands.size() > Limits::ranks_per_node_max) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a node has at most ", Limits::ranks_per_node_max, " ranks and got ",
        commands.size(), "; lower --nproc-per-node"));
  }
  ranks_.reserve(commands.size());
  for (const RankCommand& command : commands) {
    absl::StatusOr<ForkedRank> forked = ForkRank(
        command.argv, command.environment, cgroup_ ? cgroup_->entrance() : -1);
    if (!forked.ok()) return forked.status();
    Rank& rank = ranks_.emplace_back();
    rank.command = command;
    rank.process = *std::move(forked);
    ++living_;
    if (const auto status = Watch(rank, ranks_.size() - 1); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status RankGroup::Watch(Rank& rank, uint64_t which) {
  rank.watch = std::make_unique<ExitWatch>(rank.process.pid);
  rank.out = MakeStream(rank.command, std::move(rank.process.out), false);
  rank.err = MakeStream(rank.command, std::move(rank.process.err), true);
  if (rank.watch->fd() < 0 ||
      !house_.poller.Add(rank.watch->fd(), which * 4 + kExit) ||
      !house_.poller.Add(rank.out->fd(), which * 4 + kOut) ||
      !house_.poller.Add(rank.err->fd(), which * 4 + kErr)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no descriptor is left to watch rank ", rank.command.rank,
                     "; raise ulimit -n"));
  }
  return absl::OkStatus();
}

std::unique_ptr<RankStream> RankGroup::MakeStream(const RankCommand& command,
                                                  Fd pipe, bool is_err) {
  std::shared_ptr<OutputTarget> log;
  if (!house_.options.log_dir.empty()) {
    log = OutputTarget::File(absl::StrCat(house_.options.log_dir, "/gen-",
                                          generation_, "/rank-", command.rank,
                                          is_err ? ".err" : ".out"));
  }
  return std::make_unique<RankStream>(
      std::move(pipe),
      absl::StrCat("[", house_.options.node, "/", command.rank, "] "),
      house_.writer, is_err ? stderr_ : stdout_, std::move(log));
}

// A start that failed halfway: nobody has been let go yet.
void RankGroup::Abandon() {
  for (Rank& rank : ranks_) rank.process.gate.Close();
  for (Rank& rank : ranks_) kill(rank.process.pid, SIGKILL);
  for (Rank& rank : ranks_) PeekExit(rank.process.pid);
}

RankGroup::~RankGroup() {
  if (phase_ == Phase::kGone) return;
  SignalGroups(SIGKILL, true);
  Sweep(TheirKin(), kSweepPatience);
  Settle(absl::InfinitePast());
}

void RankGroup::Stop(absl::Duration grace, absl::Time now) {
  kill_at_ = std::min(kill_at_, now + grace);
  if (std::exchange(stopping_, true)) return;
  SignalGroups(SIGTERM, true);
  // One that is stopped would take its SIGTERM only after its grace.
  SignalGroups(SIGCONT, true);
}

void RankGroup::Signal(int signal) { SignalGroups(signal, false); }

void RankGroup::SignalGroups(int signal, bool ended_too) {
  if (phase_ >= Phase::kWriting) return;  // Reaped: the numbers are not ours.
  for (const Rank& rank : ranks_) {
    if (rank.ended && !ended_too) continue;
    // One that has only just been forked does not lead a group yet.
    if (kill(-rank.process.pid, signal) != 0 && errno == ESRCH) {
      kill(rank.process.pid, signal);
    }
  }
}

void RankGroup::OnReadable(uint64_t token, absl::Time now) {
  const uint64_t which = token / 4;
  const Kind kind = static_cast<Kind>(token % 4);
  if (kind == kLeaver) {
    if (which >= leavers_.size() || !leavers_[which].open()) return;
    house_.poller.Remove(leavers_[which].get());
    leavers_[which].Close();
    --leavers_living_;
    return;
  }
  if (which >= ranks_.size()) return;
  Rank& rank = ranks_[which];
  if (kind == kExit) OnExit(rank, now);
  if (kind == kOut) ReadStream(*rank.out, now);
  if (kind == kErr) ReadStream(*rank.err, now);
}

void RankGroup::ReadStream(RankStream& stream, absl::Time now) {
  if (stream.fd() >= 0 && !stream.Read(now)) CloseStream(stream);
}

void RankGroup::CloseStream(RankStream& stream) {
  house_.poller.Remove(stream.fd());
  stream.Close();
}

void RankGroup::OnExit(Rank& rank, absl::Time now) {
  if (std::exchange(rank.ended, true)) return;
  --living_;
  house_.poller.Remove(rank.watch->fd());
  ExitStatus status = PeekExit(rank.process.pid);
  rank.out->Drain(now);
  rank.err->Drain(now);
  if (const int error = ExecError(rank.process); error != 0) {
    const ExecFailure failure =
        ExplainExecError(error, rank.command.argv, rank.command.environment);
    status = {failure.code, 0};
    rank.err->Say(failure.reason, now);
  }
  RankEnded ended;
  ended.generation = generation_;
  ended.local_rank = rank.command.local_rank;
  ended.code = status.code;
  ended.signal = status.signal;
  ended.stderr_tail = rank.err->TailText();
  if (status.code != 0 || status.signal != 0) {
    ended.error_file = ReadErrorFile(rank.command.error_file);
  }
  house_.callbacks.ended(std::move(ended));
}

void RankGroup::SetPaused(bool paused) {
  paused_ = paused;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    for (const Kind kind : {kOut, kErr}) {
      const int fd = (kind == kOut ? ranks_[i].out : ranks_[i].err)->fd();
      if (fd < 0) continue;
      if (paused) {
        house_.poller.Remove(fd);
      } else {
        house_.poller.Add(fd, i * 4 + kind);
      }
    }
  }
}

void RankGroup::Advance(absl::Time now) {
  if (const bool full = house_.writer.full(); full != paused_) SetPaused(full);
  if (now >= kill_at_ && !killed_) {
    killed_ = true;
    SignalGroups(SIGKILL, true);
  }
  if (phase_ == Phase::kRunning && living_ == 0) phase_ = Phase::kLeaving;
  if (phase_ == Phase::kLeaving && leavers_living_ == 0) {
    // Who was told to stop has its grace, also where only its shell has ended
    // so far. Who was not has been left behind.
    if (killed_ || !stopping_ || !AwaitLeavers()) phase_ = Phase::kSweeping;
  } else if (phase_ == Phase::kLeaving && killed_) {
    phase_ = Phase::kSweeping;
  }
  if (phase_ == Phase::kSweeping &&
      (sweep_at_ == absl::InfiniteFuture() || now >= sweep_at_)) {
    SweepOnce(now);
  }
  if (phase_ == Phase::kWriting &&
      (house_.writer.empty() || now >= written_by_)) {
    phase_ = Phase::kGone;
  }
}

absl::Time RankGroup::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  if (!killed_ && phase_ <= Phase::kLeaving) next = std::min(next, kill_at_);
  if (phase_ == Phase::kSweeping) next = std::min(next, sweep_at_);
  if (phase_ == Phase::kWriting) next = std::min(next, written_by_);
  return next;
}

// Watches what still lives in the ranks' process groups. False: nothing does,
// or this kernel cannot watch it.
bool RankGroup::AwaitLeavers() {
  DropLeavers();
  std::set<pid_t> groups;
  for (const Rank& rank : ranks_) groups.insert(rank.process.pid);
  for (const FoundProcess& found : FindKin(TheirKin())) {
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

Kin RankGroup::TheirKin() const {
  Kin kin;
  kin.marker = house_.options.marker;
  for (const Rank& rank : ranks_) {
    kin.sessions.push_back({rank.process.pid, rank.process.start_ticks});
  }
  if (cgroup_) kin.cgroups.push_back(cgroup_->folder());
  kin.spared.push_back(house_.guard.pid());
  return kin;
}

void RankGroup::SweepOnce(absl::Time now) {
  DropLeavers();
  SweepResult result = Sweep(TheirKin(), kSweepPatience);
  std::vector<pid_t> named = result.left.empty() ? result.denied : result.left;
  if (!named.empty() && !std::exchange(warned_left_, true)) {
    const size_t count = named.size();
    if (named.size() > kNamedMost) named.resize(kNamedMost);
    Warn(absl::StrCat(
        count, " process(es) of generation ", generation_, " ",
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
  Settle(now);
  phase_ = Phase::kWriting;
  written_by_ = now + kWritingMost;
}

// After the sweep: what they said last, their numbers, their cgroup.
void RankGroup::Settle(absl::Time now) {
  for (Rank& rank : ranks_) {
    for (RankStream* stream : {rank.out.get(), rank.err.get()}) {
      if (stream == nullptr) continue;
      stream->Drain(now);
      CloseStream(*stream);
    }
    if (rank.watch) house_.poller.Remove(rank.watch->fd());
    Reap(rank.process.pid);
  }
  if (cgroup_ && !RemoveCgroup(cgroup_->folder())) {
    Warn(absl::StrCat("the cgroup ", cgroup_->folder(),
                      " could not be removed; it is empty of ranks"));
  }
  house_.guard.ForgetAll();
}

void RankGroup::Warn(const std::string& text) {
  house_.writer.Write(stderr_, absl::StrCat("rollcall: ", text, "\n"));
}

}  // namespace rollcall
