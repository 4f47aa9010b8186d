#include "tests/sim/daemons/daemon.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "tests/sim/daemons/credentials.h"

namespace rollcall::sim {
namespace {

constexpr Nanos kTakeBackPause = 2 * kSecond;

}  // namespace

Daemon::Daemon(World& world, Network& network, InvariantChecker& checker,
               const DaemonSettings& settings, Clock clock)
    : world_(world),
      network_(network),
      checker_(checker),
      settings_(settings),
      clock_(clock) {
  if (!settings.journal.has_value()) return;
  journal_ = *settings.journal;
  begun_ = true;
}

// --- The start ---------------------------------------------------------------

void Daemon::Start(uint32_t) {
  if (up_ || over_) return;
  up_ = true;
  ++life_;
  world_.Trace("daemon starts, generation ", journal_.generation);
  if (!begun_) {
    MakeJob();
  } else {
    TakeUp();
    if (ended_ && !settings_.standing) {
      // The daemon died after the job's end and before its own.
      over_at_ = Local() + FromProto(settings_.job.lease());
    }
  }
  // This comes before any agent is let in.
  for (const Journal& entry : entries_) FoldOwn(entry);
  entries_.clear();
  begun_ = true;
  CarryOut();
  Sleep();
}

void Daemon::TakeUp() {
  checker_.Restored(journal_);
  if (journal_.end.has_value()) {
    ended_ = true;
    return;
  }
  const absl::Status checked = Job::CheckJournal(journal_);
  if (!checked.ok()) {
    return checker_.Broken(Invariant::kJournalRestores, checked.ToString());
  }
  job_.emplace(Job::Restore(settings_.name, journal_, Limits(), Local()));
  GiveKeys();
  checker_.TookUp(*job_, journal_, Local());
  std::vector<Action> actions = job_->Start();
  checker_.Started(actions, Local());
  Collect(std::move(actions));
}

void Daemon::MakeJob() {
  const bool known = begun_;
  journal_ = JournalState();
  journal_.run = absl::StrCat("run", ++runs_);
  if (forgotten_ == 0) {
    job_.emplace(settings_.name, journal_.run, settings_.job, Limits(),
                 Local());
  } else {
    // The generations of this run begin above those of other runs, so that a
    // generation's number tells its run.
    journal_.settings = settings_.job;
    journal_.generation = forgotten_ * kGenerationsARun;
    job_.emplace(Job::Restore(settings_.name, journal_, Limits(), Local()));
  }
  GiveKeys();
  if (!known) job_->AllowAdoption();
  Collect(job_->Start());
}

void Daemon::GiveKeys() {
  JobKeys keys;
  keys.credential = [](const std::string& run, const v1::Hello& hello,
                       uint64_t epoch) {
    return CredentialOf(run, hello.node(), hello.incarnation(), epoch);
  };
  keys.commit_proof = ProofOf;
  keys.probe_secret = [key = world_.chance.Next()](uint64_t round,
                                                   const std::string& word) {
    std::string secret = absl::StrCat(key, "/", round, "/", word);
    secret = std::to_string(std::hash<std::string>()(secret)) + secret;
    secret.resize(Limits::probe_bytes);
    return secret;
  };
  job_->UseKeys(std::move(keys));
}

void Daemon::FoldOwn(const Journal& entry) {
  if (entry.kind == Journal::Kind::kRunStarted) journal_.run = job_->run();
  const absl::Status folded = Fold(entry, journal_);
  CHECK(folded.ok());
}

// --- Faults and requests -----------------------------------------------------

void Daemon::Crash(Nanos back_after) {
  if (!up_) return;
  world_.Trace("daemon dies");
  // The commit in progress may be durable, though nothing of its batch was
  // sent.
  if (committing_ && !journal_broken_ && world_.chance.OneIn(2)) MakeDurable();
  for (const auto& [id, session] : sessions_) {
    network_.Drop(session.stream, kDown, true);
  }
  sessions_.clear();
  by_stream_.clear();
  inbox_.clear();
  entries_.clear();
  effects_.clear();
  job_.reset();
  ended_ = set_back_ = committing_ = up_ = false;
  stalled_until_ = 0;
  ++life_;
  ++wish_;
  wish_at_ = kNever;
  tick_ = {};
  over_at_ = absl::InfiniteFuture();
  checker_.DaemonDied();
  world_.Schedule(world_.now() + back_after, Wake::Kind::kDaemonStarts);
}

void Daemon::LoseJournal(Nanos back_after) {
  if (!up_ || journal_.end.has_value()) return;
  // After a second loss of its journal, a daemon would not know what it told
  // agents after the first.
  if (forgotten_ > 0) return Crash(back_after);
  world_.Trace("daemon loses its journal");
  Crash(back_after);
  begun_ = false;
  ++forgotten_;
  journal_ = JournalState();
  checker_.Forgotten();
}

bool Daemon::LaunchAgain(Nanos back_after) {
  if (!over_ || forgotten_ > 0) return false;
  world_.Trace("another run of the same name is launched");
  over_ = begun_ = ended_ = set_back_ = committing_ = false;
  tick_ = {};
  over_at_ = absl::InfiniteFuture();
  wish_at_ = kNever;
  ++forgotten_;
  journal_ = JournalState();
  earlier_.clear();
  checker_.DaemonDied();
  checker_.Forgotten();
  world_.Schedule(world_.now() + back_after, Wake::Kind::kDaemonStarts);
  return true;
}

void Daemon::RollBack(Nanos back_after) {
  if (!up_ || earlier_.empty() || journal_.end.has_value()) return;
  Crash(back_after);
  if (journal_.end.has_value()) return;  // Its last commit had the end.
  const size_t at = world_.chance.Below(earlier_.size());
  journal_ = earlier_[at];
  earlier_.clear();
  world_.Trace("its journal is the one of generation ", journal_.generation);
  checker_.RolledBack();
}

void Daemon::Stall(Nanos until) {
  if (!up_ || stalls_over_) return;
  world_.Trace("daemon stalls for ",
               absl::FormatDuration(absl::Nanoseconds(until - world_.now())));
  stalled_until_ = std::max(stalled_until_, until);
}

void Daemon::BreakJournal(Nanos until) {
  world_.Trace("journal breaks");
  journal_broken_ = true;
  world_.Schedule(until, Wake::Kind::kJournalMends);
}

void Daemon::Calm() {
  journal_broken_ = false;
  stalls_over_ = true;
  if (stalled_until_ > world_.now()) {
    stalled_until_ = world_.now();
    Iterate();
  }
}

void Daemon::AskStop(int exit_code, bool now) {
  if (!up_) return;
  world_.Trace("stop is asked");
  Post(StopAsked{exit_code, v1::REASON_CODE_STOPPED, "asked", now});
}

void Daemon::AskDrain(const std::string& node, absl::Duration deadline) {
  if (!up_) return;
  world_.Trace("a drain of ", node, " is asked");
  Post(DrainAsked{node, deadline, "asked"});
}

void Daemon::AskEvict(const std::string& node) {
  if (!up_) return;
  world_.Trace("an eviction of ", node, " is asked");
  Post(EvictAsked{{node}, "asked"});
}

// --- A journal that cannot be written ----------------------------------------

// Nothing was sent of the entries that could not be made durable.
void Daemon::SetBack() {
  world_.Trace("daemon is set back to generation ", journal_.generation);
  entries_.clear();
  effects_.clear();
  v1::Refusal refusal;
  refusal.set_text("the daemon's journal cannot be written; dial again");
  for (auto& [id, session] : sessions_) {
    if (session.attends) {
      CloseSession(id, absl::StatusCode::kUnavailable, refusal);
    }
  }
  job_.reset();
  set_back_ = true;
  tick_ = {};
  world_.Schedule(world_.now() + kTakeBackPause, Wake::Kind::kTakeBack, 0,
                  life_);
  checker_.DaemonDied();
}

// A Hello that arrives earlier makes the daemon take its job up earlier.
void Daemon::OnTakeBack(uint64_t life) {
  if (life != life_ || !set_back_ || !up_) return;
  if (world_.now() < stalled_until_) {
    world_.Schedule(stalled_until_, Wake::Kind::kTakeBack, 0, life_);
    return;
  }
  TakeBack();
  Iterate();
}

void Daemon::TakeBack() {
  set_back_ = false;
  if (!begun_) return;
  TakeUp();
  // The journal has the end, though the write was reported as failed.
  if (ended_ && !settings_.standing) {
    over_at_ = Local() + FromProto(settings_.job.lease());
  }
}

// --- The end -----------------------------------------------------------------

void Daemon::ForgetJob() {
  world_.Trace("daemon forgets the job");
  job_.reset();
  ended_ = true;
  for (auto& [id, session] : sessions_) {
    session.expires = Local() + FromProto(settings_.job.lease());
  }
  if (!settings_.standing) End();
}

// The streams end in order, so agents that still attend learn that they ended.
void Daemon::End() {
  for (auto& [id, session] : sessions_) {
    CloseSession(id,
                 session.greeted ? absl::StatusCode::kOk
                                 : absl::StatusCode::kUnavailable,
                 v1::Refusal());
  }
  world_.Trace("daemon ends");
  sessions_.clear();
  by_stream_.clear();
  inbox_.clear();
  entries_.clear();
  effects_.clear();
  up_ = false;
  over_ = true;
  ++life_;
  ++wish_;
}

}  // namespace rollcall::sim
