// The loop with fake streams: what it keeps for agents that do not read, and
// which streams it ends when its journal fails.
#include "daemon/server/loop/loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "daemon/base/durations.h"
#include "daemon/journal/fold.h"
#include "daemon/security/secrets/token.h"
#include "tests/unit/heap.h"
#include "tests/unit/server/loop/set_machine.h"

namespace rollcall {
namespace {

// Keeps the messages that are sent, as gRPC does for a peer that does not read.
class KeepingStream final : public Stream {
 public:
  explicit KeepingStream(bool reads) : reads_(reads) {}

  void Send(const grpc::ByteBuffer& message, Order) override {
    if (ended_) return;
    ++sent_;
    if (message.Length() > kLarge && heap_at_first_large_ == 0) {
      heap_at_first_large_ = HeapBytes();
    }
    if (reads_) return;
    kept_.push_back(message);
    bytes_ += message.Length();
    most_ = std::max(most_, bytes_);
  }
  void Close(absl::StatusCode, const v1::Refusal&) override { ended_ = true; }
  void Cancel(absl::StatusCode, const v1::Refusal& refusal) override {
    ended_ = true;
    refusal_ = refusal.code();
    kept_.clear();
    bytes_ = 0;
  }
  size_t UnreadBytes() override { return bytes_; }
  void Took(size_t) override {}

  // Read these only while the loop waits for the next event.
  bool ended() const { return ended_; }
  v1::RefusalCode refusal() const { return refusal_; }
  size_t most() const { return most_; }
  int sent() const { return sent_; }
  // The first Welcome that was sent and not read; an empty one if there is
  // none.
  v1::Welcome FirstWelcome() const {
    for (const grpc::ByteBuffer& kept : kept_) {
      grpc::Slice bytes;
      v1::DaemonMessage message;
      if (kept.DumpToSingleSlice(&bytes).ok() &&
          message.ParseFromArray(bytes.begin(),
                                 static_cast<int>(bytes.size())) &&
          message.has_welcome()) {
        return message.welcome();
      }
    }
    return v1::Welcome();
  }
  size_t heap_at_first_large() const { return heap_at_first_large_; }

 private:
  static constexpr size_t kLarge = 100'000;

  const bool reads_;
  bool ended_ = false;
  int sent_ = 0;
  v1::RefusalCode refusal_ = v1::REFUSAL_CODE_UNSPECIFIED;
  std::vector<grpc::ByteBuffer> kept_;
  size_t bytes_ = 0;
  size_t most_ = 0;
  size_t heap_at_first_large_ = 0;
};

constexpr size_t kMiB = 1 << 20;

// Two nodes are in generation 1. Node `a` has one rank and does not read. Node
// `b` has as many ranks as possible and reads. The values of one exchange, `k`,
// have 256 KiB.
class LoopTest : public testing::Test {
 protected:
  // For a daemon with one job of so many nodes.
  Loop::Options ForOneJob(uint32_t nodes) {
    Loop::Options options;
    options.only_job = "train";
    options.only_settings.set_nodes_min(nodes);
    options.only_settings.set_nodes_max(nodes);
    options.credential_key = std::string(32, 'k');
    options.tokens = {{token_, v1::ROLE_ADMIN, "admin"}};
    return options;
  }
  void Make(size_t unread_bytes_max) {
    Loop::Options options = ForOneJob(2);
    options.limits.unread_bytes_max = unread_bytes_max;
    loop_ = std::make_unique<Loop>(std::move(options), nullptr, logger_);
    Attend(1, a_, "a", 1);
    Attend(2, b_, "b", Limits::ranks_per_node_max);
    for (const SessionId id : {1, 2}) {
      v1::AgentMessage prepared;
      prepared.mutable_prepared()->set_generation(1);
      prepared.mutable_prepared()->set_master_port(1234);
      for (int i = 0; i < warnings_; ++i) {
        prepared.mutable_prepared()->add_warnings("mind the gap");
      }
      Say(id, std::move(prepared));
    }
    Give(1, 1, "x");
    Give(2, Limits::ranks_per_node_max,
         std::string(Limits::exchange_value_bytes_max, 'y'));
  }
  void Attend(SessionId id, std::shared_ptr<Stream> stream,
              const std::string& node, uint32_t ranks) {
    loop_->inbox().Post(StreamOpened{id, std::move(stream)});
    v1::Hello hello;
    hello.set_job(job_);
    if (settings_.has_nodes_min()) *hello.mutable_settings() = settings_;
    hello.set_node(node);
    hello.set_incarnation(id);
    hello.set_ranks(ranks);
    *hello.mutable_token() = token_;
    hello.mutable_facts()->set_boot_id("boot");
    hello.mutable_facts()->set_network_namespace(1);
    v1::Interface& loopback = *hello.mutable_facts()->add_interfaces();
    loopback.set_name("lo");
    loopback.set_up(true);
    loopback.set_running(true);
    loopback.set_loopback(true);
    v1::InterfaceAddress& address = *loopback.add_addresses();
    address.set_address("127.0.0.1");
    address.set_prefix_length(8);
    loop_->inbox().Post(
        HelloCame{id, std::move(hello), "127.0.0.1", "", std::nullopt});
  }
  void Give(SessionId id, uint32_t ranks, const std::string& value) {
    v1::AgentMessage message;
    message.mutable_exchange()->set_generation(1);
    message.mutable_exchange()->set_key("k");
    for (uint32_t i = 0; i < ranks; ++i) {
      message.mutable_exchange()->add_values(value);
    }
    Say(id, std::move(message));
  }
  void Say(SessionId id, v1::AgentMessage message) {
    const size_t bytes = message.ByteSizeLong();
    loop_->inbox().Post(MessageCame{id, std::move(message), bytes});
  }
  // Returns once all events that were posted before have been handled, with any
  // result.
  void AwaitBatch() {
    std::promise<void> done;
    StatusAsked asked;
    asked.caller.token = token_;
    asked.request.set_job(job_);
    asked.reply = [&done](const absl::StatusOr<v1::JobStatus>&) {
      done.set_value();
    };
    loop_->inbox().Post(std::move(asked));
    done.get_future().get();
  }
  // Returns the status once all events that were posted before have been
  // handled.
  v1::JobStatus Status() {
    std::promise<v1::JobStatus> done;
    StatusAsked asked;
    asked.caller.token = token_;
    asked.request.set_job(job_);
    asked.reply = [&done](const absl::StatusOr<v1::JobStatus>& status) {
      EXPECT_TRUE(status.ok()) << status.status();
      done.set_value(status.value_or(v1::JobStatus()));
    };
    loop_->inbox().Post(std::move(asked));
    return done.get_future().get();
  }

  const v1::JoinToken token_ = MakeToken();
  const std::shared_ptr<KeepingStream> a_ =
      std::make_shared<KeepingStream>(/*reads=*/false);
  const std::shared_ptr<KeepingStream> b_ =
      std::make_shared<KeepingStream>(/*reads=*/true);
  // The job that Attend and Status name, and what an agent's Hello has.
  std::string job_ = "train";
  v1::JobSettings settings_;
  int warnings_ = 0;
  Logger logger_{Log::Level::kInfo};
  std::unique_ptr<Loop> loop_;
};

TEST_F(LoopTest, WhoReadsLeastIsEndedWhereTooMuchWaitsForAll) {
  Make(4 * kMiB);
  ASSERT_TRUE(loop_->Start().ok());
  for (int i = 0; i < 100; ++i) Give(1, 1, "x");
  EXPECT_EQ(Status().state(), v1::JOB_STATE_RUNNING);
  // The actions of the previous batch have been carried out when the next one
  // ends.
  EXPECT_EQ(Status().generation(), 1u);
  EXPECT_TRUE(a_->ended());
  EXPECT_EQ(a_->refusal(), v1::REFUSAL_CODE_SLOW);
  EXPECT_LE(a_->most(), 5 * kMiB);
  EXPECT_FALSE(b_->ended());
  loop_->Stop();
}

// A viewer asks again and again without a pause, and a node is lost all the
// same.
TEST_F(LoopTest, AStreamOfQueriesPutsNoDeadlineOff) {
  Loop::Options options = ForOneJob(1);
  options.limits.reconnect_grace = absl::ZeroDuration();
  loop_ = std::make_unique<Loop>(std::move(options), nullptr, logger_);
  Attend(1, a_, "a", 1);
  ASSERT_TRUE(loop_->Start().ok());
  ASSERT_EQ(Status().nodes_size(), 1);
  loop_->inbox().Post(StreamGone{1});
  const absl::Time end = absl::Now() + absl::Minutes(1);
  v1::NodeState state = v1::NODE_STATE_UNSPECIFIED;
  while (state != v1::NODE_STATE_LOST && absl::Now() < end) {
    const v1::JobStatus status = Status();
    ASSERT_EQ(status.nodes_size(), 1);
    state = status.nodes(0).state();
  }
  EXPECT_EQ(state, v1::NODE_STATE_LOST) << v1::NodeState_Name(state);
  loop_->Stop();
}

TEST_F(LoopTest, AStatusHasTheTimeAtWhichItWasMade) {
  Make(4 * kMiB);
  ASSERT_TRUE(loop_->Start().ok());
  const absl::Time asked = absl::Now();
  const absl::Time written = FromProto(Status().written_at());
  EXPECT_LE(asked, written);
  EXPECT_LE(written, absl::Now());
  loop_->Stop();
}

TEST_F(LoopTest, OneBatchDoesNotGatherMoreThanItsBound) {
  Make(Limits().unread_bytes_max);
  // All messages wait before the loop starts, so they form one batch.
  for (int i = 0; i < 800; ++i) Give(1, 1, "x");
  const size_t before = HeapBytes();
  ASSERT_TRUE(loop_->Start().ok());
  EXPECT_EQ(Status().generation(), 1u);
  EXPECT_EQ(Status().generation(), 1u);
  ASSERT_GT(a_->heap_at_first_large(), 0u);
  EXPECT_LT(a_->heap_at_first_large(),
            before + Limits::batch_bytes_max + 16 * kMiB);
  loop_->Stop();
}

// --- A wall clock that is set forward ----------------------------------------

TEST_F(LoopTest, TheLatestCredentialsSurviveAClockThatIsSetForward) {
  SetMachine machine;
  Loop::Options options = ForOneJob(1);
  options.machine = &machine;
  loop_ = std::make_unique<Loop>(std::move(options), nullptr, logger_);
  ASSERT_TRUE(loop_->Start().ok());
  Attend(1, a_, "a", 1);
  AwaitBatch();
  AwaitBatch();
  const v1::Welcome first = a_->FirstWelcome();
  ASSERT_FALSE(first.node_credential().empty());
  machine.SetForward(Limits().credential_ttl + absl::Hours(1));
  // The same agent comes back with its credential.
  const auto comes = [&](SessionId id, const v1::Welcome& welcome) {
    auto stream = std::make_shared<KeepingStream>(/*reads=*/false);
    loop_->inbox().Post(StreamOpened{id, stream});
    v1::Hello hello;
    hello.set_job("train");
    hello.set_node("a");
    hello.set_incarnation(1);
    hello.set_ranks(1);
    hello.set_run(welcome.run());
    hello.set_node_credential(welcome.node_credential());
    loop_->inbox().Post(
        HelloCame{id, std::move(hello), "127.0.0.1", "", std::nullopt});
    AwaitBatch();
    AwaitBatch();
    return stream->FirstWelcome();
  };
  const v1::Welcome second = comes(2, first);
  EXPECT_FALSE(second.node_credential().empty());
  EXPECT_NE(second.node_credential(), first.node_credential());
  // The agent may not have received the second one.
  EXPECT_FALSE(comes(3, first).node_credential().empty());
  EXPECT_TRUE(comes(4, first).node_credential().empty());
  EXPECT_FALSE(comes(5, second).node_credential().empty());
  loop_->Stop();
}

// --- Log lines that an agent's messages cause --------------------------------

size_t LinesWith(const std::string& log, const std::string& what) {
  size_t lines = 0;
  for (size_t at = log.find(what); at != std::string::npos;
       at = log.find(what, at + 1)) {
    ++lines;
  }
  return lines;
}

TEST_F(LoopTest, AnAgentCausesSoManyLines) {
  testing::internal::CaptureStderr();
  Make(Limits().unread_bytes_max);
  ASSERT_TRUE(loop_->Start().ok());
  // A rank stalls and goes on, many times.
  for (int i = 0; i < 500; ++i) {
    for (const bool goes_on : {false, true}) {
      v1::AgentMessage stalled;
      stalled.mutable_rank_stalled()->set_generation(1);
      stalled.mutable_rank_stalled()->set_goes_on(goes_on);
      Say(1, std::move(stalled));
    }
  }
  EXPECT_EQ(Status().state(), v1::JOB_STATE_RUNNING);
  loop_->Stop();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(LinesWith(log, "event=stalled"), 63u) << "beside event=attend";
  EXPECT_EQ(LinesWith(log, "event=suppressed address=127.0.0.1 lines=437"), 1u)
      << log;
  // The lines of another agent are written.
  EXPECT_EQ(LinesWith(log, "event=attend node=b"), 1u);
}

TEST_F(LoopTest, AnAgentsWarningsAreSoMany) {
  warnings_ = 1000;
  testing::internal::CaptureStderr();
  Make(Limits().unread_bytes_max);
  ASSERT_TRUE(loop_->Start().ok());
  EXPECT_EQ(Status().state(), v1::JOB_STATE_RUNNING);
  loop_->Stop();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(LinesWith(log, "event=warning node=a"), 63u);
  EXPECT_EQ(LinesWith(log, "event=warning node=b"), 63u);
  EXPECT_EQ(LinesWith(log, "event=suppressed"), 1u);
}

// --- Failures of the journal -------------------------------------------------

// Refuses each batch that has an entry of a job `large...`. Stores nothing.
class ChoosyJournal final : public JournalStore {
 public:
  explicit ChoosyJournal(absl::Status why) : why_(std::move(why)) {}

  absl::Status Append(absl::Span<const JournalEntry> entries,
                      absl::Time) override {
    ++appends;
    for (const JournalEntry& entry : entries) {
      if (absl::StartsWith(entry.job, "large")) return why_;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<JournaledRun>> Load(
      std::string_view job) override {
    if (job == "large" && !std::exchange(was_loaded_, true)) loaded.set_value();
    return std::nullopt;
  }
  absl::StatusOr<std::vector<JournaledRun>> LoadAll() override {
    return std::vector<JournaledRun>();
  }
  absl::StatusOr<std::vector<v1::TokenRecord>> LoadTokens() override {
    return std::vector<v1::TokenRecord>();
  }
  absl::Status SaveTokens(absl::Span<const v1::TokenRecord>,
                          absl::Span<const std::string>) override {
    return absl::OkStatus();
  }
  absl::Status DropTokens() override { return absl::OkStatus(); }

  int appends = 0;
  std::promise<void> loaded;  // Job `large`, for the first time.

 private:
  const absl::Status why_;
  bool was_loaded_ = false;
};

class JournaledLoopTest : public LoopTest {
 protected:
  // Makes jobs `large` and `small` of one node each, in one batch.
  void MakeJobs() {
    Loop::Options options;
    options.credential_key = std::string(32, 'k');
    options.tokens = {{token_, v1::ROLE_ADMIN, "admin"}};
    loop_ = std::make_unique<Loop>(std::move(options), &journal_, logger_);
    settings_.set_nodes_min(1);
    settings_.set_nodes_max(1);
    job_ = "large";
    Attend(1, a_, "a", 1);
    job_ = "small";
    Attend(2, b_, "b", 1);
    ASSERT_TRUE(loop_->Start().ok());
    // Asks twice, so that the messages of the first batch have been sent.
    EXPECT_EQ(Status().state(), v1::JOB_STATE_FORMING);
    EXPECT_EQ(Status().state(), v1::JOB_STATE_FORMING);
  }

  ChoosyJournal journal_{absl::ResourceExhaustedError("too large")};
};

TEST_F(JournaledLoopTest, OneJobThatCannotBeWrittenIsSetBackAlone) {
  MakeJobs();
  EXPECT_TRUE(a_->ended());
  EXPECT_EQ(a_->sent(), 0);
  EXPECT_FALSE(b_->ended());
  EXPECT_GT(b_->sent(), 0);
  loop_->Stop();
}

// The job's deadlines count although no agent is left to come back.
TEST_F(JournaledLoopTest, AJobThatWasSetBackIsTakenBackByItself) {
  MakeJobs();
  EXPECT_EQ(journal_.loaded.get_future().wait_for(std::chrono::seconds(60)),
            std::future_status::ready);
  loop_->Stop();
}

TEST_F(JournaledLoopTest, AnotherOneThatFailsAgainAndAgainDoesNotPutThatOff) {
  MakeJobs();
  std::future<void> loaded = journal_.loaded.get_future();
  const absl::Time end = absl::Now() + absl::Minutes(1);
  job_ = "large too";
  SessionId id = 3;
  do {
    Attend(id++, std::make_shared<KeepingStream>(/*reads=*/true), "c", 1);
  } while (loaded.wait_for(std::chrono::milliseconds(300)) !=
               std::future_status::ready &&
           absl::Now() < end);
  EXPECT_LT(absl::Now(), end);
  loop_->Stop();
}

// Stores all entries, but reports that the end of the run could not be stored.
class LyingJournal final : public JournalStore {
 public:
  absl::Status Append(absl::Span<const JournalEntry> entries,
                      absl::Time written_at) override {
    absl::Status said;
    run_.written_at = written_at;
    for (const JournalEntry& entry : entries) {
      run_.job = entry.job;
      run_.state.run = entry.run;
      EXPECT_TRUE(Fold(entry.action, run_.state).ok());
      if (entry.action.kind == Journal::Kind::kRunEnded) {
        said = absl::UnavailableError("the disk does not answer");
      }
    }
    return said;
  }
  absl::StatusOr<std::optional<JournaledRun>> Load(std::string_view) override {
    return run_;
  }
  absl::StatusOr<std::vector<JournaledRun>> LoadAll() override {
    return std::vector<JournaledRun>();
  }
  absl::StatusOr<std::vector<v1::TokenRecord>> LoadTokens() override {
    return std::vector<v1::TokenRecord>();
  }
  absl::Status SaveTokens(absl::Span<const v1::TokenRecord>,
                          absl::Span<const std::string>) override {
    return absl::OkStatus();
  }
  absl::Status DropTokens() override { return absl::OkStatus(); }

 private:
  JournaledRun run_;
};

// The launcher's daemon ends with its job, whether the loop or an agent takes
// the job back first.
TEST_F(LoopTest, AnEndThatWasWrittenAllTheSameIsTheEnd) {
  LyingJournal journal;
  Loop::Options options = ForOneJob(1);
  options.limits.lease = absl::Seconds(1);
  loop_ = std::make_unique<Loop>(std::move(options), &journal, logger_);
  Attend(1, b_, "b", 1);
  v1::AgentMessage prepared;
  prepared.mutable_prepared()->set_generation(1);
  prepared.mutable_prepared()->set_master_port(1234);
  Say(1, std::move(prepared));
  v1::AgentMessage exited;
  exited.mutable_rank_exited()->set_generation(1);
  Say(1, std::move(exited));
  ASSERT_TRUE(loop_->Start().ok());
  AwaitBatch();
  AwaitBatch();
  EXPECT_TRUE(b_->ended());
  // The agent comes back before the loop takes the job back by itself.
  Attend(2, a_, "b", 1);
  std::future<std::optional<v1::End>> over =
      std::async(std::launch::async, [&] { return loop_->Wait(); });
  EXPECT_EQ(over.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  loop_->Stop();
  const std::optional<v1::End> end = over.get();
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->finished());
}

}  // namespace
}  // namespace rollcall
