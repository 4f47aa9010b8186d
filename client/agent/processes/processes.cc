#include "client/agent/processes/processes.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <future>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/hosts/hosts_file.h"
#include "client/agent/processes/guard.h"
#include "client/agent/processes/output/output.h"
#include "client/agent/processes/rank_group.h"
#include "daemon/base/clock.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/files/poller.h"
#include "daemon/base/inbox.h"
#include "daemon/base/mutex.h"

namespace rollcall {
namespace {

// Tokens of the keeper's own descriptors; the tokens of ranks are far smaller.
constexpr uint64_t kWakeToken = UINT64_MAX;
constexpr uint64_t kGuardToken = UINT64_MAX - 1;

// The pauses before a new guard is started, if guards die repeatedly.
constexpr absl::Duration kGuardPauseFirst = absl::Milliseconds(50);
constexpr absl::Duration kGuardPauseMax = absl::Seconds(5);

void Ring(const Fd& bell) {
  const uint64_t one = 1;
  (void)!write(bell.get(), &one, sizeof one);
}

void Silence(const Fd& bell) {
  uint64_t rung = 0;
  (void)!read(bell.get(), &rung, sizeof rung);
}

}  // namespace

// The thread that owns all ranks: it forks, waits for and stops them. Other
// threads send it orders.
class Processes::Keeper {
 public:
  using Order = std::function<void(Keeper&)>;

  Keeper(ProcessesOptions options, Callbacks callbacks);
  ~Keeper();

  void Give(Order order) {
    orders_.PostAlways(std::move(order));
    Ring(*bell_);
  }

  absl::Status Start(uint64_t generation,
                     const std::vector<RankCommand>& ranks);
  RankGroup& group() { return *group_; }
  void Quit() { quitting_ = true; }

 private:
  void Run();
  void Advance();
  absl::Status CallGuard();
  void ReapGuard();

  const ProcessesOptions options_;
  const Callbacks callbacks_;
  // Shared with the writer's thread, which may outlive this object.
  const std::shared_ptr<Fd> bell_;
  Inbox<Order> orders_;
  OutputWriter writer_;

  // Used only by the keeper thread.
  Poller poller_;
  Guard guard_;
  std::unique_ptr<RankGroup> group_;
  bool quitting_ = false;
  absl::Duration guard_pause_ = kGuardPauseFirst;
  absl::Time guard_started_ = absl::InfinitePast();
  absl::Time guard_due_ = absl::InfinitePast();

  std::thread thread_;
};

Processes::Keeper::Keeper(ProcessesOptions options, Callbacks callbacks)
    : options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      bell_(std::make_shared<Fd>(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
      orders_(/*most=*/64),
      writer_([bell = bell_] { Ring(*bell); }),
      guard_(options_.self, options_.marker,
             {options_.hosts_file, ThisOwner(options_.node)}),
      group_(std::make_unique<RankGroup>(RankGroup::Dependencies{
          options_, callbacks_, poller_, writer_, guard_})) {
  thread_ = std::thread([this] { Run(); });
}

Processes::Keeper::~Keeper() {
  Give([](Keeper& keeper) { keeper.Quit(); });
  thread_.join();
}

void Processes::Keeper::Run() {
  // Other threads handle signals.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  poller_.Add(bell_->get(), kWakeToken);
  while (!quitting_) {
    Advance();
    const absl::Time now = MonotonicNow();
    const absl::Time next = std::min(guard_due_, group_->NextDeadline());
    for (const uint64_t token : poller_.Wait(next - now)) {
      if (token == kWakeToken) {
        Silence(*bell_);
      } else if (token == kGuardToken) {
        ReapGuard();
      } else {
        group_->OnReadable(token, MonotonicNow());
      }
    }
    for (Order& order : orders_.Take(absl::ZeroDuration())) order(*this);
  }
  group_.reset();
  poller_.Remove(guard_.watched());
}

void Processes::Keeper::Advance() {
  const absl::Time now = MonotonicNow();
  if (now >= guard_due_) {
    const absl::Status status = CallGuard();
    if (!status.ok()) {
      writer_.Write(
          OutputTarget::Standing(2, options_.live_bell),
          absl::StrCat("rollcall: ", status.message(), "; trying again\n"));
    }
  }
  group_->Advance(now);
}

// Starts a guard, or sets the time for the next attempt.
absl::Status Processes::Keeper::CallGuard() {
  const absl::Time now = MonotonicNow();
  const absl::Status status = guard_.Start();
  guard_started_ = now;
  guard_due_ = absl::InfiniteFuture();
  if (status.ok()) {
    poller_.Add(guard_.watched(), kGuardToken);
  } else {
    guard_due_ = now + guard_pause_;
    guard_pause_ = std::min(guard_pause_ * 2, kGuardPauseMax);
  }
  return status;
}

void Processes::Keeper::ReapGuard() {
  poller_.Remove(guard_.watched());
  guard_.End();
  const absl::Time now = MonotonicNow();
  if (now - guard_started_ >= kGuardPauseMax) guard_pause_ = kGuardPauseFirst;
  guard_due_ = std::max(now, guard_started_ + guard_pause_);
  guard_pause_ = std::min(guard_pause_ * 2, kGuardPauseMax);
}

absl::Status Processes::Keeper::Start(uint64_t generation,
                                      const std::vector<RankCommand>& ranks) {
  // No rank runs without a guard.
  if (!guard_.running()) {
    if (const absl::Status status = CallGuard(); !status.ok()) return status;
  }
  return group_->Start(generation, ranks);
}

bool BecomeSubreaper() {
  siginfo_t info;
  const bool has_children =
      waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
  return getpid() != 1 && !has_children &&
         prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
}

Processes::Processes(ProcessesOptions options, Callbacks callbacks) {
  // Some parents leave SIGCHLD ignored; then the kernel drops the ranks' exit
  // codes.
  struct sigaction action {};
  if (sigaction(SIGCHLD, nullptr, &action) == 0 &&
      (action.sa_handler == SIG_IGN || (action.sa_flags & SA_NOCLDWAIT) != 0)) {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &standard, nullptr);
  }
  keeper_ = std::make_unique<Keeper>(std::move(options), std::move(callbacks));
}

Processes::~Processes() = default;

absl::Status Processes::Start(uint64_t generation,
                              const std::vector<RankCommand>& ranks) {
  // Shared, because the keeper may still be inside set_value when this thread
  // continues.
  const auto answer = std::make_shared<std::promise<absl::Status>>();
  keeper_->Give([answer, generation, &ranks](Keeper& keeper) {
    answer->set_value(keeper.Start(generation, ranks));
  });
  return answer->get_future().get();
}

void Processes::Stop(std::vector<RankIncarnation> ranks, absl::Duration grace) {
  keeper_->Give([ranks = std::move(ranks), grace](Keeper& keeper) {
    keeper.group().Stop(ranks, grace, MonotonicNow());
  });
}

void Processes::Signal(std::vector<RankIncarnation> ranks, int signal) {
  keeper_->Give([ranks = std::move(ranks), signal](Keeper& keeper) {
    keeper.group().Signal(ranks, signal);
  });
}

RankSession Processes::SessionOf(const RankIncarnation& incarnation) {
  // Shared as in Start.
  const auto answer = std::make_shared<std::promise<RankSession>>();
  keeper_->Give([answer, incarnation](Keeper& keeper) {
    answer->set_value(keeper.group().SessionOf(incarnation));
  });
  return answer->get_future().get();
}

void Processes::Say(RankIncarnation incarnation, std::string text) {
  keeper_->Give([incarnation, text = std::move(text)](Keeper& keeper) {
    keeper.group().Say(incarnation, text, MonotonicNow());
  });
}

void Processes::Rename(uint32_t local_rank, uint32_t rank) {
  keeper_->Give(
      [=](Keeper& keeper) { keeper.group().Rename(local_rank, rank); });
}

}  // namespace rollcall
