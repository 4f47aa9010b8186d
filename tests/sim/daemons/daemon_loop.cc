// The loop of Daemon, from the input to what is journaled and sent.
#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/core/admission/admission.h"
#include "tests/sim/daemons/daemon.h"

namespace rollcall::sim {
namespace {

// A journal may be put back by at most this many generations.
constexpr size_t kEarlierMax = 4;

}  // namespace

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

std::string Daemon::JobText() const {
  return job_.has_value() ? v1::JobState_Name(job_->state()) : "not there";
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

void Daemon::OnStreamGone(uint64_t session) {
  if (up_ && sessions_.contains(session)) Post(Gone{session});
}

void Daemon::OnWish(uint64_t wish) {
  if (wish != wish_) return;
  wish_at_ = kNever;
  Iterate();
}

void Daemon::Post(Input input) {
  inbox_.push_back(std::move(input));
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
  const std::optional<absl::Duration> late = tick_.Take(Local());
  if (job_.has_value() && late.has_value()) Step(Tick{*late});
  ExpireSessions();
  if (Local() >= over_at_) return End();
  Commit();
}

// Schedules the next moment at which something is due without input.
void Daemon::Sleep() {
  if (!up_) return;
  absl::Time wake = over_at_;
  if (job_.has_value()) {
    // A stalled loop does not ask the job for its deadline again.
    if (world_.now() >= stalled_until_) AskWhenDue();
    wake = std::min(wake, tick_.due());
  }
  if (ended_) {
    for (const auto& [id, session] : sessions_) {
      wake = std::min(wake, session.expires);
    }
  }
  Nanos at = clock_.WorldAt(wake);
  if (at != kNever) at = std::max(at, stalled_until_);
  if (!inbox_.empty()) at = stalled_until_;
  if (at == kNever) return;
  at = std::max(at, world_.now());
  // A wake-up that is due earlier calls this again.
  if (wish_at_ <= at) return;
  wish_at_ = at;
  world_.Schedule(at, Wake::Kind::kDaemonWakes, 0, ++wish_);
}

void Daemon::AskWhenDue() {
  tick_.Set(job_.has_value() ? job_->NextDeadline() : absl::InfiniteFuture(),
            Local());
}

// --- What comes in -----------------------------------------------------------

void Daemon::On(Said& said) {
  const auto at = sessions_.find(said.session);
  if (at == sessions_.end() || at->second.closed) return;
  Session& session = at->second;
  v1::AgentMessage& message = *said.message;
  if (message.has_hello()) {
    const absl::Status admitted = AdmitHello(message.hello());
    if (!admitted.ok()) {
      checker_.Broken(Invariant::kAdmitted, admitted.ToString());
    }
    CleanHello(*message.mutable_hello());
    return OnHello(session, said.session, *message.mutable_hello());
  }
  if (!message.has_heartbeat()) checker_.Tested(Invariant::kAdmitted);
  const absl::Status admitted = AdmitMessage(message);
  if (!admitted.ok()) {
    checker_.Broken(Invariant::kAdmitted, admitted.ToString());
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

// --- What is journaled and sent ----------------------------------------------

void Daemon::Step(const Event& event) {
  // Once the core has broken a promise, its later steps show nothing.
  if (checker_.broken()) return;
  const absl::Time now = Local();
  checker_.BeforeStep(*job_, event, now);
  std::vector<Action> actions = job_->Step(event, now);
  checker_.AfterStep(*job_, event, now, actions);
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
      world_.chance.Skewed(settings_.commit_min, settings_.commit_max);
  world_.Schedule(world_.now() + takes, Wake::Kind::kCommitted, 0, life_);
}

void Daemon::OnCommitted(uint64_t life) {
  if (life != life_ || !committing_) return;
  committing_ = false;
  if (journal_broken_) {
    // A write that is reported as failed may still be durable.
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
      if (earlier_.size() > kEarlierMax) earlier_.pop_front();
    }
    FoldOwn(entry);
  }
  entries_.clear();
  checker_.Durable();
}

void Daemon::CarryOut() {
  checker_.Durable();
  std::vector<Effect> effects;
  effects.swap(effects_);
  for (Effect& effect : effects) {
    if (Send* send = std::get_if<Send>(&effect)) {
      checker_.Sent(send->message, journal_);
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

}  // namespace rollcall::sim
