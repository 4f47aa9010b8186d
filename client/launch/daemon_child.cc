#include "client/launch/daemon_child.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/base/clock.h"
#include "daemon/base/text/hex.h"

namespace rollcall {
namespace {

constexpr absl::Duration kServedWell = absl::Seconds(1);
constexpr absl::Duration kRestartFirst = absl::Milliseconds(100);
constexpr absl::Duration kRestartMax = absl::Seconds(5);
// After this many doublings the first pause exceeds the longest.
constexpr int kDoublingsMax = 6;
constexpr absl::Duration kBetweenLooks = absl::Seconds(5);
constexpr int kSilentLooks = 3;
constexpr absl::Duration kLookLate = absl::Seconds(1);
// A line may hold an End with the last lines of stderr, in hex.
constexpr size_t kLineMax = 4 << 20;
constexpr char kFailure[] = "failure ";
constexpr char kNews[] = "news ";
constexpr char kHttp[] = "http ";

}  // namespace

std::optional<absl::Time> DaemonRestarts::Another(absl::Time now,
                                                  absl::Duration served,
                                                  bool hopeless) {
  if (served >= kServedWell) {
    unserved_since_ = now;
    early_ = 0;
    return now;
  }
  unserved_since_ = std::min(unserved_since_, now);
  if (hopeless || now - unserved_since_ >= patience_) return std::nullopt;
  ++early_;
  // The first restart is immediate.
  if (early_ == 1) return now;
  return now +
         std::min(kRestartMax,
                  kRestartFirst * (1 << std::min(early_ - 2, kDoublingsMax)));
}

void DaemonBeats::Begin(absl::Time now) {
  due_ = now + kBetweenLooks;
  silent_ = 0;
}

bool DaemonBeats::StandsStill(absl::Time now, bool heard) {
  const bool late = now - due_ > kLookLate;
  due_ = now + kBetweenLooks;
  silent_ = heard || late ? 0 : silent_ + 1;
  if (silent_ < kSilentLooks) return false;
  End();
  return true;
}

DaemonChild::DaemonChild(DaemonChildOptions options)
    : options_(std::move(options)) {}

DaemonChild::~DaemonChild() { CloseFd(); }

absl::Status DaemonChild::Start() { return Spawn(false); }

absl::Status DaemonChild::Resume(int port) {
  port_ = port;
  return Spawn(true);
}

void DaemonChild::Adopt(KnownProcess daemon, int port) {
  id_ = daemon.id();
  pid_ = daemon.pid();
  port_ = port;
  listened_ = true;
  // An adopted daemon has listened for an unknown time.
  listens_since_ = MonotonicNow();
  adopted_ = std::move(daemon);
}

void DaemonChild::Kill(int signal) const {
  if (adopted_) return adopted_->Kill(signal);
  // The pid stays valid until we reap it.
  if (pid_ > 0) kill(pid_, signal);
}

absl::Status DaemonChild::Restart() {
  restart_at_ = absl::InfiniteFuture();
  listens_since_ = absl::InfiniteFuture();
  absl::Status started = Spawn(true);
  if (!started.ok()) failure_ = std::string(started.message());
  return started;
}

absl::Status DaemonChild::Spawn(bool resume) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a pipe: ", strerror(errno)));
  }
  const Fd ready(fds[1]);
  CloseFd();
  fd_ = fds[0];
  beat_fd_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  fcntl(fd_, F_SETFL, O_NONBLOCK);
  partial_.clear();
  failure_.clear();

  std::string settings;
  (void)google::protobuf::util::MessageToJsonString(options_.settings,
                                                    &settings);
  HostPort listen = options_.listen;
  if (port_ != 0) listen.port = port_;
  SpawnOptions spawn;
  spawn.arguments = {"daemon",
                     "--job",
                     options_.job,
                     "--state",
                     options_.state_dir,
                     "--listen",
                     FormatHostPort(listen),
                     "--ready-fd",
                     absl::StrCat(fds[1]),
                     "--settings",
                     settings};
  spawn.arguments.push_back("--token-ttl");
  spawn.arguments.push_back(options_.token_ttl == absl::InfiniteDuration()
                                ? "never"
                                : absl::FormatDuration(options_.token_ttl));
  if (resume) spawn.arguments.push_back("--resume");
  if (options_.ephemeral) spawn.arguments.push_back("--ephemeral");
  spawn.arguments.insert(spawn.arguments.end(), options_.wire_flags.begin(),
                         options_.wire_flags.end());
  if (options_.http.has_value()) {
    HostPort http = *options_.http;
    if (http_port_ != 0) http.port = http_port_;
    spawn.arguments.push_back("--http");
    spawn.arguments.push_back(FormatHostPort(http));
    if (options_.http_insecure) spawn.arguments.push_back("--http-insecure");
  }
  spawn.environment = options_.environment;
  spawn.log_file = options_.log_file;
  spawn.inherited_fds = {ready.get()};
  if (beat_fd_.open()) {
    spawn.arguments.push_back("--beat-fd");
    spawn.arguments.push_back(absl::StrCat(beat_fd_.get()));
    spawn.inherited_fds.push_back(beat_fd_.get());
  }
  Fd secret;
  if (!options_.secret_text.empty()) {
    absl::StatusOr<Fd> passed = PassSecret(options_.secret_text, spawn);
    if (!passed.ok()) return passed.status();
    secret = *std::move(passed);
  }
  const absl::Status held = gate_.HoldBack(spawn);
  const absl::StatusOr<pid_t> pid = held.ok() ? SpawnSelf(spawn) : held;
  if (!pid.ok()) return pid.status();
  pid_ = *pid;
  id_ = IdOf(pid_);
  return absl::OkStatus();
}

bool DaemonChild::Read() {
  const bool before = listens_since_ != absl::InfiniteFuture();
  char block[4096];
  for (;;) {
    const ssize_t got = read(fd_, block, sizeof(block));
    if (got < 0) break;  // No more data for now.
    if (got == 0 || partial_.size() > kLineMax) {
      CloseFd();
      break;
    }
    partial_.append(block, static_cast<size_t>(got));
    size_t end;
    while ((end = partial_.find('\n')) != std::string::npos) {
      Hear(partial_.substr(0, end));
      partial_.erase(0, end + 1);
    }
  }
  return !before && listens_since_ != absl::InfiniteFuture();
}

void DaemonChild::Hear(const std::string& line) {
  int port = 0;
  if (absl::StartsWith(line, "port ") &&
      absl::SimpleAtoi(line.substr(5), &port)) {
    port_ = port;
    listened_ = true;
    listens_since_ = MonotonicNow();
    if (beat_fd_.open()) beats_.Begin(listens_since_);
  }
  HearHttp(line);
  if (absl::StartsWith(line, "end ")) {
    beats_.End();
    v1::End end;
    if (end.ParseFromString(FromHex(line.substr(4)))) {
      end_ = std::move(end);
    }
  }
  if (absl::StartsWith(line, kFailure)) {
    failure_ = FromHex(line.substr(strlen(kFailure)));
  }
  if (absl::StartsWith(line, kNews)) {
    news_.push_back(FromHex(line.substr(strlen(kNews))));
  }
}

// A restarted daemon keeps its HTTP port, so the status page keeps its URL.
void DaemonChild::HearHttp(absl::string_view line) {
  if (!absl::ConsumePrefix(&line, kHttp)) return;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(line, absl::MaxSplits(' ', 1));
  int port = 0;
  if (!absl::SimpleAtoi(parts.first, &port)) return;
  http_port_ = port;
  if (parts.second == http_url_) return;
  http_url_ = std::string(parts.second);
  news_.push_back(absl::StrCat("status page: ", http_url_));
}

bool DaemonChild::StandsStill(absl::Time now) {
  eventfd_t beats = 0;
  const bool heard = eventfd_read(beat_fd_.get(), &beats) == 0 && beats > 0;
  return beats_.StandsStill(now, heard);
}

bool DaemonChild::Died(absl::Time now, std::optional<v1::End> end,
                       bool hopeless) {
  // The pipe may still hold the daemon's last messages.
  if (fd_ >= 0) Read();
  CloseFd();
  beats_.End();
  pid_ = -1;
  adopted_.reset();
  if (!end_) end_ = std::move(end);
  if (end_) return true;
  if (!listened_) return false;
  const std::optional<absl::Time> another =
      restarts_.Another(now, now - std::min(now, listens_since_), hopeless);
  restart_at_ = another.value_or(absl::InfiniteFuture());
  return another.has_value();
}

void DaemonChild::CloseFd() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

std::string ReadyLine(int port) { return absl::StrCat("port ", port, "\n"); }

std::string HttpLine(int port, absl::string_view url) {
  return absl::StrCat(kHttp, port, " ", url, "\n");
}

std::string EndLine(const v1::End& end) {
  return absl::StrCat("end ", absl::BytesToHexString(end.SerializeAsString()),
                      "\n");
}

std::string FailureLine(absl::string_view why) {
  return absl::StrCat(kFailure, absl::BytesToHexString(why), "\n");
}

std::string NewsLine(absl::string_view text) {
  return absl::StrCat(kNews, absl::BytesToHexString(text), "\n");
}

}  // namespace rollcall
