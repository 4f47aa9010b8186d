#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/inbox.h"
#include "daemon/core/limits.h"
#include "daemon/journal/etcd/etcd_client.h"
#include "daemon/journal/etcd/etcd_journal.h"
#include "daemon/journal/etcd/leadership.h"
#include "daemon/journal/run_record.h"
#include "tests/unit/journal/journal_entries.h"
#include "tests/unit/journal/real_etcd.h"
#include "tests/unit/journal/test_sealer.h"

namespace rollcall {
namespace {

constexpr char kPrefix[] = "/rollcall/t/";
constexpr absl::Duration kDeadline = absl::Seconds(30);

// --- With a real etcd --------------------------------------------------------

class EtcdTest : public testing::Test {
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

  std::unique_ptr<RealEtcd> etcd_;
  std::unique_ptr<EtcdClient> client_;
};

// One daemon's part in the election, and what it was told.
class Candidate {
 public:
  struct LostLeadership {
    std::string why;
  };
  struct Other {
    std::vector<std::string> endpoints;
  };
  using Told = std::variant<LeaderTerm, LostLeadership, Other>;

  Candidate(EtcdClient& client, const std::string& endpoint)
      : leadership_(client, kPrefix, {endpoint}, TestSealer(),
                    {[this](const LeaderTerm& leader_term) {
                       told_.PostAlways(leader_term);
                     },
                     [this](const std::string& why) {
                       told_.PostAlways(LostLeadership{why});
                     },
                     [this](const std::vector<std::string>& endpoints) {
                       told_.PostAlways(Other{endpoints});
                     }}) {}

  // Returns the next T that it is told. Skips others.
  template <typename T>
  std::optional<T> Await() {
    for (;;) {
      if (waiting_.empty()) waiting_ = told_.Take(kDeadline);
      if (waiting_.empty()) return std::nullopt;
      const Told next = waiting_.front();
      waiting_.erase(waiting_.begin());
      if (const T* found = std::get_if<T>(&next)) return *found;
    }
  }

  Leadership& leadership() { return leadership_; }

 private:
  Inbox<Told> told_{1024};
  std::vector<Told> waiting_;
  Leadership leadership_;
};

TEST_F(EtcdTest, OneLeadsAndAnotherTakesOver) {
  auto a = std::make_unique<Candidate>(*client_, "a:1");
  const auto first = a->Await<LeaderTerm>();
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(a->leadership().Leads(*first));
  Candidate b(*client_, "b:1");
  const auto other = b.Await<Candidate::Other>();
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->endpoints, std::vector<std::string>{"a:1"});
  // A candidate that ends in an orderly way gives up the lead at once.
  a.reset();
  const auto second = b.Await<LeaderTerm>();
  ASSERT_TRUE(second.has_value());
  EXPECT_GT(second->create_revision, first->create_revision);
  EXPECT_TRUE(b.leadership().Leads(*second));
  EXPECT_FALSE(b.leadership().Leads(*first));
}

TEST_F(EtcdTest, WhoAbdicatesBeginsAnew) {
  Candidate a(*client_, "a:1");
  const auto first = a.Await<LeaderTerm>();
  ASSERT_TRUE(first.has_value());
  a.leadership().Resign(*first, "a test");
  EXPECT_FALSE(a.leadership().Leads(*first));
  const auto lost_leadership = a.Await<Candidate::LostLeadership>();
  ASSERT_TRUE(lost_leadership.has_value());
  EXPECT_EQ(lost_leadership->why, "a test");
  const auto second = a.Await<LeaderTerm>();
  ASSERT_TRUE(second.has_value());
  EXPECT_GT(second->create_revision, first->create_revision);
  // Resigning a leader term that is over has no effect.
  a.leadership().Resign(*first, "late");
  EXPECT_TRUE(a.leadership().Leads(*second));
}

TEST_F(EtcdTest, AKeyThatIsRemovedDeposes) {
  Candidate a(*client_, "a:1");
  ASSERT_TRUE(a.Await<LeaderTerm>().has_value());
  etcdserverpb::TxnRequest txn;
  txn.add_success()->mutable_request_delete_range()->set_key(
      absl::StrCat(kPrefix, kLeaderKey));
  ASSERT_TRUE(client_->Txn(txn, kDeadline).ok());
  EXPECT_TRUE(a.Await<Candidate::LostLeadership>().has_value());
  EXPECT_TRUE(a.Await<LeaderTerm>().has_value());
}

TEST_F(EtcdTest, AnEtcdThatIsSilentDeposesInTime) {
  Candidate a(*client_, "a:1");
  const auto leader_term = a.Await<LeaderTerm>();
  ASSERT_TRUE(leader_term.has_value());
  etcd_->Signal(SIGSTOP);
  EXPECT_TRUE(a.Await<Candidate::LostLeadership>().has_value());
  EXPECT_FALSE(a.leadership().Leads(*leader_term));
  etcd_->Signal(SIGCONT);
  EXPECT_TRUE(a.Await<LeaderTerm>().has_value());
}

// --- The journal -------------------------------------------------------------

class EtcdJournalTest : public EtcdTest {
 protected:
  void SetUp() override {
    EtcdTest::SetUp();
    if (etcd_ == nullptr) return;
    leader_ = std::make_unique<Candidate>(*client_, "a:1");
    const auto leader_term = leader_->Await<LeaderTerm>();
    ASSERT_TRUE(leader_term.has_value());
    leader_term_ = *leader_term;
  }

  std::unique_ptr<EtcdJournal> MustOpen(const LeaderTerm& leader_term) {
    auto journal = EtcdJournal::Open(
        *client_, {kPrefix, leader_term, [this] { return !over_; },
                   [this](const std::string& why) {
                     over_ = true;
                     lost_ = why;
                   },
                   TestSealer()});
    EXPECT_TRUE(journal.ok()) << journal.status();
    return journal.ok() ? *std::move(journal) : nullptr;
  }
  LeaderTerm Again() {
    leader_->leadership().Resign(leader_term_, "a test");
    const auto leader_term = leader_->Await<LeaderTerm>();
    EXPECT_TRUE(leader_term.has_value());
    over_ = false;
    return leader_term_ = leader_term.value_or(LeaderTerm());
  }

  std::unique_ptr<Candidate> leader_;
  LeaderTerm leader_term_;
  std::atomic<bool> over_ = false;
  std::string lost_;
};

TEST_F(EtcdJournalTest, TheNextLeaderReadsWhatTheLastOneWrote) {
  const auto journal = MustOpen(leader_term_);
  absl::Status s = journal->Append({{Entry(Kind::kRunStarted, 0, Settings(3)),
                                     Entry(Kind::kProposed, 1, ProposalOf(1)),
                                     Entry(Kind::kCommitted, 1, "")}},
                                   kThen);
  ASSERT_TRUE(s.ok()) << s;
  s = journal->Append({{Entry(Kind::kRunStarted, 0, Settings(1), "k", "r2"),
                        Entry(Kind::kRunEnded, 0, EndOf(7), "k", "r2")}},
                      kThen);
  ASSERT_TRUE(s.ok()) << s;
  v1::TokenRecord token;
  token.mutable_status()->set_id("abc");
  ASSERT_TRUE(journal->SaveTokens({{token}}, {}).ok());

  const auto next = MustOpen(Again());
  const auto all = next->LoadAll();
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0].job, "j");
  EXPECT_EQ((*all)[0].written_at, kThen);
  EXPECT_EQ((*all)[0].state.run, "r1");
  EXPECT_EQ((*all)[0].state.settings.nodes_min(), 3u);
  EXPECT_EQ((*all)[0].state.generation, 1u);
  EXPECT_TRUE((*all)[0].state.world_commit.has_value());
  EXPECT_EQ((*all)[1].state.end->exit_code(), 7);
  const auto tokens = next->LoadTokens();
  ASSERT_TRUE(tokens.ok());
  ASSERT_EQ(tokens->size(), 1u);
  EXPECT_EQ(tokens->front().status().id(), "abc");
  ASSERT_TRUE(next->DropTokens().ok());
  EXPECT_TRUE(next->LoadTokens()->empty());
  EXPECT_FALSE((*next->Load("nobody")).has_value());
}

TEST_F(EtcdJournalTest, EachStepOfARunLeavesItsState) {
  ExpectEachStepLeavesItsState([this] { return MustOpen(Again()); });
}

TEST_F(EtcdJournalTest, AFormerLeaderCanWriteNothing) {
  const auto old = MustOpen(leader_term_);
  ASSERT_TRUE(
      old->Append({{Entry(Kind::kRunStarted, 0, Settings(3))}}, kThen).ok());
  const LeaderTerm next = Again();
  // The old leader still believes that it leads, as if its clock were wrong.
  const std::function<absl::Status()> kWrites[] = {
      [&] {
        return old->Append({{Entry(Kind::kProposed, 1, ProposalOf(1))}}, kThen);
      },
      [&] { return old->SaveTokens({}, {{"abc"}}); },
      [&] { return old->DropTokens(); }};
  for (const auto& write : kWrites) {
    over_ = false;
    EXPECT_EQ(write().code(), absl::StatusCode::kAborted);
    EXPECT_TRUE(over_);
    EXPECT_EQ(lost_, "another daemon leads: its write was fenced off");
  }
  const auto run = MustOpen(next)->Load("j");
  ASSERT_TRUE(run.ok() && run->has_value());
  EXPECT_EQ((*run)->state.generation, 0u);
}

TEST_F(EtcdJournalTest, ARunThatIsNotThereIsNoRun) {
  const auto journal = MustOpen(leader_term_);
  EXPECT_EQ(journal->Append({{Entry(Kind::kProposed, 1, ProposalOf(1))}}, kThen)
                .code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(
      journal->Append({{Entry(Kind::kRunStarted, 0, Settings(1))}}, kThen)
          .ok());
  EXPECT_EQ(
      journal
          ->Append({{Entry(Kind::kProposed, 1, ProposalOf(1), "j", "another")}},
                   kThen)
          .code(),
      absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(over_);
}

std::string Noise(size_t bytes) {
  std::string noise(bytes, '\0');
  uint64_t state = 42;
  for (char& c : noise) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>(state >> 56);
  }
  return noise;
}

TEST_F(EtcdJournalTest, LargeWorldsFitOrAreRefused) {
  const auto journal = MustOpen(leader_term_);
  // The values are incompressible and almost as large as allowed, in three jobs
  // at once.
  const std::string world = Noise(Limits::etcd_value_bytes_max - 2'000);
  std::vector<JournalEntry> entries;
  for (const char* job : {"a", "b", "c"}) {
    entries.push_back(Entry(Kind::kRunStarted, 0, Settings(1), job));
    entries.push_back(Entry(Kind::kProposed, 1, ProposalOf(1, world), job));
  }
  absl::Status s = journal->Append(entries, kThen);
  EXPECT_TRUE(s.ok()) << s;
  s = journal->Append(
      {{Entry(Kind::kProposed, 2, ProposalOf(2, world + world), "a")}}, kThen);
  EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(over_);
  // A compressible value may be much larger than etcd's limit.
  s = journal->Append({{Entry(Kind::kProposed, 3,
                              ProposalOf(3, std::string(8 << 20, 'w')), "a")}},
                      kThen);
  EXPECT_TRUE(s.ok()) << s;
  const auto all = MustOpen(Again())->LoadAll();
  ASSERT_EQ(all->size(), 3u);
  EXPECT_EQ((*all)[0].state.proposal->world().size(), size_t{8} << 20);
  EXPECT_TRUE((*all)[2].state.proposal->world() == world);
}

TEST_F(EtcdJournalTest, ManyTokensAtOnce) {
  const auto journal = MustOpen(leader_term_);
  std::vector<v1::TokenRecord> tokens(Limits::tokens_max);
  std::vector<std::string> ids;
  for (size_t i = 0; i < tokens.size(); ++i) {
    ids.push_back(absl::StrCat("t", i));
    tokens[i].mutable_status()->set_id(ids.back());
  }
  ASSERT_TRUE(journal->SaveTokens(tokens, {}).ok());
  EXPECT_EQ(journal->LoadTokens()->size(), tokens.size());
  ASSERT_TRUE(journal->SaveTokens({}, ids).ok());
  EXPECT_TRUE(journal->LoadTokens()->empty());
}

TEST_F(EtcdJournalTest, EndedRunsAreForgotten) {
  const auto journal = MustOpen(leader_term_);
  for (size_t i = 0; i < EtcdJournal::kEndedRunsKept + 3; ++i) {
    const std::string job = absl::StrCat("j", i);
    ASSERT_TRUE(journal
                    ->Append({{Entry(Kind::kRunStarted, 0, Settings(1), job),
                               Entry(Kind::kRunEnded, 0, EndOf(0), job)}},
                             kThen + absl::Seconds(i))
                    .ok());
  }
  const auto next = MustOpen(Again());
  EXPECT_EQ(next->LoadAll()->size(), EtcdJournal::kEndedRunsKept);
  EXPECT_FALSE((*next->Load("j2")).has_value());
  EXPECT_TRUE((*next->Load("j3")).has_value());
}

// The last ends are written by a successor whose clock is a day behind.
TEST_F(EtcdJournalTest, EndedRunsAreForgottenInTheOrderInWhichTheyEnded) {
  const auto end = [](EtcdJournal& journal, const std::string& job,
                      absl::Time at) {
    ASSERT_TRUE(journal
                    .Append({{Entry(Kind::kRunStarted, 0, Settings(1), job),
                              Entry(Kind::kRunEnded, 0, EndOf(0), job)}},
                            at)
                    .ok());
  };
  {
    const auto journal = MustOpen(leader_term_);
    // The order of the names is the reverse of the order of the ends.
    for (size_t i = EtcdJournal::kEndedRunsKept; i > 0; --i) {
      end(*journal, absl::StrCat("j", i), kThen);
    }
  }
  {
    const auto next = MustOpen(Again());
    end(*next, "late", kThen - absl::Hours(24));
    end(*next, "later", kThen - absl::Hours(24));
  }
  const auto all = MustOpen(Again());
  EXPECT_EQ(all->LoadAll()->size(), EtcdJournal::kEndedRunsKept);
  EXPECT_TRUE((*all->Load("late")).has_value());
  EXPECT_TRUE((*all->Load("later")).has_value());
  EXPECT_FALSE((*all->Load("j64")).has_value());
  EXPECT_FALSE((*all->Load("j63")).has_value());
  EXPECT_TRUE((*all->Load("j62")).has_value());
}

TEST_F(EtcdJournalTest, AnEtcdThatIsSilentEndsTheReign) {
  const auto journal = MustOpen(leader_term_);
  etcd_->Signal(SIGSTOP);
  // The term ends when the lease runs out. `over_` stands for that lease.
  const auto lost_leadership = leader_->Await<Candidate::LostLeadership>();
  EXPECT_TRUE(lost_leadership.has_value());
  over_ = true;
  EXPECT_EQ(journal->Append({{Entry(Kind::kRunStarted, 0, Settings(1))}}, kThen)
                .code(),
            absl::StatusCode::kAborted);
  etcd_->Signal(SIGCONT);
}

TEST_F(EtcdJournalTest, WhatIsKeptOnceIsTheSameForAll) {
  const std::string key = absl::StrCat(kPrefix, "credential.key");
  const ValueSealer sealer = TestSealer();
  EXPECT_EQ(KeepInEtcd(*client_, sealer, key, std::nullopt, kDeadline)
                .status()
                .code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(*KeepInEtcd(*client_, sealer, key, "first", kDeadline), "first");
  EXPECT_EQ(*KeepInEtcd(*client_, sealer, key, std::nullopt, kDeadline),
            "first");
  EXPECT_EQ(*KeepInEtcd(*client_, sealer, key, "second", kDeadline), "first");
  // With another secret the value cannot be opened, but it does not count as
  // missing.
  const absl::Status other =
      KeepInEtcd(*client_,
                 ValueSealer(*SharedSecret::Parse(std::string(64, '8'))), key,
                 "third", kDeadline)
          .status();
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(other.message().find(key), absl::string_view::npos);
}

TEST_F(EtcdJournalTest, AMemberThatIsGoneIsPassedOver) {
  // Nothing listens on the first endpoint.
  EtcdClient client({{"127.0.0.1:1", etcd_->endpoint()}, "", "", "", "", ""});
  etcdserverpb::RangeRequest read;
  read.set_key("x");
  EXPECT_TRUE(client.Range(read, kDeadline).ok());
}

TEST_F(EtcdJournalTest, WhatNoDaemonWroteIsNamed) {
  const auto write = [&](const std::string& name, const std::string& value) {
    etcdserverpb::TxnRequest txn;
    auto& put = *txn.add_success()->mutable_request_put();
    put.set_key(absl::StrCat(kPrefix, name));
    put.set_value(value);
    ASSERT_TRUE(client_->Txn(txn, kDeadline).ok());
  };
  const auto expect_named = [&](const std::string& key) {
    const auto journal =
        EtcdJournal::Open(*client_, {kPrefix, leader_term_, [] { return true; },
                                     [](std::string) {}, TestSealer()});
    EXPECT_EQ(journal.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(journal.status().message().find(key), absl::string_view::npos);
  };
  const auto world_commit = [&](const std::string& name,
                                const std::string& value) {
    write(name, TestSealer().Seal(absl::StrCat(kPrefix, name), value));
  };
  write("jobs/j", "garbage");
  expect_named("jobs/j");
  world_commit("jobs/j", "garbage");
  expect_named("jobs/j");
  JournaledRun run;
  run.state.run = "r";
  // An older daemon wrote runs without a seal, and so could any client of etcd.
  write("jobs/j", *PackRun(run));
  expect_named("jobs/j");
  // This is a good value of another job.
  write("jobs/j",
        TestSealer().Seal(absl::StrCat(kPrefix, "jobs/k"), *PackRun(run)));
  expect_named("jobs/j");
  world_commit("jobs/j", *PackRun(run));
  world_commit("jobs/NO/JOB", *PackRun(run));
  expect_named("jobs/NO/JOB");
}

TEST_F(EtcdTest, WhatALeaderSaysOfItselfHasABound) {
  etcdserverpb::TxnRequest txn;
  auto& put = *txn.add_success()->mutable_request_put();
  put.set_key(absl::StrCat(kPrefix, kLeaderKey));
  std::string value = std::string(100'000, 'x');
  for (int i = 0; i < 100; ++i) absl::StrAppend(&value, ",h:", i);
  put.set_value(TestSealer().Seal(put.key(), value));
  ASSERT_TRUE(client_->Txn(txn, kDeadline).ok());
  Candidate a(*client_, "a:1");
  const auto other = a.Await<Candidate::Other>();
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->endpoints.size(), 8u);
  EXPECT_EQ(other->endpoints[0], "h:0");
}

TEST_F(EtcdTest, WhereTheLeaderIsCannotBeForged) {
  etcdserverpb::TxnRequest txn;
  auto& put = *txn.add_success()->mutable_request_put();
  put.set_key(absl::StrCat(kPrefix, kLeaderKey));
  put.set_value("attacker:1");
  ASSERT_TRUE(client_->Txn(txn, kDeadline).ok());
  Candidate a(*client_, "a:1");
  const auto other = a.Await<Candidate::Other>();
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->endpoints, std::vector<std::string>());
}

}  // namespace
}  // namespace rollcall
