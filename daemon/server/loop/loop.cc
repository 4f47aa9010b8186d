#include "daemon/server/loop/loop.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/base/printable.h"
#include "daemon/core/membership/welcome.h"
#include "daemon/server/loop/broadcast.h"
#include "daemon/server/loop/refusal.h"

namespace rollcall {
namespace {

// A loop that is later than this processes its queued inputs before it judges
// silence.
constexpr absl::Duration kLate = absl::Milliseconds(50);
// The shortest time between two Ticks, so that a job whose deadline stays in
// the past does not make the loop spin.
constexpr absl::Duration kTickLeast = absl::Milliseconds(10);
// Most answers to refused peers that are delayed at once; further ones are sent
// without a delay.
constexpr size_t kDelayedMax = 4096;
// How long a job that was set back waits for an agent to trigger reading it,
// before the loop reads it itself.
constexpr absl::Duration kTakeBackPause = absl::Seconds(2);

absl::Status GoingDown() {
  return absl::UnavailableError("the daemon is shutting down; dial again");
}

// The clock offset of the node that sent these facts. An implausible clock is a
// large offset, not an error.
std::optional<absl::Duration> ClockOffset(const v1::Facts& facts,
                                          absl::Time received_at) {
  if (!facts.has_wall_clock()) return std::nullopt;
  return absl::Seconds(facts.wall_clock().seconds()) +
         absl::Nanoseconds(facts.wall_clock().nanos()) -
         (received_at - absl::UnixEpoch());
}

}  // namespace

Loop::Loop(Options options, JournalStore* journal, Logger& logger)
    : options_(std::move(options)),
      journal_(journal),
      logger_(logger),
      inbox_(Limits::inbox_events_max, *options_.machine),
      access_({options_.credential_key, options_.proof_key}, options_.tokens,
              options_.keep_token, journal, logger, *options_.machine),
      log_quota_(options_.limits.log),
      jobs_(options_.limits, options_.only_job, options_.only_settings,
            {options_.credential_key, options_.proof_key}, journal, logger,
            *options_.machine, options_.random),
      watches_(
          jobs_, options_.limits.watcher_patience,
          [this](v1::JobStatus status) { return WithBooks(std::move(status)); },
          [this] { return FailedConnections(); }) {}

Loop::~Loop() { Stop(); }

void Loop::Stop(absl::Status why) {
  if (why.ok()) why = GoingDown();
  if (thread_ != nullptr) {
    inbox_.PostAlways(Quit{why});
    thread_->Join();
    thread_.reset();
  }
  // Inputs of a loop that never ran.
  for (LoopInput& late : inbox_.Close()) Decline(late, why);
}

absl::Status Loop::Start() {
  const absl::Time now = Now();
  if (options_.resume) {
    if (absl::Status taken = jobs_.Restore(now); !taken.ok()) return taken;
  }
  if (absl::Status s = access_.Start(options_.resume); !s.ok()) return s;
  if (options_.observer != nullptr) {
    options_.observer->Begins(journal_, options_.leads);
  }
  for (auto& [name, live] : jobs_.live()) StartTakenUp(live, now);
  TakeUpOnlyJob(now);
  // Before any agent is admitted, so that a journal that cannot be written is
  // an error of the start and not of the first agent.
  if (journal_ != nullptr) {
    absl::Status written = journal_->Append(entries_, WallNow());
    if (!written.ok()) return written;
  }
  entries_.clear();
  thread_ = options_.machine->Start([this] { Run(); });
  return absl::OkStatus();
}

std::optional<v1::End> Loop::Wait() {
  MutexLock lock(mutex_);
  while (!done_) ended_.Wait(mutex_);
  return end_;
}

void Loop::Run() {
  Commit();
  while (!quit_) {
    const absl::Time wake = NextWake(Now());
    TakeAll(wake - Now());
    if (Now() - wake > kLate) TakeAll(absl::ZeroDuration());
    Tick(Now());
    ExpireSessions(Now());
    RunDelayed(Now());
    TakeBackJobs(Now());
    Beat(Now());
    TellSuppressed(Now());
    if (Now() >= over_at_) {
      over_at_ = absl::InfiniteFuture();
      MutexLock lock(mutex_);
      done_ = true;
      ended_.NotifyAll();
    }
    Commit();
    if (!quit_) watches_.Publish(Now());
  }
  MutexLock lock(mutex_);
  done_ = true;
  ended_.NotifyAll();
}

void Loop::TakeAll(absl::Duration timeout) {
  std::vector<LoopInput> inputs = inbox_.Take(timeout);
  // Another daemon may have taken over while this one was stopped, so even an
  // answer to a query could be wrong.
  if (!Leads()) StandDown();
  for (LoopInput& input : inputs) {
    Beat(Now());
    if (quit_) {
      Decline(input, Leads() ? GoingDown() : NotLeader({}));
    } else {
      std::visit([this](auto& one) { On(one); }, input);
      // A small message may cause a large answer, and many may have come at
      // once.
      if (effects_bytes_ > Limits::batch_bytes_max) Commit();
    }
  }
}

void Loop::Beat(absl::Time now) {
  if (now < beat_at_ || !options_.beat) return;
  beat_at_ = now + kBeatEvery;
  options_.beat();
}

absl::Time Loop::NextWake(absl::Time now) {
  absl::Time wake = std::min(
      {watches_.NextDue(), over_at_, log_quota_.NextDue(), take_back_at_});
  for (auto& [name, live] : jobs_.live()) {
    live.due = live.job.NextDeadline();
    if (live.due <= now) live.due = now + kTickLeast;
    wake = std::min(wake, live.due);
  }
  if (options_.beat) wake = std::min(wake, beat_at_);
  if (!expiries_.empty()) wake = std::min(wake, expiries_.begin()->first);
  if (!delayed_.empty()) wake = std::min(wake, delayed_.begin()->first);
  return std::min(wake, now + access_.TokensDueIn(WallNow()));
}

// --- Streams -----------------------------------------------------------------

void Loop::On(StreamOpened& opened) {
  Session& session = sessions_[opened.session];
  session.stream = std::move(opened.stream);
  SetExpiry(session, opened.session, Now() + options_.limits.hello_timeout);
  strangers_.insert(opened.session);
  if (strangers_.size() <= options_.limits.strangers_max) return;
  const SessionId oldest = *strangers_.begin();
  const absl::Status status = absl::UnavailableError(
      absl::StrCat("more than ", options_.limits.strangers_max,
                   " streams have not sent Hello yet, and this is the oldest "
                   "of them; dial again"));
  CloseSession(sessions_.at(oldest), oldest, status.code(), RefusalOf(status));
}

void Loop::On(HelloCame& came) {
  const auto at = sessions_.find(came.session);
  if (at == sessions_.end() || at->second.closed) return;
  Session& session = at->second;
  const absl::Time now = Now();
  if (const absl::Status back = TakeBack(came.hello.job(), now); !back.ok()) {
    return CloseSession(session, came.session, back.code(), RefusalOf(back));
  }
  // Checked before a job is created or removed for it.
  const LiveJob* known = jobs_.Find(came.hello.job());
  if (came.certificate_names.has_value()) {
    if (const std::optional<Denial> denial = access_.PermitName(
            came.hello, *came.certificate_names, came.observed_address, now)) {
      return TurnAway(came.session, *denial);
    }
  }
  Shown shown;
  if (const std::optional<Denial> denial =
          access_.PermitHello(came.hello, came.observed_address, known,
                              jobs_.FindEnded(came.hello.job()), now, shown)) {
    return TurnAway(came.session, *denial);
  }
  if (options_.attends) {
    absl::StatusOr<AgentStream> connection =
        options_.attends(came.peer, RightOf(came.hello, known));
    if (!connection.ok()) {
      return CloseSession(session, came.session, connection.status().code(),
                          RefusalOf(connection.status()));
    }
    session.connection = *std::move(connection);
  }
  const bool returns = known != nullptr && known->job.AwaitsWord(came.hello);
  bool made = false;
  const absl::StatusOr<LiveJob*> live =
      jobs_.ForHello(came.hello, access_.MakerOf(came.hello), now, &made);
  if (!live.ok()) {
    if (absl::IsPermissionDenied(live.status())) {
      access_.TurnedAway(came.hello, came.observed_address,
                         RefusalOf(live.status()).code(), now);
    }
    return CloseSession(session, came.session, live.status().code(),
                        RefusalOf(live.status()));
  }
  session.greeted = true;
  strangers_.erase(came.session);
  SetExpiry(session, came.session, absl::InfiniteFuture());
  if (*live == nullptr) {
    return AnswerEnded(session, came.session, came,
                       *jobs_.FindEnded(came.hello.job()));
  }
  session.job = came.hello.job();
  session.node = came.hello.node();
  session.address = came.observed_address;
  if (made) Collect((*live)->job, (*live)->job.Start());
  const v1::JoinToken token = came.hello.token();
  // Secrets that the job does not need.
  came.hello.clear_swept_nonces();
  const std::optional<absl::Duration> clock_offset =
      ClockOffset(came.hello.facts(), came.received_at);
  std::string arrived_at;
  if (options_.arrived_at) arrived_at = options_.arrived_at(came.peer);
  Step(**live, Attend{came.session, std::move(came.hello),
                      std::move(came.observed_address), shown.epoch,
                      shown.commit_proven, clock_offset, std::move(arrived_at),
                      std::move(shown.swept)});
  // An agent that the job has refused does not use the token.
  if (!returns && (*live)->job.Attends(came.session)) access_.Used(token);
}

AgentRight Loop::RightOf(const v1::Hello& hello, const LiveJob* live) const {
  if (!hello.has_node_credential()) {
    const std::string token = access_.MakerOf(hello);
    return {token, token.empty()};
  }
  if (live == nullptr || live->job.end().has_value()) return {};
  return {live->job.node_epochs().TokenOf(hello.node()), true};
}

void Loop::TurnAway(SessionId id, const Denial& denial) {
  Later(denial.wait, [this, id, status = denial.status] {
    const auto at = sessions_.find(id);
    if (at == sessions_.end()) return;
    CloseSession(at->second, id, status.code(), RefusalOf(status));
  });
  // Its Hello has come, so hello_timeout no longer applies.
  const auto at = sessions_.find(id);
  if (at != sessions_.end()) SetExpiry(at->second, id, absl::InfiniteFuture());
}

void Loop::Later(absl::Duration wait, std::function<void()> what) {
  if (wait <= absl::ZeroDuration() || delayed_.size() >= kDelayedMax) {
    return what();
  }
  delayed_.emplace(Now() + wait, std::move(what));
}

void Loop::RunDelayed(absl::Time now) {
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    const std::function<void()> what = std::move(delayed_.begin()->second);
    delayed_.erase(delayed_.begin());
    what();
  }
}

// An agent that comes late is told how the job ended, and is disconnected after
// one lease. ForHello ensures that an agent that had no part in the run hears
// of no success.
void Loop::AnswerEnded(Session& session, SessionId id, const HelloCame& came,
                       const EndedJob& ended) {
  if (!came.hello.run().empty() && came.hello.run() != ended.status.run()) {
    v1::Refusal refusal;
    refusal.set_code(v1::REFUSAL_CODE_OTHER_RUN);
    refusal.set_text(absl::StrCat("the last run of job ", came.hello.job(),
                                  " here was ", ended.status.run(), ", not ",
                                  came.hello.run(), ", and it has ended"));
    return CloseSession(session, id, absl::StatusCode::kAborted, refusal);
  }
  v1::DaemonMessage message;
  *message.mutable_end() = ended.end;
  // A token does not prove membership of that run. With a credential for any
  // name and incarnation, its holder could act as a member of that run's world.
  const std::string credential =
      came.hello.has_node_credential()
          ? access_.Credential(ended.status.run(), came.hello,
                               ended.node_epochs.EpochOf(came.hello.node()))
          : "";
  session.stream->Send(Encode(
      WelcomeOf(ended.status.run(), ended.settings, credential), unread_));
  session.stream->Send(Encode(message, unread_));
  SetExpiry(session, id, Now() + options_.limits.lease);
}

void Loop::On(MessageCame& came) {
  const auto at = sessions_.find(came.session);
  if (at == sessions_.end()) return;
  Session& session = at->second;
  session.stream->Took(came.bytes);
  if (session.closed) return;
  if (session.connection != nullptr) ++*session.connection;
  LiveJob* live = jobs_.Find(session.job);
  if (live == nullptr) {
    if (came.message.has_end_seen()) {
      CloseSession(session, came.session, absl::StatusCode::kOk, v1::Refusal());
    }
    return;
  }
  Step(*live, Said{came.session, std::move(came.message)});
}

void Loop::On(StreamGone& gone) {
  const auto at = sessions_.find(gone.session);
  if (at == sessions_.end()) return;
  const std::string job = at->second.job;
  SetExpiry(at->second, gone.session, absl::InfiniteFuture());
  strangers_.erase(gone.session);
  sessions_.erase(at);
  LiveJob* live = jobs_.Find(job);
  if (live != nullptr) Step(*live, StreamClosed{gone.session});
}

void Loop::SetExpiry(Session& session, SessionId id, absl::Time expires) {
  expiries_.erase({session.expires, id});
  session.expires = expires;
  if (expires != absl::InfiniteFuture()) expiries_.emplace(expires, id);
}

void Loop::ExpireSessions(absl::Time now) {
  while (!expiries_.empty() && expiries_.begin()->first <= now) {
    const SessionId id = expiries_.begin()->second;
    Session& session = sessions_.at(id);
    SetExpiry(session, id, absl::InfiniteFuture());
    if (session.greeted) {
      CloseSession(session, id, absl::StatusCode::kOk, v1::Refusal());
      continue;
    }
    // UNAVAILABLE, since the agent's machine or network may be busy.
    const absl::Status status = absl::UnavailableError(
        absl::StrCat("expected Hello within ",
                     absl::FormatDuration(options_.limits.hello_timeout),
                     " of opening the stream, got none; dial again"));
    CloseSession(session, id, status.code(), RefusalOf(status));
  }
}

void Loop::CloseSession(Session& session, SessionId id, absl::StatusCode code,
                        const v1::Refusal& refusal) {
  if (session.closed) return;
  session.closed = true;
  session.connection.reset();
  strangers_.erase(id);
  session.stream->Close(code, refusal);
}

void Loop::On(WatchGone& gone) { watches_.Remove(gone.id); }

void Loop::On(Quit& quit) {
  Commit();
  // A lingering job has ended, whether or not all agents have heard of it.
  const LiveJob* only = jobs_.Find(options_.only_job);
  if (only != nullptr && only->job.end().has_value() && Leads()) {
    MutexLock lock(mutex_);
    end_ = only->job.end();
  }
  EndAll(quit.why);
}

void Loop::StandDown() {
  if (quit_) return;
  const absl::Status status = NotLeader({});
  entries_.clear();
  for (Effect& effect : effects_) {
    if (Answer* answer = std::get_if<Answer>(&effect.what)) (*answer)(status);
  }
  effects_.clear();
  EndAll(status);
}

void Loop::EndAll(const absl::Status& status) {
  if (quit_) return;
  quit_ = true;
  TellSuppressed(absl::InfiniteFuture());
  // The latest changes are still published, but only by a leader.
  if (Leads()) watches_.Publish(absl::InfiniteFuture());
  watches_.EndAll(status);
  const v1::Refusal refusal = RefusalOf(status);
  for (auto& [id, session] : sessions_) {
    // An agent that knows of the job's end does not need to redial.
    const LiveJob* live = jobs_.Find(session.job);
    const bool over =
        live == nullptr ? session.greeted : live->job.end().has_value();
    CloseSession(session, id,
                 over && Leads() ? absl::StatusCode::kOk : status.code(),
                 refusal);
  }
  RunDelayed(absl::InfiniteFuture());
  for (LoopInput& late : inbox_.Close()) Decline(late, status);
}

void Decline(LoopInput& input, const absl::Status& status) {
  if (StreamOpened* opened = std::get_if<StreamOpened>(&input)) {
    opened->stream->Close(status.code(), RefusalOf(status));
  } else if (WatchOpened* watch = std::get_if<WatchOpened>(&input)) {
    watch->watcher->End(status);
  } else {
    std::visit(
        [&status](auto& call) {
          if constexpr (requires { call.reply; }) call.reply(status);
        },
        input);
  }
}

// --- Jobs --------------------------------------------------------------------

void Loop::Tick(absl::Time now) {
  if (quit_) return;
  for (auto& [name, live] : jobs_.live()) {
    if (live.due > now) continue;
    const absl::Duration late = now - live.due;
    if (late > kLate) {
      logger_.Write(Log::Level::kWarning,
                    absl::StrCat("job=", name, " event=late by=",
                                 absl::FormatDuration(late)));
    }
    Step(live, rollcall::Tick{late});
  }
}

void Loop::Step(LiveJob& live, const Event& event) {
  LoopObserver* const observer = options_.observer;
  const absl::Time now = Now();
  if (observer != nullptr) observer->BeforeStep(live.job, event, now);
  std::vector<Action> actions = live.job.Step(event, now);
  if (observer != nullptr) observer->AfterStep(live.job, event, now, actions);
  Collect(live.job, std::move(actions));
}

void Loop::StartTakenUp(LiveJob& live, absl::Time now) {
  std::vector<Action> actions = live.job.Start();
  if (options_.observer != nullptr) {
    options_.observer->TookUp(live.job, actions, now);
  }
  Collect(live.job, std::move(actions));
}

void Loop::Collect(const Job& job, std::vector<Action> actions) {
  for (Action& action : actions) {
    if (Journal* journal = std::get_if<Journal>(&action)) {
      entries_.push_back({job.name(), job.run(), std::move(*journal)});
    } else if (Send* send = std::get_if<Send>(&action)) {
      effects_bytes_ += send->message.ByteSizeLong();
      effects_.push_back({job.name(), std::move(*send)});
    } else if (CloseStream* close = std::get_if<CloseStream>(&action)) {
      effects_.push_back({job.name(), std::move(*close)});
    } else if (Log* log = std::get_if<Log>(&action)) {
      effects_.push_back({job.name(), std::move(*log)});
    } else {
      effects_.push_back({job.name(), Forget{}});
    }
  }
}

// --- The end of a batch ------------------------------------------------------

void Loop::Commit() {
  if (quit_) return;
  if (journal_ != nullptr && !entries_.empty()) {
    const absl::Status written = journal_->Append(entries_, WallNow());
    NoteJournal(written);
    if (!written.ok() && Leads()) AppendByJob(written);
  }
  entries_.clear();
  // A use of a token that is not counted after a restart is no reason to stop a
  // job. Callers that create or revoke a token get the error.
  access_.ReplaceTokens(WallNow());
  const absl::Status saved = access_.Commit(WallNow());
  if (!saved.ok() && tokens_saved_.ok()) {
    logger_.Write(Log::Level::kError,
                  absl::StrCat("event=tokens_not_saved reason=",
                               Quoted(std::string(saved.message()))));
  }
  tokens_saved_ = saved;
  if (!Leads()) return StandDown();
  if (options_.observer != nullptr) options_.observer->Durable();
  std::vector<Effect> effects;
  effects.swap(effects_);
  effects_bytes_ = 0;
  for (Effect& effect : effects) {
    if (Send* send = std::get_if<Send>(&effect.what)) {
      CarryOut(*send);
    } else if (CloseStream* close = std::get_if<CloseStream>(&effect.what)) {
      CarryOut(*close);
    } else if (Log* log = std::get_if<Log>(&effect.what)) {
      CarryOut(*log);
    } else if (std::holds_alternative<Forget>(effect.what)) {
      ForgetJob(effect.job);
    } else {
      std::get<Answer>(effect.what)(absl::OkStatus());
    }
  }
}

void Loop::NoteJournal(const absl::Status& written) {
  if (written.ok() == journal_works_) return;
  journal_works_ = written.ok();
  if (options_.journal_changed) options_.journal_changed(written);
}

void Loop::AppendByJob(absl::Status why) {
  std::map<std::string, std::vector<JournalEntry>> parts;
  for (JournalEntry& entry : entries_) {
    parts[entry.job].push_back(std::move(entry));
  }
  entries_.clear();
  std::map<std::string, absl::Status> failed;
  for (const auto& [job, part] : parts) {
    // An unreachable journal fails for all jobs, and each try may take its
    // whole timeout.
    if (parts.size() > 1 && !absl::IsUnavailable(why)) {
      const absl::Status written = journal_->Append(part, WallNow());
      if (written.ok()) continue;
      why = written;
    }
    failed.emplace(job, why);
  }
  SetBackJobs(failed);
}

// Continues the only job from the journal, or starts a new run of it.
void Loop::TakeUpOnlyJob(absl::Time now) {
  if (options_.only_job.empty() || !jobs_.live().empty()) return;
  if (const EndedJob* ended = jobs_.FindEnded(options_.only_job)) {
    // The daemon died between the job's end and its own. For one lease, it
    // tells agents how the job ended.
    over_at_ = now + options_.limits.lease;
    MutexLock lock(mutex_);
    end_ = ended->end;
    return;
  }
  LiveJob& made = jobs_.MakeOnlyJob(now);
  Collect(made.job, made.job.Start());
}

// Usually a returning agent triggers this earlier. A job without agents has
// deadlines too.
void Loop::TakeBackJobs(absl::Time now) {
  if (quit_ || now < take_back_at_) return;
  take_back_at_ = absl::InfiniteFuture();
  const std::set<std::string> jobs = jobs_.set_back();
  for (const std::string& job : jobs) {
    if (!TakeBack(job, now).ok()) take_back_at_ = now + kTakeBackPause;
  }
}

// The job's end may have been written although the journal returned an error.
absl::Status Loop::TakeBack(const std::string& job, absl::Time now) {
  if (!jobs_.set_back().contains(job)) return absl::OkStatus();
  const absl::StatusOr<LiveJob*> back = jobs_.TakeBack(job, now);
  if (!back.ok()) return back.status();
  if (*back != nullptr) {
    StartTakenUp(**back, now);
  } else {
    TakeUpOnlyJob(now);
  }
  return absl::OkStatus();
}

void Loop::SetBackJobs(const std::map<std::string, absl::Status>& failed) {
  // Sent to the agents too, since the daemon's log may be on the same full
  // disk.
  const auto status_of = [](const absl::Status& why) {
    return absl::UnavailableError(absl::StrCat(
        "the daemon's journal cannot be written: ", why.message()));
  };
  for (const auto& [job, why] : failed) {
    const absl::Status status = status_of(why);
    logger_.Write(Log::Level::kError,
                  absl::StrCat("job=", job, " event=set_back reason=",
                               Quoted(std::string(why.message()))));
    for (auto& [id, session] : sessions_) {
      if (session.job == job) {
        CloseSession(session, id, status.code(), RefusalOf(status));
      }
    }
    jobs_.SetBack(job);
  }
  take_back_at_ = Now() + kTakeBackPause;
  std::vector<Effect> kept;
  for (Effect& effect : effects_) {
    if (!failed.contains(effect.job)) {
      kept.push_back(std::move(effect));
    } else if (Answer* answer = std::get_if<Answer>(&effect.what)) {
      (*answer)(status_of(failed.at(effect.job)));
    }
  }
  effects_ = std::move(kept);
}

void Loop::CarryOut(const Send& send) {
  if (options_.observer != nullptr) options_.observer->Sends(send.message);
  const grpc::ByteBuffer bytes = Encode(send.message, unread_);
  for (SessionId id : send.to) {
    const auto at = sessions_.find(id);
    if (at == sessions_.end() || at->second.closed) continue;
    at->second.stream->Send(bytes);
  }
  EndSlowStreams();
}

void Loop::EndSlowStreams() {
  // gRPC frees the messages that it owns later, on its own threads.
  size_t unread = *unread_;
  while (unread > options_.limits.unread_bytes_max) {
    Session* slowest = nullptr;
    SessionId slowest_id = 0;
    size_t most = 0;
    for (auto& [id, session] : sessions_) {
      // Closed sessions count too, since a stream ends only after all is read.
      const size_t bytes = session.stream->UnreadBytes();
      if (bytes <= most) continue;
      most = bytes;
      slowest = &session;
      slowest_id = id;
    }
    if (slowest == nullptr) return;
    const absl::Status slow = absl::UnavailableError(
        absl::StrCat("more than ", options_.limits.unread_bytes_max,
                     " bytes wait for all agents, and most of them for this "
                     "agent, which reads too slowly; dial again"));
    logger_.Write(
        Log::Level::kWarning,
        absl::StrCat("job=", slowest->job, " event=slow node=", slowest->node,
                     " bytes=", most,
                     " reason=", Quoted(std::string(slow.message()))));
    v1::Refusal refusal = RefusalOf(slow);
    refusal.set_code(v1::REFUSAL_CODE_SLOW);
    slowest->stream->Cancel(slow.code(), refusal);
    CloseSession(*slowest, slowest_id, slow.code(), refusal);
    unread -= std::min(unread, most);
  }
}

void Loop::CarryOut(const CloseStream& close) {
  const auto at = sessions_.find(close.session);
  if (at == sessions_.end() || at->second.closed) return;
  // Repeated attempts are answered with growing delays.
  if (close.refusal.code() == v1::REFUSAL_CODE_NAME_TAKEN) {
    const absl::Duration wait = access_.NameTaken(at->second.address, Now());
    return Later(wait, [this, close] {
      const auto again = sessions_.find(close.session);
      if (again == sessions_.end()) return;
      CloseSession(again->second, close.session, close.code, close.refusal);
    });
  }
  CloseSession(at->second, close.session, close.code, close.refusal);
}

void Loop::CarryOut(const Log& log) {
  const bool written =
      log.address.empty() ||
      log_quota_.Take(log.node, NetworkOf(log.address), log.address, Now());
  if (written) logger_.Write(log.level, log.text);
}

void Loop::TellSuppressed(absl::Time now) {
  for (const LogQuota::Suppressed& of : log_quota_.Due(now)) {
    logger_.Write(
        Log::Level::kWarning,
        absl::StrCat("event=suppressed address=",
                     of.address.empty() ? "others" : of.address,
                     " lines=", of.lines,
                     " reason=\"messages from there caused too many lines\""));
  }
}

// The streams have been sent the end; those still open after one lease are
// closed.
void Loop::ForgetJob(const std::string& job) {
  const absl::Time now = Now();
  jobs_.Forget(job, now);
  for (auto& [id, session] : sessions_) {
    if (session.job == job) {
      SetExpiry(session, id, now + options_.limits.lease);
    }
  }
  if (job != options_.only_job) return;
  const v1::End end = jobs_.FindEnded(job)->end;
  MutexLock lock(mutex_);
  done_ = true;
  end_ = end;
  ended_.NotifyAll();
}

}  // namespace rollcall
