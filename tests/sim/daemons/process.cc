#include "tests/sim/daemons/process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/codec/world_codec.h"
#include "daemon/core/admission/admission.h"
#include "daemon/server/loop/state/logger.h"

namespace rollcall::sim {
namespace {

// The wall clock's start, an arbitrary date.
constexpr absl::Duration kDate = absl::Seconds(1'700'000'000);

class SimLogger final : public Logger {
 public:
  SimLogger(const World& world, uint32_t daemon)
      : Logger(Log::Level::kError), world_(world), daemon_(daemon) {}
  void Write(Log::Level, const std::string& line) override {
    world_.Trace("daemon ", daemon_, ": ", line);
  }

 private:
  const World& world_;
  const uint32_t daemon_;
};

}  // namespace

// The sending end of a session, as the loop has it.
class Process::Output final : public Stream {
 public:
  Output(Process& process, SessionId session)
      : process_(process), session_(session) {}

  void Send(const grpc::ByteBuffer& bytes, Order) override {
    grpc::Slice slice;
    auto message = std::make_shared<v1::DaemonMessage>();
    CHECK(bytes.DumpToSingleSlice(&slice).ok());
    CHECK(
        message->ParseFromArray(slice.begin(), static_cast<int>(slice.size())));
    if (message->has_proposal()) {
      CHECK(ExpandWorld(*message->mutable_proposal()).ok());
    }
    process_.Say(session_, ToAgent(std::move(message)));
  }
  void Close(absl::StatusCode code, const v1::Refusal& refusal) override {
    sim::Ended ended{absl::Status(code, refusal.text()), std::nullopt};
    if (refusal.code() != v1::REFUSAL_CODE_UNSPECIFIED) ended.refusal = refusal;
    process_.Say(session_, std::move(ended));
  }
  void Cancel(absl::StatusCode code, const v1::Refusal& refusal) override {
    Close(code, refusal);
  }
  size_t UnreadBytes() override { return 0; }
  void Took(size_t) override {}

 private:
  Process& process_;
  const SessionId session_;
};

class Process::Started final : public Machine::Thread {
 public:
  Started(Process& process, Task& task) : process_(process), task_(task) {}

  void Join() override {
    while (!task_.fiber->done()) {
      task_.joiner = &process_.Running();
      process_.Park(kNever);
    }
  }

 private:
  Process& process_;
  Task& task_;
};

Process::Process(World& world, Network& network, Fibers& fibers, Store& store,
                 uint32_t number, Clock clock, absl::Duration wall_offset)
    : world_(world),
      network_(network),
      fibers_(fibers),
      number_(number),
      clock_(clock),
      wall_offset_(kDate + wall_offset),
      client_(store.ClientOf(*this)) {}

// --- Its life ----------------------------------------------------------------

void Process::Boot(LeaderSession::Options options) {
  if (up_) return;
  world_.Trace("daemon ", number_, " starts");
  up_ = true;
  current_loop_.emplace();
  options.loop.machine = this;
  options.loop.random = [this](size_t bytes) {
    std::string random(bytes, '\0');
    for (char& byte : random) byte = static_cast<char>(world_.chance.Next());
    return random;
  };
  Add([this, options = std::move(options)] { Main(options); });
}

void Process::Main(const LeaderSession::Options& options) {
  SimLogger logger(world_, number_);
  LeaderSession leader_session(options, *client_, *current_loop_, logger);
  {
    MutexLock lock(mutex_);
    while (!ending_ && !dead_) {
      WaitFor(end_, mutex_, absl::InfiniteDuration());
    }
  }
  leads_ = nullptr;
  leader_session.Stop();
}

void Process::EndInOrder() {
  if (!up_ || ending_) return;
  world_.Trace("daemon ", number_, " is asked to end");
  ending_ = true;
  Notify(end_);
}

void Process::Kill() {
  if (!up_) return;
  world_.Trace("daemon ", number_, " dies");
  dead_now_ = Now();
  dead_ = true;
  const auto all_done = [this] {
    return std::all_of(tasks_.begin(), tasks_.end(),
                       [](const auto& task) { return task->fiber->done(); });
  };
  while (!all_done()) {
    // The loop also reaches tasks that begin meanwhile.
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (!tasks_[i]->fiber->done()) fibers_.Resume(*tasks_[i]->fiber);
    }
  }
  Ended();
}

void Process::Ended() {
  tasks_.clear();
  for (const auto& [id, session] : sessions_) {
    network_.Drop(session.stream, kDown, true);
  }
  sessions_.clear();
  by_stream_.clear();
  // The kernel also resets the streams that it took while the process was
  // paused.
  for (const Held& held : held_) network_.Drop(held.stream, kDown, true);
  held_.clear();
  held_inputs_.clear();
  said_.clear();
  current_loop_.reset();
  leads_ = nullptr;
  leader_term_ = 0;
  paused_until_ = pause_at_renewal_ = 0;
  up_ = dead_ = ending_ = false;
}

void Process::Pause(Nanos until) {
  if (!up_) return;
  world_.Trace("daemon ", number_, " is stopped for ",
               absl::FormatDuration(absl::Nanoseconds(until - world_.now())));
  paused_until_ = std::max(paused_until_, until);
  world_.Schedule(until, Wake::Kind::kProcessThaws, number_);
}

// The fiber that sends the renewal goes on until it waits for the answer.
void Process::Renews() {
  if (dead_ || pause_at_renewal_ == 0) return;
  Pause(world_.now() + std::exchange(pause_at_renewal_, 0));
}

void Process::Calm() {
  pause_at_renewal_ = 0;
  if (!paused()) return;
  paused_until_ = world_.now();
  OnThaw();
}

void Process::OnThaw() {
  if (!up_ || paused()) return;
  std::vector<Held> held;
  held.swap(held_);
  for (Held& one : held) Hear(one.stream, one.node, one.parcel);
  std::vector<LoopInput> inputs;
  inputs.swap(held_inputs_);
  for (LoopInput& input : inputs) current_loop_->PostAlways(std::move(input));
  Flush();
}

void Process::NoteLeaderTerm(int64_t create_revision,
                             std::function<bool()> leads) {
  leader_term_ = create_revision;
  // A process that ends destroys its Leadership first, so `leads` must not be
  // called any more.
  leads_ = ending_ ? nullptr : std::move(leads);
}

// --- As a Machine ------------------------------------------------------------

absl::Time Process::Now() {
  return dead_ ? dead_now_ : clock_.At(world_.now());
}

Process::Task& Process::Running() {
  for (const auto& task : tasks_) {
    if (task->fiber.get() == fibers_.running()) return *task;
  }
  CHECK(false);
  return *tasks_.front();
}

Process::Task& Process::Add(std::function<void()> body) {
  tasks_.push_back(std::make_unique<Task>());
  Task& task = *tasks_.back();
  task.fiber = std::make_unique<Fiber>(fibers_, std::move(body));
  Unpark(task);
  return task;
}

std::unique_ptr<Machine::Thread> Process::Start(std::function<void()> body) {
  return std::make_unique<Started>(*this, Add(std::move(body)));
}

void Process::Park(Nanos until) {
  Task& task = Running();
  task.wish = ++wishes_;
  if (!dead_) {
    world_.Schedule(until == kNever ? kNever : std::max(until, world_.now()),
                    Wake::Kind::kTask, number_, task.wish);
  }
  fibers_.GiveWay();
}

void Process::Unpark(Task& task) {
  task.waits_at = nullptr;
  task.wish = ++wishes_;
  world_.Schedule(world_.now() + world_.chance.Between(kMicro, 50 * kMicro),
                  Wake::Kind::kTask, number_, task.wish);
}

void Process::WaitFor(CondVar& condition, Mutex& mutex,
                      absl::Duration most) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Task& task = Running();
  task.waits_at = &condition;
  const absl::Time until = Now() + most;
  mutex.Unlock();
  if (dead_) {
    dead_now_ += std::min(most, absl::Seconds(1));
    fibers_.GiveWay();
  } else {
    Park(clock_.WorldAt(until));
  }
  task.waits_at = nullptr;
  mutex.Lock();
}

void Process::Notify(CondVar& condition) {
  if (dead_) return;
  for (const auto& task : tasks_) {
    if (task->waits_at == &condition) return Unpark(*task);
  }
}

void Process::OnTask(uint64_t wish) {
  for (const auto& task : tasks_) {
    if (task->wish != wish || task->fiber->done()) continue;
    if (paused()) {
      return world_.Schedule(
          paused_until_ + world_.chance.Between(0, 100 * kMicro),
          Wake::Kind::kTask, number_, wish);
    }
    return Run(*task);
  }
}

void Process::Run(Task& task) {
  fibers_.Resume(*task.fiber);
  Flush();
  if (!task.fiber->done()) return;
  if (task.joiner != nullptr) return Unpark(*task.joiner);
  // The first task is the main one, which no other task joins.
  if (&task == tasks_.front().get()) Ended();
}

// --- Streams -----------------------------------------------------------------

bool Process::Take(StreamId stream, uint32_t node, Parcel& parcel) {
  if (!up_) return false;
  if (!std::holds_alternative<Opened>(parcel) && held_.empty() &&
      !by_stream_.contains(stream)) {
    return false;
  }
  // While the process is paused, the kernel accepts the data for it.
  if (paused() || !held_.empty()) {
    held_.push_back({stream, node, std::move(parcel)});
    return true;
  }
  Hear(stream, node, parcel);
  Flush();
  return true;
}

void Process::Hear(StreamId stream, uint32_t node, Parcel& parcel) {
  if (std::holds_alternative<Opened>(parcel)) {
    const SessionId id = ++last_session_;
    Session& session = sessions_[id];
    session = {stream, node, std::make_shared<Output>(*this, id)};
    by_stream_[stream] = id;
    return PostOrEnd(id, StreamOpened{id, session.output});
  }
  const auto at = by_stream_.find(stream);
  if (at == by_stream_.end()) return;
  const SessionId id = at->second;
  if (auto* message = std::get_if<FromAgent>(&parcel)) {
    return HearMessage(id, sessions_.at(id), **message);
  }
  OnStreamGone(id);
}

void Process::HearMessage(SessionId id, Session& session,
                          v1::AgentMessage& message) {
  if (message.has_hello()) {
    CHECK(AdmitHello(message.hello()).ok());
    CleanHello(*message.mutable_hello());
    const std::string address =
        message.hello().facts().interfaces(0).addresses(0).address();
    PostOrEnd(id, HelloCame{id, std::move(*message.mutable_hello()), address,
                            absl::StrCat(address, ":", session.stream),
                            std::nullopt, WallNow()});
    return;
  }
  CHECK(AdmitMessage(message).ok());
  CleanMessage(message);
  const size_t bytes = message.ByteSizeLong();
  PostOrEnd(id, MessageCame{id, std::move(message), bytes});
}

// As membership_service does: a full or closed inbox ends the stream.
void Process::PostOrEnd(SessionId id, LoopInput input) {
  if (current_loop_->Post(std::move(input))) return;
  Say(id, sim::Ended{absl::UnavailableError("full, or closed; dial again"),
                     std::nullopt});
}

void Process::Post(LoopInput input) {
  if (!up_) return;
  if (paused()) return held_inputs_.push_back(std::move(input));
  current_loop_->PostAlways(std::move(input));
}

void Process::OnStreamGone(SessionId id) {
  const auto at = sessions_.find(id);
  if (at == sessions_.end()) return;
  network_.Drop(at->second.stream, kDown, true);
  by_stream_.erase(at->second.stream);
  sessions_.erase(at);
  current_loop_->PostAlways(StreamGone{id});
}

bool Process::Attends(StreamId stream) const {
  const auto at = by_stream_.find(stream);
  if (at == by_stream_.end()) return false;
  const Session& session = sessions_.at(at->second);
  return session.welcomed && !session.closed;
}

void Process::Say(SessionId session, Parcel parcel) {
  if (!dead_) said_.emplace_back(session, std::move(parcel));
}

void Process::Flush() {
  std::vector<std::pair<SessionId, Parcel>> said;
  said.swap(said_);
  std::stable_sort(said.begin(), said.end(), [](const auto& a, const auto& b) {
    return a.first < b.first;
  });
  for (auto& [id, parcel] : said) {
    const auto at = sessions_.find(id);
    if (at == sessions_.end() || at->second.closed) continue;
    if (const ToAgent* message = std::get_if<ToAgent>(&parcel)) {
      at->second.welcomed = at->second.welcomed || (*message)->has_welcome();
    } else {
      at->second.closed = true;
      world_.Schedule(world_.now() + world_.chance.Between(kMicro, 50 * kMilli),
                      Wake::Kind::kStreamGone, number_, id);
    }
    network_.Send(at->second.stream, kDown, std::move(parcel));
  }
}

}  // namespace rollcall::sim
