#include "tests/sim/daemon.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/membership/welcome.h"
#include "daemon/security/life_nonce.h"

namespace rollcall::sim {
namespace {

// As in daemon/server/loop: a deadline that stays where it is must not spin.
constexpr absl::Duration kTickLeast = absl::Milliseconds(10);
constexpr Nanos kTakeBackPause = 2 * kSecond;
// Generations back to which a journal may be put.
constexpr size_t kEarlierMost = 4;

Ended Denied(absl::StatusCode code, v1::RefusalCode refusal, const char* text) {
  Ended ended{absl::Status(code, text), v1::Refusal()};
  ended.refusal->set_code(refusal);
  ended.refusal->set_text(text);
  return ended;
}

}  // namespace

std::string CredentialOf(const std::string& run, const std::string& node,
                         uint64_t incarnation, uint64_t epoch) {
  return absl::StrCat(run, "/", node, "/", incarnation, "/", epoch);
}

std::optional<uint64_t> EpochShown(const v1::Hello& hello) {
  const uint64_t shown = hello.previous_incarnation() != 0
                             ? hello.previous_incarnation()
                             : hello.incarnation();
  const std::string& credential = hello.node_credential();
  uint64_t epoch = 0;
  const std::string text = credential.substr(credential.rfind('/') + 1);
  if (!absl::SimpleAtoi(text, &epoch) ||
      credential != CredentialOf(hello.run(), hello.node(), shown, epoch)) {
    return std::nullopt;
  }
  return epoch;
}

std::string ProofOf(const std::string& run, uint64_t generation,
                    const std::string& world, const std::string& seal) {
  // FNV-1a: nobody here makes one up, and any other bytes have another.
  uint64_t sum = 0xcbf29ce484222325;
  for (const std::string& part :
       {run, absl::StrCat("/", generation, "/"), world, seal}) {
    for (const char c : part) {
      sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
  }
  return absl::StrCat("proof-", absl::Hex(sum));
}

Daemon::Daemon(World& world, Network& network, Chronicle& chronicle,
               const DaemonSettings& settings, Clock clock)
    : world_(world),
      network_(network),
      chronicle_(chronicle),
      settings_(settings),
      clock_(clock) {
  if (!settings.journal.has_value()) return;
  journal_ = *settings.journal;
  begun_ = true;
}

// --- Lives -------------------------------------------------------------------

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
      // It died between the job's end and its own.
      over_at_ = Local() + FromProto(settings_.job.lease());
    }
  }
  // Before anybody is let in.
  for (const Journal& entry : entries_) FoldOwn(entry);
  entries_.clear();
  begun_ = true;
  CarryOut();
  Sleep();
}

void Daemon::FoldOwn(const Journal& entry) {
  if (entry.kind == Journal::Kind::kRunStarted) journal_.run = job_->run();
  const absl::Status folded = Fold(entry, journal_);
  CHECK(folded.ok());
}

void Daemon::MakeJob() {
  const bool known = begun_;
  journal_ = JournalState();
  journal_.run = absl::StrCat("run", ++runs_);
  if (forgotten_ == 0) {
    job_.emplace(settings_.name, journal_.run, settings_.job, Limits(),
                 Local());
  } else {
    // Its generations begin where no other run's are, so that they can be told
    // apart by their numbers.
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

void Daemon::LoseJournal(Nanos back_after) {
  if (!up_ || journal_.end.has_value()) return;
  // Who loses all memory twice cannot know what was told in between.
  if (forgotten_ > 0) return Crash(back_after);
  world_.Trace("daemon loses its journal");
  Crash(back_after);
  begun_ = false;
  ++forgotten_;
  journal_ = JournalState();
  chronicle_.Forgotten();
}

bool Daemon::LaunchAgain(Nanos back_after) {
  if (!over_ || forgotten_ > 0) return false;
  world_.Trace("another run of the same name is launched");
  over_ = begun_ = ended_ = set_back_ = committing_ = false;
  due_ = over_at_ = absl::InfiniteFuture();
  wish_at_ = kNever;
  ++forgotten_;
  journal_ = JournalState();
  earlier_.clear();
  chronicle_.DaemonDied();
  chronicle_.Forgotten();
  world_.Schedule(world_.now() + back_after, Wake::Kind::kDaemonStarts);
  return true;
}

void Daemon::RollBack(Nanos back_after) {
  if (!up_ || earlier_.empty() || journal_.end.has_value()) return;
  Crash(back_after);
  if (journal_.end.has_value()) return;  // By the commit under way.
  const size_t at = world_.chance.Below(earlier_.size());
  journal_ = earlier_[at];
  earlier_.clear();
  world_.Trace("its journal is the one of generation ", journal_.generation);
  chronicle_.RolledBack();
}

void Daemon::TakeUp() {
  chronicle_.Restored(journal_);
  if (journal_.end.has_value()) {
    ended_ = true;
    return;
  }
  const absl::Status checked = Job::CheckJournal(journal_);
  if (!checked.ok()) {
    return chronicle_.Broken(Invariant::kJournalRestores, checked.ToString());
  }
  job_.emplace(Job::Restore(settings_.name, journal_, Limits(), Local()));
  GiveKeys();
  chronicle_.TookUp(*job_, journal_, Local());
  std::vector<Action> actions = job_->Start();
  chronicle_.Started(actions, Local());
  Collect(std::move(actions));
}

void Daemon::Crash(Nanos back_after) {
  if (!up_) return;
  world_.Trace("daemon dies");
  // The commit under way may have landed, though nobody was told.
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
  due_ = over_at_ = absl::InfiniteFuture();
  chronicle_.DaemonDied();
  world_.Schedule(world_.now() + back_after, Wake::Kind::kDaemonStarts);
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

// --- The loop ----------------------------------------------------------------

bool Daemon::Take(StreamId stream, uint32_t node, Parcel& parcel) {
  if (!up_) return false;
  if (std::holds_alternative<Opened>(parcel)) {
    const SessionId id = ++last_session_;
    sessions_[id] = Session{stream, node};
    by_stream_[stream] = id;
    return true;
  }
  const auto at = by_stream_.find(stream);
  if (at == by_stream_.end()) return false;
  const SessionId id = at->second;
  if (auto* message = std::get_if<FromAgent>(&parcel)) {
    Post(Said{id, std::move(*message)});
  } else {
    Post(Gone{id});
  }
  return true;
}

bool Daemon::Attends(StreamId stream) const {
  const auto at = by_stream_.find(stream);
  if (at == by_stream_.end()) return false;
  const Session& session = sessions_.at(at->second);
  return session.attends && !session.closed;
}

void Daemon::OnStreamGone(uint64_t session) {
  if (up_ && sessions_.contains(session)) Post(Gone{session});
}

void Daemon::Post(Input input) {
  inbox_.push_back(std::move(input));
  Iterate();
}

void Daemon::OnWake(const Wake& wake) {
  switch (wake.kind) {
    case Wake::Kind::kDaemonWakes:
      return OnWish(wake.tag);
    case Wake::Kind::kCommitted:
      return OnCommitted(wake.tag);
    case Wake::Kind::kStreamGone:
      return OnStreamGone(wake.tag);
    case Wake::Kind::kTakeBack:
      return OnTakeBack(wake.tag);
    case Wake::Kind::kJournalMends:
      journal_broken_ = false;
      return;
    default:
      return;
  }
}

std::string Daemon::JobText() const {
  return job_.has_value() ? v1::JobState_Name(job_->state()) : "not there";
}

void Daemon::OnWish(uint64_t wish) {
  if (wish != wish_) return;
  wish_at_ = kNever;
  Iterate();
}

void Daemon::Iterate() {
  if (!up_ || committing_) return;
  if (world_.now() < stalled_until_) return Sleep();
  std::vector<Input> inputs;
  inputs.swap(inbox_);
  for (Input& input : inputs) {
    std::visit([this](auto& one) { On(one); }, input);
  }
  if (job_.has_value() && due_ <= Local()) Step(Tick{Local() - due_});
  ExpireSessions();
  if (Local() >= over_at_) return End();
  Commit();
}

// Until when nothing is to be done, unless something comes in.
void Daemon::Sleep() {
  if (!up_) return;
  absl::Time wake = over_at_;
  if (job_.has_value()) {
    // A loop that is held up does not ask anew.
    if (world_.now() >= stalled_until_) AskWhenDue();
    wake = std::min(wake, due_);
  }
  if (ended_) {
    for (const auto& [id, session] : sessions_) {
      wake = std::min(wake, session.expires);
    }
  }
  Nanos at = clock_.WorldAt(wake);
  if (at != kNever) at = std::max(at, stalled_until_);
  if (!inbox_.empty()) at = stalled_until_;
  if (at == kNever) {
    return;
  }
  at = std::max(at, world_.now());
  // An earlier wish stands, and looks again.
  if (wish_at_ <= at) return;
  wish_at_ = at;
  world_.Schedule(at, Wake::Kind::kDaemonWakes, 0, ++wish_);
}

void Daemon::AskWhenDue() {
  due_ = absl::InfiniteFuture();
  if (!job_.has_value()) return;
  due_ = job_->NextDeadline();
  if (due_ <= Local()) due_ = Local() + kTickLeast;
}

void Daemon::On(Said& said) {
  const auto at = sessions_.find(said.session);
  if (at == sessions_.end() || at->second.closed) return;
  Session& session = at->second;
  v1::AgentMessage& message = *said.message;
  if (message.has_hello()) {
    const absl::Status admitted = AdmitHello(message.hello());
    if (!admitted.ok()) {
      chronicle_.Broken(Invariant::kAdmitted, admitted.ToString());
    }
    CleanHello(*message.mutable_hello());
    return OnHello(session, said.session, *message.mutable_hello());
  }
  if (!message.has_heartbeat()) chronicle_.Tested(Invariant::kAdmitted);
  const absl::Status admitted = AdmitMessage(message);
  if (!admitted.ok()) {
    chronicle_.Broken(Invariant::kAdmitted, admitted.ToString());
  }
  CleanMessage(message);
  if (!job_.has_value()) {
    if (message.has_end_seen()) {
      CloseSession(said.session, absl::StatusCode::kOk, v1::Refusal());
    }
    return;
  }
  if (session.attends) {
    Step(rollcall::Said{said.session, std::move(message)});
  }
}

void Daemon::On(Gone& gone) {
  const auto at = sessions_.find(gone.session);
  if (at == sessions_.end()) return;
  const bool attends = at->second.attends;
  network_.Drop(at->second.stream, kDown, true);
  by_stream_.erase(at->second.stream);
  sessions_.erase(at);
  if (job_.has_value() && attends) Step(StreamClosed{gone.session});
}

void Daemon::On(StopAsked& stop) {
  if (job_.has_value()) Step(stop);
}

void Daemon::On(DrainAsked& drain) {
  if (job_.has_value() && job_->Knows(drain.node)) Step(drain);
}

void Daemon::On(EvictAsked& evict) {
  if (!job_.has_value() || job_->end().has_value()) return;
  const std::string& node = evict.nodes.front();
  evict.former = job_->EvictsFormer(node);
  if (job_->HasAdmitted(node)) Step(evict);
}

// --- The roll call -----------------------------------------------------------

void Daemon::OnHello(Session& session, SessionId id, v1::Hello& hello) {
  if (set_back_) TakeBack();
  if (hello.has_node_credential()) chronicle_.Tries(hello, EpochShown(hello));
  if (const std::optional<Ended> denied = Permit(hello)) {
    return CloseSession(id, denied->status.code(), *denied->refusal);
  }
  session.greeted = true;
  if (!job_.has_value() && !ended_) MakeJob();
  if (!job_.has_value()) return AnswerEnded(session, id, hello);
  session.attends = true;
  Attend attend;
  attend.session = id;
  attend.observed_address = hello.facts().interfaces(0).addresses(0).address();
  attend.epoch = EpochShown(hello).value_or(0);
  attend.commit_proven =
      !hello.held().proof().empty() &&
      hello.held().proof() ==
          ProofOf(hello.run(), hello.held().running_generation(),
                  hello.held().world(), hello.held().seal());
  for (const std::string& nonce : hello.swept_nonces()) {
    attend.swept.push_back(IncarnationOf(hello.job(), hello.node(), nonce));
  }
  hello.clear_swept_nonces();
  attend.hello = std::move(hello);
  Step(attend);
}

// Whoever dials takes it back sooner.
void Daemon::OnTakeBack(uint64_t life) {
  if (life != life_ || !set_back_ || !up_) return;
  TakeBack();
  Iterate();
}

void Daemon::TakeBack() {
  set_back_ = false;
  if (!begun_) return;
  TakeUp();
  // The end was written, though its writer was told otherwise.
  if (ended_ && !settings_.standing) {
    over_at_ = Local() + FromProto(settings_.job.lease());
  }
}

std::optional<Ended> Daemon::Permit(const v1::Hello& hello) const {
  if (hello.credential_case() != v1::Hello::kNodeCredential) {
    if (!job_.has_value() || !job_->HasCredential(hello)) return std::nullopt;
    return Denied(absl::StatusCode::kUnauthenticated,
                  v1::REFUSAL_CODE_CREDENTIAL, "it is in already");
  }
  const std::optional<uint64_t> epoch = EpochShown(hello);
  const bool over = !job_.has_value() && !ended_;
  if (over || !epoch.has_value()) {
    return Denied(absl::StatusCode::kUnauthenticated,
                  v1::REFUSAL_CODE_CREDENTIAL, "not the credential given");
  }
  if (!job_.has_value()) return std::nullopt;
  if (!job_->IsRun(hello.run())) {
    if (job_->MayAdopt()) return std::nullopt;
    return Denied(absl::StatusCode::kAborted, v1::REFUSAL_CODE_OTHER_RUN,
                  "another run");
  }
  if (!job_->CredentialStands(hello)) {
    return Denied(absl::StatusCode::kAborted, v1::REFUSAL_CODE_REPLACED,
                  "a newer agent has taken the place of this one");
  }
  const NodeEpochs& epochs = job_->EpochsOf(hello.run());
  if (epochs.WasRaisedPast(hello.node(), *epoch)) {
    return Denied(absl::StatusCode::kPermissionDenied, v1::REFUSAL_CODE_EVICTED,
                  "evicted or drained");
  }
  if (*epoch != epochs.EpochOf(hello.node())) {
    return Denied(absl::StatusCode::kUnauthenticated,
                  v1::REFUSAL_CODE_CREDENTIAL, "of no known epoch");
  }
  return std::nullopt;
}

void Daemon::AnswerEnded(Session& session, SessionId id,
                         const v1::Hello& hello) {
  if (!hello.run().empty() && hello.run() != journal_.run) {
    const Ended denied = Denied(absl::StatusCode::kAborted,
                                v1::REFUSAL_CODE_OTHER_RUN, "another run");
    return CloseSession(id, denied.status.code(), *denied.refusal);
  }
  auto welcome = std::make_shared<v1::DaemonMessage>(
      WelcomeOf(journal_.run, settings_.job, /*credential=*/""));
  auto end = std::make_shared<v1::DaemonMessage>();
  *end->mutable_end() = *journal_.end;
  network_.Send(session.stream, kDown, ToAgent(std::move(welcome)));
  network_.Send(session.stream, kDown, ToAgent(std::move(end)));
  session.expires = Local() + FromProto(settings_.job.lease());
}

// --- The job -----------------------------------------------------------------

void Daemon::Step(const Event& event) {
  // A core that has broken a promise may break anything next.
  if (chronicle_.broken()) return;
  const absl::Time now = Local();
  chronicle_.BeforeStep(*job_, event, now);
  std::vector<Action> actions = job_->Step(event, now);
  chronicle_.AfterStep(*job_, event, now, actions);
  Collect(std::move(actions));
}

void Daemon::Collect(std::vector<Action> actions) {
  for (Action& action : actions) {
    if (Journal* entry = std::get_if<Journal>(&action)) {
      entries_.push_back(std::move(*entry));
    } else if (Send* send = std::get_if<Send>(&action)) {
      effects_.push_back(std::move(*send));
    } else if (CloseStream* close = std::get_if<CloseStream>(&action)) {
      effects_.push_back(std::move(*close));
    } else if (Log* log = std::get_if<Log>(&action)) {
      if (world_.tracing()) effects_.push_back(std::move(*log));
    } else {
      effects_.emplace_back(std::in_place_type<Forget>);
    }
  }
}

void Daemon::Commit() {
  if (entries_.empty()) {
    CarryOut();
    return Sleep();
  }
  committing_ = true;
  const Nanos takes =
      world_.chance.Skewed(settings_.commit_least, settings_.commit_most);
  world_.Schedule(world_.now() + takes, Wake::Kind::kCommitted, 0, life_);
}

void Daemon::OnCommitted(uint64_t life) {
  if (life != life_ || !committing_) return;
  committing_ = false;
  if (journal_broken_) {
    // A write that failed may be durable all the same.
    if (world_.chance.OneIn(3)) MakeDurable();
    SetBack();
  } else {
    MakeDurable();
    CarryOut();
  }
  AskWhenDue();
  if (inbox_.empty()) {
    Sleep();
  } else {
    Iterate();
  }
}

void Daemon::MakeDurable() {
  for (const Journal& entry : entries_) {
    if (entry.kind == Journal::Kind::kProposed && journal_.generation > 0) {
      earlier_.push_back(journal_);
      if (earlier_.size() > kEarlierMost) earlier_.pop_front();
    }
    FoldOwn(entry);
  }
  entries_.clear();
  chronicle_.Durable();
}

// What could not be made durable was never said.
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
  due_ = absl::InfiniteFuture();
  world_.Schedule(world_.now() + kTakeBackPause, Wake::Kind::kTakeBack, 0,
                  life_);
  chronicle_.DaemonDied();
}

void Daemon::CarryOut() {
  chronicle_.Durable();
  std::vector<Effect> effects;
  effects.swap(effects_);
  for (Effect& effect : effects) {
    if (Send* send = std::get_if<Send>(&effect)) {
      chronicle_.Sent(send->message, journal_);
      const auto message =
          std::make_shared<const v1::DaemonMessage>(std::move(send->message));
      for (const SessionId id : send->to) {
        const auto at = sessions_.find(id);
        if (at == sessions_.end() || at->second.closed) continue;
        network_.Send(at->second.stream, kDown, ToAgent(message));
      }
    } else if (CloseStream* close = std::get_if<CloseStream>(&effect)) {
      CloseSession(close->session, close->code, close->refusal);
    } else if (Log* log = std::get_if<Log>(&effect)) {
      world_.Trace("daemon: ", log->text);
    } else {
      ForgetJob();
    }
  }
}

void Daemon::CloseSession(SessionId id, absl::StatusCode code,
                          const v1::Refusal& refusal) {
  const auto at = sessions_.find(id);
  if (at == sessions_.end() || at->second.closed) return;
  at->second.closed = true;
  Ended ended{absl::Status(code, refusal.text()), std::nullopt};
  if (refusal.code() != v1::REFUSAL_CODE_UNSPECIFIED) ended.refusal = refusal;
  network_.Send(at->second.stream, kDown, std::move(ended));
  world_.Schedule(world_.now() + world_.chance.Between(kMicro, 50 * kMilli),
                  Wake::Kind::kStreamGone, 0, id);
}

void Daemon::ExpireSessions() {
  if (!ended_) return;
  const absl::Time now = Local();
  for (auto& [id, session] : sessions_) {
    if (session.expires > now) continue;
    session.expires = absl::InfiniteFuture();
    CloseSession(id, absl::StatusCode::kOk, v1::Refusal());
  }
}

void Daemon::ForgetJob() {
  world_.Trace("daemon forgets the job");
  job_.reset();
  ended_ = true;
  for (auto& [id, session] : sessions_) {
    session.expires = Local() + FromProto(settings_.job.lease());
  }
  if (!settings_.standing) End();
}

// It goes in order: who is still there is told that nothing follows.
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
