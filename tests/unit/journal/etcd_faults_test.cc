// What happens if the answer to a write is lost, or if a write arrives late. A
// fake etcd member between the journal and a real etcd loses them on purpose.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/mutex.h"
#include "daemon/journal/etcd/etcd_client.h"
#include "daemon/journal/etcd/etcd_journal.h"
#include "daemon/journal/etcd/leadership.h"
#include "etcd/etcd.grpc.pb.h"
#include "tests/unit/journal/real_etcd.h"
#include "tests/unit/journal/test_sealer.h"

namespace rollcall {
namespace {

using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;
using Kind = Journal::Kind;

constexpr char kPrefix[] = "/rollcall/t/";
constexpr int64_t kLease = 77;

// Passes all calls on to the real etcd. The next transactions get the fault
// that was set.
class Unreliable final : public etcdserverpb::KV::Service {
 public:
  enum class Fault {
    kNone,
    kLoseAnswer,  // Carried out; the answer is lost.
    kHoldBack,    // Carried out when Release is called.
    kDrop,        // Not carried out.
    kRefuse,      // Not carried out, and etcd reports it.
  };

  explicit Unreliable(const std::string& real)
      : kv_(etcdserverpb::KV::NewStub(
            grpc::CreateChannel(real, grpc::InsecureChannelCredentials()))) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Unreliable() override { server_->Shutdown(); }

  std::string endpoint() const { return absl::StrCat("127.0.0.1:", port_); }

  // The first `first` transactions have no fault.
  void Next(Fault fault, int times = 1, int first = 0) {
    MutexLock lock(mutex_);
    fault_ = fault;
    times_ = times;
    first_ = first;
  }
  // Carries out the transaction that was held back, and returns its result.
  TxnResponse Release() {
    TxnRequest request;
    {
      MutexLock lock(mutex_);
      EXPECT_TRUE(held_.has_value());
      request = held_.value_or(TxnRequest());
    }
    grpc::ClientContext context;
    TxnResponse response;
    EXPECT_TRUE(kv_->Txn(&context, request, &response).ok());
    return response;
  }

 private:
  grpc::Status Txn(grpc::ServerContext*, const TxnRequest* request,
                   TxnResponse* response) override {
    Fault fault = Fault::kNone;
    {
      MutexLock lock(mutex_);
      if (first_ > 0) {
        --first_;
      } else if (times_ > 0) {
        --times_;
        fault = fault_;
        held_ = *request;
      }
    }
    grpc::ClientContext context;
    if (fault == Fault::kNone) return kv_->Txn(&context, *request, response);
    if (fault == Fault::kRefuse) {
      return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no space");
    }
    if (fault == Fault::kLoseAnswer) {
      EXPECT_TRUE(kv_->Txn(&context, *request, response).ok());
    }
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "on purpose");
  }
  grpc::Status Range(grpc::ServerContext*,
                     const etcdserverpb::RangeRequest* request,
                     etcdserverpb::RangeResponse* response) override {
    grpc::ClientContext context;
    return kv_->Range(&context, *request, response);
  }

  const std::unique_ptr<etcdserverpb::KV::Stub> kv_;
  int port_ = 0;
  Mutex mutex_;
  Fault fault_ ABSL_GUARDED_BY(mutex_) = Fault::kNone;
  int times_ ABSL_GUARDED_BY(mutex_) = 0;
  int first_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<TxnRequest> held_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

class EtcdFaultsTest : public testing::Test {
 protected:
  using Fault = Unreliable::Fault;

  void SetUp() override {
    if (access(RealEtcd::kProgram, X_OK) != 0) {
      GTEST_SKIP() << "NOT TESTED: there is no " << RealEtcd::kProgram
                   << " here; scripts/packages.sh test installs it";
    }
    etcd_ = RealEtcd::Start();
    ASSERT_NE(etcd_, nullptr) << "etcd does not start";
    between_ = std::make_unique<Unreliable>(etcd_->endpoint());
    client_ = std::make_unique<EtcdClient>(
        EtcdAccess{{between_->endpoint()}, "", "", "", "", ""});
    // Makes this term the leader without a campaign.
    TxnRequest txn;
    auto& leader = *txn.add_success()->mutable_request_put();
    leader.set_key(absl::StrCat(kPrefix, kLeaderKey));
    auto& writes = *txn.add_success()->mutable_request_put();
    writes.set_key(absl::StrCat(kPrefix, kWritesKey));
    writes.set_value(WritesValue(kLease, 0));
    const auto elected = client_->Txn(txn, absl::Seconds(30));
    ASSERT_TRUE(elected.ok()) << elected.status();
    leader_term_ = LeaderTerm{kLease, elected->header().revision()};
    journal_ = Open();
    ASSERT_TRUE(Append(Kind::kRunStarted, 0).ok());
  }

  std::unique_ptr<EtcdJournal> Open() {
    auto journal = EtcdJournal::Open(
        *client_,
        {kPrefix, leader_term_, [this] { return lost_.empty(); },
         [this](std::string why) { lost_ = std::move(why); }, TestSealer()});
    EXPECT_TRUE(journal.ok()) << journal.status();
    return journal.ok() ? *std::move(journal) : nullptr;
  }
  absl::Status Append(Kind kind, uint64_t generation) {
    const JournalEntry entry = {"j", "r", {kind, generation, ""}};
    return journal_->Append({&entry, 1}, absl::UnixEpoch());
  }
  // The generation that the next leader would read.
  uint64_t Durable() {
    const auto run = Open()->Load("j");
    EXPECT_TRUE(run.ok() && run->has_value());
    return run.ok() && run->has_value() ? (*run)->state.generation : 0;
  }

  std::unique_ptr<RealEtcd> etcd_;
  std::unique_ptr<Unreliable> between_;
  std::unique_ptr<EtcdClient> client_;
  LeaderTerm leader_term_;
  std::string lost_;
  std::unique_ptr<EtcdJournal> journal_;
};

TEST_F(EtcdFaultsTest, AWriteWhoseAnswerWasLostCountsOnce) {
  between_->Next(Fault::kLoseAnswer);
  absl::Status s = Append(Kind::kProposed, 1);
  EXPECT_TRUE(s.ok()) << s;
  EXPECT_EQ(Durable(), 1u);
  s = Append(Kind::kProposed, 2);
  EXPECT_TRUE(s.ok()) << s;
  EXPECT_EQ(Durable(), 2u);
  EXPECT_EQ(lost_, "");
}

TEST_F(EtcdFaultsTest, AWriteThatComesLateChangesNothing) {
  between_->Next(Fault::kHoldBack);
  ASSERT_TRUE(Append(Kind::kProposed, 1).ok());
  ASSERT_TRUE(Append(Kind::kProposed, 2).ok());
  EXPECT_FALSE(between_->Release().succeeded());
  EXPECT_EQ(Durable(), 2u);
  ASSERT_TRUE(Append(Kind::kProposed, 3).ok());
  EXPECT_EQ(Durable(), 3u);
}

// The write needs more than one transaction. If only some of them were carried
// out, etcd has decisions that no agent was sent, so only the next leader may
// continue.
TEST_F(EtcdFaultsTest, AWriteOfWhichAPartIsRefusedEndsTheTerm) {
  const struct {
    const char* what;
    int written;
    absl::StatusCode code;
    bool lost;
  } kRows[] = {
      {"nothing was written", 0, absl::StatusCode::kUnavailable, false},
      {"the first was written", 1, absl::StatusCode::kAborted, true},
  };
  std::vector<v1::TokenRecord> tokens(Limits::etcd_operations_max + 1);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i].mutable_status()->set_id(absl::StrCat("t", i));
  }
  for (const auto& row : kRows) {
    between_->Next(Fault::kRefuse, 1, row.written);
    EXPECT_EQ(journal_->SaveTokens(tokens, {}).code(), row.code) << row.what;
    EXPECT_EQ(!lost_.empty(), row.lost) << row.what << lost_;
  }
}

TEST_F(EtcdFaultsTest, AWriteOfUnknownFateEndsTheReign) {
  between_->Next(Fault::kDrop, 1000);
  EXPECT_EQ(Append(Kind::kProposed, 1).code(), absl::StatusCode::kAborted);
  EXPECT_NE(lost_, "");
  // The write may still arrive, but by then the next leader term has begun, and
  // so the fence refuses it.
  between_->Next(Fault::kNone, 0);
  TxnRequest txn;
  txn.add_success()->mutable_request_delete_range()->set_key(
      absl::StrCat(kPrefix, kLeaderKey));
  ASSERT_TRUE(client_->Txn(txn, absl::Seconds(30)).ok());
  EXPECT_FALSE(between_->Release().succeeded());
  EXPECT_EQ(Durable(), 0u);
}

}  // namespace
}  // namespace rollcall
