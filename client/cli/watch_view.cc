#include "client/cli/watch_view.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/admin/job_history.h"
#include "client/admin/job_screen.h"
#include "client/admin/job_text.h"
#include "client/admin/terminal_screen.h"
#include "client/cli/job_lookup.h"
#include "client/cli/watch_patience.h"
#include "daemon/base/clock.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/mutex.h"
#include "daemon/base/processes/signal_pipe.h"

namespace rollcall {
namespace {

// Leases and durations are shown in seconds, so the view changes every second.
constexpr absl::Duration kTick = absl::Seconds(1);
constexpr char kQuitKey = 'q';

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

// Chooses the locale for characters in the same order as the C library.
bool ShowsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = absl::AsciiStrToLower(Variable(name));
    if (value.empty()) continue;
    return absl::StrContains(value, "utf-8") ||
           absl::StrContains(value, "utf8");
  }
  return false;
}

ScreenSize SizeNow() {
  ScreenSize size;
  size.unicode = ShowsUtf8();
  winsize window = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 0 &&
      window.ws_col > 0) {
    size.rows = window.ws_row;
    size.columns = window.ws_col;
  }
  return size;
}

// False: the terminal is gone.
bool WriteAll(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) {
      pollfd writable{STDOUT_FILENO, POLLOUT, 0};
      poll(&writable, 1, -1);
      continue;
    }
    if (wrote <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  return true;
}

// Reads keys without echo, so that typing does not write over the screen.
// Ctrl-C and Ctrl-Z still send signals.
class Keyboard {
 public:
  void Begin() {
    if (begun_ || tcgetattr(STDIN_FILENO, &before_) != 0) return;
    begun_ = true;
    termios quiet = before_;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &quiet);
  }
  void End() {
    if (!begun_) return;
    begun_ = false;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  // -1: stdin is not a terminal, or it is gone.
  int fd() const { return begun_ && !closed_ ? STDIN_FILENO : -1; }
  // Whether the user has typed q.
  bool Quits() {
    char keys[64];
    const ssize_t got = read(STDIN_FILENO, keys, sizeof(keys));
    closed_ = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
    return got > 0 && std::count(keys, keys + got, kQuitKey) > 0;
  }

 private:
  termios before_ = {};
  bool begun_ = false;
  bool closed_ = false;
};

// Stops this process until it is continued, as SIGTSTP would without a handler.
// If no shell could continue it (`ssh -t`), the kernel ignores the signal.
void StopItself() {
  struct sigaction handler = {};
  struct sigaction stops = {};
  stops.sa_handler = SIG_DFL;
  sigaction(SIGTSTP, &stops, &handler);
  raise(SIGTSTP);
  sigaction(SIGTSTP, &handler, nullptr);
}

// The latest state and the end of a watch, for a loop that polls. A slow loop
// misses states.
class WatchNews {
 public:
  void Put(v1::JobStatus status) {
    MutexLock lock(mutex_);
    status_ = std::move(status);
    Ring();
  }
  void End(absl::Status end) {
    MutexLock lock(mutex_);
    end_ = std::move(end);
    Ring();
  }
  int fd() const { return bell_.get(); }
  std::optional<v1::JobStatus> TakeStatus() {
    eventfd_t rung = 0;
    eventfd_read(bell_.get(), &rung);
    MutexLock lock(mutex_);
    return std::exchange(status_, std::nullopt);
  }
  std::optional<absl::Status> TakeEnd() {
    MutexLock lock(mutex_);
    return std::exchange(end_, std::nullopt);
  }

 private:
  void Ring() { eventfd_write(bell_.get(), 1); }

  const Fd bell_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  Mutex mutex_;
  std::optional<v1::JobStatus> status_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

class WatchView {
 public:
  WatchView(AdminClient& client, const JobAddress& address, v1::JobStatus first)
      : client_(client), address_(address) {
    Heard(std::move(first));
  }

  int Run();

 private:
  void Heard(v1::JobStatus status) {
    status_ = std::move(status);
    heard_at_ = MonotonicNow();
    history_.Heard(status_, heard_at_);
    pause_ = kWatchPauseFirst;
  }
  void Enter() {
    keyboard_.Begin();
    shown_.clear();
    if (!WriteAll(EnterScreen())) exit_code_ = 1;
  }
  void Leave() {
    keyboard_.End();
    WriteAll(LeaveScreen());
  }
  void Dial();
  void Wait();
  void OnSignal(int signal);
  void WatchEnded(absl::Status end);
  void Draw();

  AdminClient& client_;
  const JobAddress& address_;
  const bool colours_ = Variable("NO_COLOR").empty();
  SignalPipe signals_{
      {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH}};
  Keyboard keyboard_;
  JobHistory history_;
  v1::JobStatus status_;
  absl::Time heard_at_;
  std::vector<ScreenLine> shown_;
  ScreenSize size_;
  // When the next watch begins.
  absl::Time dial_at_ = absl::InfinitePast();
  absl::Duration pause_ = kWatchPauseFirst;
  std::optional<int> exit_code_;
  // Why the view cannot continue.
  absl::Status failed_;
  WatchNews news_;
  // Declared last: its destructor waits for its last call, which uses `news_`.
  std::unique_ptr<JobWatch> watch_;
};

int WatchView::Run() {
  Enter();
  while (!exit_code_) {
    if (MonotonicNow() >= dial_at_) Dial();
    Draw();
    Wait();
  }
  Leave();
  watch_ = nullptr;
  if (!failed_.ok()) return FailAt(address_, failed_);
  // The last state, in the same form as from a watch without a terminal.
  if (*exit_code_ == 0) WriteAll(StatusTable(status_));
  return *exit_code_;
}

void WatchView::Dial() {
  dial_at_ = absl::InfiniteFuture();
  watch_ = nullptr;
  watch_ = std::make_unique<JobWatch>(
      client_.endpoint(), address_,
      [this](v1::JobStatus status) { news_.Put(std::move(status)); },
      [this](absl::Status end) { news_.End(std::move(end)); });
}

void WatchView::Wait() {
  pollfd fds[] = {{signals_.fd(), POLLIN, 0},
                  {news_.fd(), POLLIN, 0},
                  {keyboard_.fd(), POLLIN, 0}};
  const absl::Duration timeout =
      std::clamp(dial_at_ - MonotonicNow(), absl::ZeroDuration(), kTick);
  poll(fds, 3, static_cast<int>(absl::ToInt64Milliseconds(timeout)) + 1);
  while (const int signal = signals_.Read()) OnSignal(signal);
  if (auto status = news_.TakeStatus()) Heard(*std::move(status));
  if (auto end = news_.TakeEnd()) WatchEnded(*std::move(end));
  if (fds[2].revents != 0 && keyboard_.Quits()) exit_code_ = 0;
}

void WatchView::OnSignal(int signal) {
  switch (signal) {
    case SIGWINCH:
      shown_.clear();
      return;
    case SIGTSTP:
      Leave();
      StopItself();
      return Enter();
    case SIGCONT:
      // Another program may have used the terminal and changed its settings.
      keyboard_.End();
      return Enter();
    default:
      exit_code_ = 128 + signal;
  }
}

void WatchView::WatchEnded(absl::Status end) {
  if (end.ok()) {
    exit_code_ = 0;
    return;
  }
  const absl::Time now = MonotonicNow();
  if (!absl::IsUnavailable(end) || now - heard_at_ > kWatchPatience) {
    exit_code_ = 1;
    failed_ = std::move(end);
    return;
  }
  dial_at_ = now + pause_;
  pause_ = std::min(2 * pause_, kWatchPauseMax);
  // Finds the endpoint that answers now. An error is ignored: the next watch
  // reports it.
  client_.Status(kWatchPauseMax).status().IgnoreError();
}

void WatchView::Draw() {
  const absl::Time now = MonotonicNow();
  const ScreenSize size = SizeNow();
  if (size != size_) shown_.clear();
  size_ = size;
  const bool silent = watch_ == nullptr || dial_at_ != absl::InfiniteFuture();
  const absl::Duration silence = now - heard_at_;
  std::vector<ScreenLine> lines =
      JobScreen(status_, history_, size, now,
                silent ? absl::StrCat("the daemon has not answered for ",
                                      ShortDuration(silence), "; trying again")
                       : "");
  if (!WriteAll(DrawScreen(shown_, lines, colours_))) exit_code_ = 1;
  shown_ = std::move(lines);
}

}  // namespace

bool CanWatchOnScreen() {
  const std::string term = Variable("TERM");
  return isatty(STDOUT_FILENO) == 1 && !term.empty() && term != "dumb";
}

int WatchOnScreen(AdminClient& client, const JobAddress& address,
                  v1::JobStatus first) {
  return WatchView(client, address, std::move(first)).Run();
}

}  // namespace rollcall
