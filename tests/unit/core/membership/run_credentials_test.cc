#include "daemon/core/membership/run_credentials.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/core/small_world.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

// The distance between the highest known epoch and the epochs of an adopted
// run.
constexpr uint64_t kUnseen = uint64_t{1} << 32;

v1::Hello ByToken(const std::string& node, const std::string& token) {
  v1::Hello hello;
  hello.set_node(node);
  hello.mutable_token()->set_id(token);
  return hello;
}

v1::Hello ByCredential(const std::string& node, const std::string& run) {
  v1::Hello hello;
  hello.set_node(node);
  hello.set_run(run);
  hello.set_node_credential("proof");
  return hello;
}

RunCredentials::Make Text() {
  return [](const std::string& run, const v1::Hello& hello, uint64_t epoch) {
    return absl::StrCat(run, "/", hello.node(), "/", epoch);
  };
}

// Credentials of run "own", which has a and b with token t1; a has been evicted
// once. They then adopt run "run1", whose world has a (token t2, epoch 5) and c
// (no token, epoch 1).
RunCredentials Adopted() {
  RunCredentials credentials("own");
  credentials.Admit(ByToken("a", "t1"), false);
  credentials.Admit(ByToken("b", "t1"), false);
  credentials.Evict("a");
  const v1::World world = WorldOf(7, {"a", "c"});
  v1::WorldCommit world_commit = WorldCommitOf(world);
  world_commit.set_epochs(0, 5);
  world_commit.add_token_ids("t2");
  world_commit.set_token_of(0, 1);
  world_commit.set_epoch_highest(8);
  credentials.Adopt(world, world_commit);
  return credentials;
}

TEST(RunCredentials, AnAgentMayKnowTheFormerRun) {
  RunCredentials credentials("own");
  EXPECT_EQ(credentials.run(), "own");
  EXPECT_TRUE(credentials.IsRun("own"));
  EXPECT_FALSE(credentials.IsRun("run1"));
  EXPECT_FALSE(credentials.IsRun(""));
  EXPECT_EQ(&credentials.EpochsOf("own"), &credentials.epochs());
  credentials = Adopted();
  EXPECT_EQ(credentials.run(), "run1");
  EXPECT_TRUE(credentials.IsRun("own"));
  EXPECT_TRUE(credentials.IsRun("run1"));
  EXPECT_FALSE(credentials.IsRun("run2"));
  EXPECT_FALSE(credentials.IsRun(""));
  EXPECT_EQ(credentials.EpochsOf("own").EpochOf("a"), 1u);
  EXPECT_EQ(credentials.EpochsOf("own").TokenOf("b"), "t1");
  EXPECT_EQ(&credentials.EpochsOf("run1"), &credentials.epochs());
}

TEST(RunCredentials, AdoptionTakesTheEpochsOfTheWorldAndExcludesAllOthers) {
  const RunCredentials credentials = Adopted();
  const NodeEpochs& epochs = credentials.epochs();
  EXPECT_EQ(epochs.EpochOf("a"), 5u);
  EXPECT_EQ(epochs.TokenOf("a"), "t2");
  EXPECT_EQ(epochs.EpochOf("c"), 1u);
  EXPECT_EQ(epochs.TokenOf("c"), "");
  // The lost daemon may have evicted b. The epoch of b in the previous run does
  // not count either.
  EXPECT_FALSE(epochs.Has("b"));
  EXPECT_EQ(epochs.EpochOf("b"), 8 + kUnseen);
  EXPECT_EQ(epochs.floor(), 8 + kUnseen);
}

TEST(RunCredentials, AdoptsASealThatNamesNoTokens) {
  RunCredentials credentials("own");
  const v1::World world = WorldOf(7, {"a"});
  v1::WorldCommit world_commit = WorldCommitOf(world);
  world_commit.clear_token_of();
  credentials.Adopt(world, world_commit);
  EXPECT_EQ(credentials.epochs().EpochOf("a"), 1u);
  EXPECT_EQ(credentials.epochs().TokenOf("a"), "");
}

TEST(RunCredentials, AdmittingAnotherAgentEndsTheEarlierCredentials) {
  struct {
    const char* name;
    bool adopted;
    v1::Hello hello;
    bool continues;
    uint64_t epoch;
    const char* token;
  } const kRows[] = {
      {"a node that was not known", false, ByToken("z", "t9"), false, 0, "t9"},
      {"another agent by a token", false, ByToken("a", "t9"), false, 1, "t9"},
      {"the same agent by a token", false, ByToken("a", "t9"), true, 0, "t9"},
      {"its credential", false, ByCredential("a", "own"), true, 0, "t1"},
      {"the credential of an earlier incarnation", false,
       ByCredential("a", "own"), false, 0, "t1"},
      {"after adoption: a member's credential", true, ByCredential("a", "run1"),
       true, 5, "t2"},
      {"by a token", true, ByToken("a", "t9"), false, 6, "t9"},
      // The member may have been replaced since, so the agent counts under its
      // token.
      {"a credential of the former run, for a member", true,
       ByCredential("a", "own"), false, 6, "t1"},
      {"the same agent again", true, ByCredential("a", "own"), true, 5, "t1"},
      {"a credential of the former run, for another node", true,
       ByCredential("b", "own"), false, 8 + kUnseen, "t1"},
      {"a node that was not known, after adoption", true, ByToken("z", "t9"),
       false, 8 + kUnseen, "t9"},
  };
  for (const auto& row : kRows) {
    RunCredentials credentials =
        row.adopted ? Adopted() : RunCredentials("own");
    if (!row.adopted) credentials.Admit(ByToken("a", "t1"), false);
    credentials.Admit(row.hello, row.continues);
    const NodeEpochs& epochs = credentials.epochs();
    EXPECT_EQ(epochs.EpochOf(row.hello.node()), row.epoch) << row.name;
    EXPECT_EQ(epochs.TokenOf(row.hello.node()), row.token) << row.name;
  }
}

TEST(RunCredentials, EvictionEndsTheCredentialsOfBothRuns) {
  RunCredentials credentials = Adopted();
  struct {
    const char* node;
    uint64_t epoch;
    uint64_t former_epoch;
    bool former_known;
  } const kRows[] = {
      {"a", 6, 2, true},
      {"b", 9 + kUnseen, 1, true},
      {"c", 2, 0, false},
      {"z", 9 + kUnseen, 0, false},
  };
  for (const auto& row : kRows) {
    credentials.Evict(row.node);
    EXPECT_EQ(credentials.epochs().EpochOf(row.node), row.epoch) << row.node;
    const NodeEpochs& former = credentials.EpochsOf("own");
    EXPECT_EQ(former.EpochOf(row.node), row.former_epoch) << row.node;
    EXPECT_EQ(former.Has(row.node), row.former_known) << row.node;
  }
}

TEST(RunCredentials, IssuesForTheRunAndTheEpochOfTheNode) {
  RunCredentials credentials = Adopted();
  Node node;
  node.hello = ByToken("a", "t2");
  EXPECT_EQ(credentials.Issue(node, At(10)), "");
  EXPECT_EQ(node.credential.issued.at, absl::InfinitePast());
  credentials.UseKey(Text());
  EXPECT_EQ(credentials.Issue(node, At(10)), "run1/a/5");
  EXPECT_EQ(node.credential.issued.at, At(10));
}

TEST(RunCredentials, ACredentialIsRenewedWithAKey) {
  const Limits limits;
  const absl::Time due = At(10) + limits.credential_renewal;
  RunCredentials credentials("own");
  Node node;
  node.credential.issued.at = At(10);
  EXPECT_FALSE(credentials.IsRenewalDue(node, due, limits)) << "without a key";
  credentials.UseKey(Text());
  EXPECT_FALSE(credentials.IsRenewalDue(node, due - absl::Seconds(1), limits));
  EXPECT_TRUE(credentials.IsRenewalDue(node, due, limits));
}

TEST(RunCredentials, ContinuesWithTheEpochsOfTheJournal) {
  v1::NodeEpochs journaled;
  v1::NodeEpoch& row = *journaled.add_nodes();
  row.set_node("a");
  row.set_epoch(3);
  NodeEpochs epochs;
  epochs.Apply(journaled);
  RunCredentials credentials("own");
  credentials.Restore(epochs);
  EXPECT_EQ(credentials.epochs().EpochOf("a"), 3u);
  EXPECT_EQ(credentials.run(), "own");
}

TEST(RunCredentials, TheTwoLatestCredentialsCountForTheirLifetimes) {
  RunCredentials credentials("own");
  credentials.UseKey([n = 0](const std::string&, const v1::Hello&,
                             uint64_t) mutable { return absl::StrCat(++n); });
  Limits limits;
  limits.credential_ttl = absl::Seconds(10);
  Node node;
  const auto shows = [&](const std::string& credential, double at) {
    v1::Hello hello;
    hello.set_node_credential(credential);
    return RunCredentials::IsRecent(hello, node, At(at), limits);
  };
  EXPECT_FALSE(shows("", 0)) << "none was issued";
  EXPECT_EQ(credentials.Issue(node, At(1)), "1");
  EXPECT_TRUE(shows("1", 1));
  EXPECT_TRUE(shows("1", 10.9));
  EXPECT_FALSE(shows("1", 11));
  EXPECT_FALSE(shows("2", 1));
  EXPECT_EQ(credentials.Issue(node, At(5)), "2");
  EXPECT_TRUE(shows("1", 10.9)) << "the agent may not have received 2";
  EXPECT_FALSE(shows("1", 11));
  EXPECT_TRUE(shows("2", 14.9));
  EXPECT_EQ(credentials.Issue(node, At(6)), "3");
  EXPECT_FALSE(shows("1", 6));
  EXPECT_TRUE(shows("2", 6));
}

}  // namespace
}  // namespace rollcall
