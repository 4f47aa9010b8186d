// One of several daemons, as agents and commands see it: while it stands by,
// while it leads, and after it has lost leadership. The test plays the others.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/base/inbox.h"
#include "daemon/journal/etcd/etcd_client.h"
#include "daemon/journal/etcd/etcd_journal.h"
#include "daemon/journal/etcd/etcd_tokens.h"
#include "daemon/journal/etcd/leadership.h"
#include "tests/unit/journal/real_etcd.h"
#include "tests/unit/journal/test_sealer.h"
#include "tests/unit/server/server_fixture.h"

namespace rollcall {
namespace {

// Another daemon, which only takes part in the election.
class Rival {
 public:
  Rival(EtcdClient& client, const std::string& prefix)
      : leadership_(client, prefix, {"rival:1"}, TestSealer(),
                    {[this](const LeaderTerm& leader_term) {
                       leader_terms_.PostAlways(leader_term);
                       leads_.PostAlways("rival:1");
                     },
                     [](const std::string&) {},
                     [this](const std::vector<std::string>& endpoints) {
                       if (!endpoints.empty()) {
                         leads_.PostAlways(endpoints[0]);
                       }
                     }}) {}

  // The leader that this rival is told of next.
  std::string AwaitLeader() {
    if (heard_.empty()) heard_ = leads_.Take(absl::Seconds(30));
    if (heard_.empty()) return "";
    const std::string next = heard_.front();
    heard_.erase(heard_.begin());
    return next;
  }
  // The rival's leader term, once it leads.
  LeaderTerm AwaitLeaderTerm() {
    const std::vector<LeaderTerm> leader_terms =
        leader_terms_.Take(absl::Seconds(30));
    return leader_terms.empty() ? LeaderTerm() : leader_terms.back();
  }

 private:
  Inbox<LeaderTerm> leader_terms_{64};
  Inbox<std::string> leads_{64};
  std::vector<std::string> heard_;
  Leadership leadership_;
};

// What grpc.health.v1 answers, encoded.
constexpr char kServing[] = "\x08\x01";
constexpr char kNotServing[] = "\x08\x02";

class EtcdServerTest : public ServerTest {
 protected:
  void SetUp() override {
    if (access(RealEtcd::kProgram, X_OK) != 0) {
      GTEST_SKIP() << "NOT TESTED: there is no " << RealEtcd::kProgram
                   << " here; scripts/packages.sh test installs it";
    }
    etcd_ = RealEtcd::Start();
    ASSERT_NE(etcd_, nullptr) << "etcd does not start";
    client_ = std::make_unique<EtcdClient>(
        EtcdAccess{{etcd_->endpoint()}, "", "", "", "", ""});
  }
  void TearDown() override { server_.reset(); }

  ServerOptions Shared() {
    ServerOptions options = Options();
    options.log_level = Log::Level::kInfo;
    options.insecure = true;
    options.etcd_key = TestSealingKey();
    options.etcd = *EtcdLocation::Parse("etcd://" + etcd_->endpoint() + "/t");
    options.endpoints = [](int port) {
      return std::vector<std::string>{absl::StrCat("127.0.0.1:", port)};
    };
    return options;
  }
  void StartShared() { Start(Shared()); }
  // The health of a service with this name, as kServing.
  std::string Health(const std::string& service) {
    std::string request = "\n";
    request += static_cast<char>(service.size());
    std::string response;
    const grpc::Status status = CallWith(Dial(), "/grpc.health.v1.Health/Check",
                                         request + service, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  std::string Here() const { return absl::StrCat("127.0.0.1:", port()); }
  std::unique_ptr<Rival> MakeRival() {
    return std::make_unique<Rival>(*client_, "/rollcall/t/");
  }

  v1::Hello HelloOfNew(const std::string& node) {
    v1::Hello hello = HelloOf(node);
    hello.mutable_settings()->set_nodes_min(2);
    hello.mutable_settings()->set_nodes_max(2);
    return hello;
  }
  // Dials until it is let in. The daemon leads, but its listener opens a moment
  // later.
  std::unique_ptr<HandAgent> Attend(const v1::Hello& hello, v1::Welcome* got) {
    for (int i = 0; i < 1000; ++i) {
      auto agent = std::make_unique<HandAgent>(Dial());
      agent->SayHello(hello);
      const auto welcome = agent->HearWelcome();
      if (welcome.has_value()) {
        *got = *welcome;
        return agent;
      }
      ExpectRefused(agent->End(), grpc::StatusCode::UNAVAILABLE,
                    v1::REFUSAL_CODE_NOT_LEADER);
    }
    return nullptr;
  }

  std::unique_ptr<RealEtcd> etcd_;
  std::unique_ptr<EtcdClient> client_;
};

v1::Refusal Refusal(const grpc::Status& status) {
  v1::Refusal refusal;
  EXPECT_TRUE(refusal.ParseFromString(status.error_details()));
  return refusal;
}

TEST_F(EtcdServerTest, AStandbySaysWhereTheLeaderIs) {
  auto rival = MakeRival();
  ASSERT_EQ(rival->AwaitLeader(), "rival:1");
  StartShared();
  grpc::Status status;
  // The daemon cannot name a leader before it has asked etcd.
  do {
    status = Turned(HelloOf("a"));
    ExpectRefused(status, grpc::StatusCode::UNAVAILABLE,
                  v1::REFUSAL_CODE_NOT_LEADER);
  } while (Refusal(status).leader_endpoints().empty());
  EXPECT_EQ(Refusal(status).leader_endpoints(0), "rival:1");
  grpc::ClientContext context;
  Authorize(context);
  v1::JobStatus answer;
  status = AdminStub()->Status(&context, {}, &answer);
  ExpectRefused(status, grpc::StatusCode::UNAVAILABLE,
                v1::REFUSAL_CODE_NOT_LEADER);
  EXPECT_EQ(Refusal(status).leader_endpoints(0), "rival:1");
  EXPECT_EQ(Health(""), kServing);
  EXPECT_EQ(Health("rollcall.v1.Membership"), kNotServing);
  // The rival ends, so the daemon leads and lets agents in.
  rival.reset();
  v1::Welcome welcome;
  EXPECT_NE(Attend(HelloOfNew("a"), &welcome), nullptr);
  EXPECT_EQ(Health("rollcall.v1.Membership"), kServing);
}

TEST_F(EtcdServerTest, WhoLeadsNoMoreSaysSoAndTheNextGoesOn) {
  StartShared();
  v1::Welcome first;
  const v1::Hello hello = HelloOfNew("a");
  auto agent = Attend(hello, &first);
  ASSERT_NE(agent, nullptr);
  auto rival = MakeRival();
  ASSERT_EQ(rival->AwaitLeader(), Here());
  // An operator deletes the key, and the first daemon to write it leads.
  etcdserverpb::TxnRequest txn;
  txn.add_success()->mutable_request_delete_range()->set_key(
      absl::StrCat("/rollcall/t/", kLeaderKey));
  ASSERT_TRUE(client_->Txn(txn, absl::Seconds(30)).ok());
  ExpectRefused(agent->End(), grpc::StatusCode::UNAVAILABLE,
                v1::REFUSAL_CODE_NOT_LEADER);
  rival.reset();
  // Another daemon of the same name has only what etcd stores of the first one:
  // the run, and the key of its credentials.
  server_.reset();
  StartShared();
  v1::Hello back = hello;
  back.set_run(first.run());
  back.set_node_credential(first.node_credential());
  v1::Welcome second;
  ASSERT_NE(Attend(back, &second), nullptr);
  EXPECT_EQ(second.run(), first.run());
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// The clock of the earlier leader is a day ahead of its successor's.
TEST_F(EtcdServerTest, ASuccessorWhoseClockIsBehindRunsNoEndedRunAgain) {
  auto rival = MakeRival();
  const auto journal = EtcdJournal::Open(
      *client_, {"/rollcall/t/", rival->AwaitLeaderTerm(), [] { return true; },
                 [](const std::string&) {}, TestSealer()});
  ASSERT_TRUE(journal.ok()) << journal.status();
  v1::JobSettings settings;
  settings.set_nodes_min(1);
  settings.set_nodes_max(1);
  v1::End end;
  end.set_exit_code(7);
  end.set_code(v1::REASON_CODE_RANK_EXIT);
  end.set_reason("its rank failed");
  const std::vector<JournalEntry> entries = {
      {"train",
       "run-before",
       {Journal::Kind::kRunStarted, 0, settings.SerializeAsString()}},
      {"train",
       "run-before",
       {Journal::Kind::kRunEnded, 0, end.SerializeAsString()}}};
  const absl::Status written =
      (*journal)->Append(entries, absl::Now() + absl::Hours(24));
  ASSERT_TRUE(written.ok()) << written;
  rival.reset();
  StartShared();
  v1::Welcome welcome;
  const auto agent = Attend(HelloOf("a"), &welcome);
  ASSERT_NE(agent, nullptr);
  EXPECT_EQ(welcome.run(), "run-before");
  const auto told = agent->HearKind(v1::DaemonMessage::kEnd);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->end().exit_code(), 7);
}

TEST_F(EtcdServerTest, AStandbySaysOnceWhyItCannotKeepTokens) {
  auto rival = MakeRival();
  ASSERT_EQ(rival->AwaitLeader(), "rival:1");
  ServerOptions options = Shared();
  options.tokens.clear();
  options.tokens_in_etcd = true;
  options.token_ttl = absl::Seconds(2);
  Inbox<v1::Role> tries(1024);
  options.keep_token = [&tries](v1::Role role, const v1::JoinToken&) {
    tries.PostAlways(role);
    return absl::FailedPreconditionError("worker.join: the disk is full");
  };
  testing::internal::CaptureStderr();
  Start(std::move(options));
  // In three reads it makes no tokens itself.
  EXPECT_TRUE(tries.Take(absl::Seconds(3)).empty());
  ASSERT_TRUE(KeepTokensInEtcd(*client_, TestSealer(), "/rollcall/t/",
                               /*make=*/true, absl::Seconds(30))
                  .ok());
  int workers = 0;
  while (workers < 3) {
    const std::vector<v1::Role> tried = tries.Take(absl::Seconds(30));
    if (tried.empty()) break;
    for (const v1::Role role : tried) workers += role == v1::ROLE_WORKER;
  }
  server_.reset();
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_GE(workers, 3);
  // A read between the two writes finds one token and lacks the other.
  EXPECT_EQ(Count(told,
                  "event=tokens_not_read reason=\"etcd has no "
                  "/rollcall/t/admin.token"),
            1u)
      << told;
  EXPECT_LE(Count(told, "event=tokens_not_read"), 2u) << told;
  EXPECT_EQ(Count(told, "event=token_not_kept role=worker"), 1u) << told;
}

TEST_F(EtcdServerTest, WhatCannotBeSharedIsRefused) {
  ServerOptions options = Shared();
  options.insecure = false;
  EXPECT_EQ(Server::Start(std::move(options)).status().code(),
            absl::StatusCode::kInvalidArgument);
  options = Shared();
  options.state_dir = "/nowhere";
  EXPECT_EQ(Server::Start(std::move(options)).status().code(),
            absl::StatusCode::kInvalidArgument);
  options = Shared();
  options.job = "one";
  options.settings.set_nodes_min(1);
  options.settings.set_nodes_max(1);
  EXPECT_EQ(Server::Start(std::move(options)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace rollcall
