#include "client/agent/processes/rank_group.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/agent/processes/output/error_file.h"
#include "client/agent/processes/output/missing_library.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// The exit code of the dynamic loader after an error, and of a shell that does
// not find a command.
constexpr int kExitOfLoader = 127;
// The pause between checks of a rank that is held by a tracer.
constexpr absl::Duration kBetweenPeeks = absl::Milliseconds(100);
constexpr absl::Duration kHeldQuietly = absl::Seconds(2);

}  // namespace

RankGroup::RankGroup(const Dependencies& dependencies)
    : dependencies_(dependencies),
      stdout_(
          OutputTarget::Standing(dependencies.options.output_to_stderr ? 2 : 1,
                                 dependencies.options.live_bell)),
      stderr_(OutputTarget::Standing(2, dependencies.options.live_bell)) {
  const std::string& log_dir = dependencies.options.log_dir;
  if (log_dir.empty()) return;
  logs_ = std::make_shared<LogFolder>(log_dir);
  // Opens the folder before any rank runs, because a rank could replace it.
  dependencies.writer.Write(OutputTarget::Folder(logs_), "");
}

// --- Starting ----------------------------------------------------------------

absl::Status RankGroup::Start(uint64_t generation,
                              const std::vector<RankCommand>& commands) {
  if (ranks_.size() + commands.size() > Limits::ranks_per_node_max) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a node has at most ", Limits::ranks_per_node_max, " ranks and got ",
        ranks_.size() + commands.size(), "; lower --nproc-per-node"));
  }
  for (const RankCommand& command : commands) {
    for (const auto& [number, rank] : ranks_) {
      if (rank.incarnation.local_rank != command.local_rank) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("generation ", generation, " cannot start: local rank ",
                       command.local_rank, " of generation ",
                       rank.incarnation.generation, " still lives here"));
    }
  }
  Ranks forked;
  for (const RankCommand& command : commands) {
    if (absl::Status s = Fork(generation, command, forked); !s.ok()) {
      Abandon(forked);
      return s;
    }
  }
  for (const auto& [number, rank] : forked) {
    if (rank.cgroup) dependencies_.guard.AddCgroup(rank.cgroup->folder());
    dependencies_.guard.AddSession(
        {rank.process.pid, rank.process.start_ticks});
  }
  for (auto& [number, rank] : forked) Release(rank.process);
  ranks_.merge(forked);
  return absl::OkStatus();
}

absl::Status RankGroup::Fork(uint64_t generation, const RankCommand& command,
                             Ranks& forked) {
  Rank rank;
  rank.incarnation = {generation, command.local_rank};
  rank.command = command;
  rank.cgroup = RankCgroup::Make(absl::StrCat(
      "rollcall-", getpid(), "-gen-", generation, "-", command.local_rank));
  rank.oom_watch =
      OomWatch::ForProcessIn(rank.cgroup ? rank.cgroup->folder() : "");
  absl::StatusOr<ForkedRank> process =
      ForkRank(command.argv, command.environment,
               rank.cgroup ? rank.cgroup->entrance() : -1, RankUser());
  if (!process.ok()) {
    if (rank.cgroup) RemoveCgroup(rank.cgroup->folder());
    return process.status();
  }
  rank.process = *std::move(process);
  const uint64_t number = ++numbers_;
  return Watch(number, forked.emplace(number, std::move(rank)).first->second);
}

absl::Status RankGroup::Watch(uint64_t number, Rank& rank) {
  rank.watch = std::make_unique<ExitWatch>(rank.process.pid);
  rank.out = MakeStream(rank, std::move(rank.process.out), false);
  rank.err = MakeStream(rank, std::move(rank.process.err), true);
  if (rank.watch->fd() < 0 ||
      !dependencies_.poller.Add(rank.watch->fd(), number * 4 + kExit) ||
      (!paused_ &&
       (!dependencies_.poller.Add(rank.out->fd(), number * 4 + kOut) ||
        !dependencies_.poller.Add(rank.err->fd(), number * 4 + kErr)))) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no descriptor is left to watch rank ", rank.command.rank,
                     "; raise ulimit -n"));
  }
  return absl::OkStatus();
}

std::unique_ptr<RankPipe> RankGroup::MakeStream(const Rank& rank, Fd pipe,
                                                bool is_err) {
  const std::string& node = dependencies_.options.node;
  const std::string& label = rank.command.label;
  std::shared_ptr<OutputTarget> log;
  if (logs_ != nullptr) {
    log = OutputTarget::File(
        logs_,
        label.empty() ? absl::StrCat("gen-", rank.incarnation.generation)
                      : label,
        absl::StrCat(
            label.empty() ? absl::StrCat("rank-", rank.command.rank) : node,
            is_err ? ".err" : ".out"));
  }
  return std::make_unique<RankPipe>(
      std::move(pipe),
      absl::StrCat("[", node, "/",
                   label.empty() ? absl::StrCat(rank.command.rank) : label,
                   "] "),
      dependencies_.writer, is_err ? stderr_ : stdout_, std::move(log));
}

// Undoes a start that failed halfway; no rank has been released yet.
void RankGroup::Abandon(Ranks& forked) {
  const absl::Time now = absl::InfinitePast();
  for (auto& [number, rank] : forked) rank.process.gate.Close();
  for (auto& [number, rank] : forked) kill(rank.process.pid, SIGKILL);
  for (auto& [number, rank] : forked) {
    PeekExit(rank.process.pid);
    Settle(rank, now);
  }
}

RankGroup::~RankGroup() {
  std::vector<Rank*> left;
  for (auto& [number, rank] : ranks_) {
    if (rank.swept()) continue;
    SignalGroup(rank, SIGKILL);
    left.push_back(&rank);
  }
  if (left.empty()) return;
  Sweep(MatcherOf(left), absl::Milliseconds(500));
  for (Rank* rank : left) Settle(*rank, absl::InfinitePast());
}

// --- While they run ----------------------------------------------------------

RankGroup::Rank* RankGroup::Find(const RankIncarnation& incarnation) {
  for (auto& [number, rank] : ranks_) {
    if (rank.incarnation == incarnation) return &rank;
  }
  return nullptr;
}

void RankGroup::Stop(const std::vector<RankIncarnation>& ranks,
                     absl::Duration grace, absl::Time now) {
  RanksGone gone;
  for (const RankIncarnation& incarnation : ranks) {
    Rank* rank = Find(incarnation);
    if (rank == nullptr) {
      gone.ranks.push_back(incarnation);
      continue;
    }
    rank->kill_at = std::min(rank->kill_at, now + grace);
    if (std::exchange(rank->stopping, true) || rank->swept()) continue;
    SignalGroup(*rank, SIGTERM);
    // A stopped process would not handle SIGTERM before its grace period is
    // over.
    SignalGroup(*rank, SIGCONT);
    // The set of ranks that are to go has grown.
    phase_ = Phase::kRunning;
    sweep_at_ = absl::InfiniteFuture();
  }
  if (!gone.ranks.empty()) dependencies_.callbacks.gone(std::move(gone));
}

void RankGroup::Signal(const std::vector<RankIncarnation>& ranks, int signal) {
  for (const RankIncarnation& incarnation : ranks) {
    const Rank* rank = Find(incarnation);
    if (rank != nullptr && !rank->ended) SignalGroup(*rank, signal);
  }
}

void RankGroup::Rename(uint32_t local_rank, uint32_t rank) {
  for (auto& [number, known] : ranks_) {
    if (known.incarnation.local_rank != local_rank) continue;
    const std::string prefix =
        absl::StrCat("[", dependencies_.options.node, "/", rank, "] ");
    known.out->SetPrefix(prefix);
    known.err->SetPrefix(prefix);
  }
}

RankSession RankGroup::SessionOf(const RankIncarnation& incarnation) {
  const Rank* rank = Find(incarnation);
  if (rank == nullptr || rank->swept()) return {};
  return {rank->process.pid, rank->process.start_ticks};
}

void RankGroup::Say(const RankIncarnation& incarnation, const std::string& text,
                    absl::Time now) {
  Rank* rank = Find(incarnation);
  if (rank == nullptr) return;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    rank->err->Say(std::string(line), now);
  }
}

void RankGroup::SignalGroup(const Rank& rank, int signal) {
  if (rank.swept()) return;  // Reaped: the pid may be reused.
  // A process that was just forked does not lead a group yet.
  if (kill(-rank.process.pid, signal) != 0 && errno == ESRCH) {
    kill(rank.process.pid, signal);
  }
}

void RankGroup::OnReadable(uint64_t token, absl::Time now) {
  const uint64_t number = token / 4;
  const Kind kind = static_cast<Kind>(token % 4);
  if (kind == kLeaver) {
    if (number >= leavers_.size() || !leavers_[number].open()) return;
    dependencies_.poller.Remove(leavers_[number].get());
    leavers_[number].Close();
    --leavers_living_;
    return;
  }
  const auto at = ranks_.find(number);
  if (at == ranks_.end()) return;
  Rank& rank = at->second;
  if (kind == kExit) OnExit(rank, now);
  if (kind == kOut) ReadStream(*rank.out, now);
  if (kind == kErr) ReadStream(*rank.err, now);
}

void RankGroup::ReadStream(RankPipe& stream, absl::Time now) {
  if (stream.fd() >= 0 && !stream.Read(now)) CloseStream(stream);
}

void RankGroup::CloseStream(RankPipe& stream) {
  dependencies_.poller.Remove(stream.fd());
  stream.Close();
}

void RankGroup::OnExit(Rank& rank, absl::Time now) {
  if (rank.ended) return;
  const std::optional<ExitStatus> peeked = TryPeekExit(rank.process.pid);
  if (!peeked) return AwaitTracer(rank, now);
  ExitStatus status = *peeked;
  rank.ended = true;
  rank.peek_at = absl::InfiniteFuture();
  dependencies_.poller.Remove(rank.watch->fd());
  rank.out->Drain(now);
  rank.err->Drain(now);
  if (const int error = ExecError(rank.process); error != 0) {
    const ExecFailure failure = ExplainExecError(
        error, rank.command.argv, rank.command.environment, RankUser());
    status = {failure.code, 0};
    rank.err->Say(failure.reason, now);
  } else if (status.code == kExitOfLoader) {
    const std::string advice = MissingLibraryAdvice(rank.err->TailText());
    if (!advice.empty()) rank.err->Say(advice, now);
  }
  RankEnded ended;
  ended.generation = rank.incarnation.generation;
  ended.local_rank = rank.incarnation.local_rank;
  ended.code = status.code;
  ended.signal = status.signal;
  ended.stderr_tail = rank.err->TailText();
  ended.peak_bytes = PeakBytesOf(rank.process.pid);
  if (status.code != 0 || status.signal != 0) {
    ErrorReport report;
    // Read as the rank's user, who may have put a link there.
    if (const AsUser as(RankUser()); as.ok()) {
      report = ReadErrorFile(rank.command.error_file);
    }
    ended.error_file = std::move(report.message);
    ended.permanent = report.permanent;
    ended.out_of_memory = ExplainKill(rank, status, ended.peak_bytes);
  }
  dependencies_.callbacks.ended(std::move(ended));
}

// Why the kernel killed the rank for memory; empty: it did not.
std::string RankGroup::ExplainKill(const Rank& rank, const ExitStatus& status,
                                   uint64_t peak_bytes) {
  // A shell exits with 137 when its last command was killed.
  if (status.signal != SIGKILL && status.code != 128 + SIGKILL) return "";
  if (rank.killed) return "";
  const std::string text = rank.oom_watch.Explain(peak_bytes);
  if (text.empty()) return "";
  const std::string folder = rank.oom_watch.folder();
  for (auto& [number, other] : ranks_) other.oom_watch.Explained(folder);
  return text;
}

// The tracer is told of the end first. No other process can wait for the rank
// until the tracer has waited for it; most tracers do so at once.
void RankGroup::AwaitTracer(Rank& rank, absl::Time now) {
  // The descriptor stays readable meanwhile, so the rank is checked by time.
  dependencies_.poller.Remove(rank.watch->fd());
  rank.held_since = std::min(rank.held_since, now);
  rank.peek_at = now + kBetweenPeeks;
  if (rank.told_held || now - rank.held_since < kHeldQuietly) return;
  const pid_t tracer = TracerOf(rank.process.pid);
  if (tracer == 0) return;
  rank.told_held = true;
  Warn(absl::StrCat(rank.command.label.empty()
                        ? absl::StrCat("rank ", rank.command.rank)
                        : rank.command.label,
                    " has ended, but process ", tracer,
                    " traces it and has not let go; end that process"));
}

void RankGroup::SetPaused(bool paused) {
  paused_ = paused;
  for (auto& [number, rank] : ranks_) {
    for (const Kind kind : {kOut, kErr}) {
      const int fd = (kind == kOut ? rank.out : rank.err)->fd();
      if (fd < 0) continue;
      if (paused) {
        dependencies_.poller.Remove(fd);
      } else {
        dependencies_.poller.Add(fd, number * 4 + kind);
      }
    }
  }
}

void RankGroup::Advance(absl::Time now) {
  if (const bool full = dependencies_.writer.full(); full != paused_)
    SetPaused(full);
  for (auto& [number, rank] : ranks_) {
    if (now < rank.kill_at || std::exchange(rank.killed, true)) continue;
    SignalGroup(rank, SIGKILL);
  }
  for (auto& [number, rank] : ranks_) {
    if (now >= rank.peek_at) OnExit(rank, now);
  }
  if (now >= look_at_ && !Unswept().empty()) LookForDetached(now);
  Depart(now);
  TellGone(now);
}

absl::Time RankGroup::NextDeadline() const {
  absl::Time next =
      phase_ == Phase::kSweeping ? sweep_at_ : absl::InfiniteFuture();
  for (const auto& [number, rank] : ranks_) {
    if (rank.swept()) {
      next = std::min(next, *rank.written_by);
    } else {
      next = std::min({next, look_at_, rank.peek_at});
      if (!rank.killed) next = std::min(next, rank.kill_at);
    }
  }
  return next;
}

void RankGroup::Warn(const std::string& text) {
  dependencies_.writer.Write(stderr_, absl::StrCat("rollcall: ", text, "\n"));
}

}  // namespace rollcall
