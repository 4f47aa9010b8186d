#include "daemon/security/secrets/node_credential.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "daemon/security/secrets/commit_proof.h"

namespace rollcall {
namespace {

const std::string kKey(32, 'k');
const absl::Time kEndsAt = absl::FromUnixSeconds(1'800'000'000);

bool IsOwn(const std::string& key, const v1::Hello& hello) {
  return TermsOfCredential(key, hello).has_value();
}

v1::Hello Welcomed() {
  v1::Hello hello;
  hello.set_job("train");
  hello.set_run("run1");
  hello.set_node("a");
  hello.set_incarnation(7);
  hello.set_node_credential(NodeCredential(kKey, "run1", hello, {0, kEndsAt}));
  return hello;
}

TEST(NodeCredential, IsTheSameInEveryLifeOfADaemon) {
  EXPECT_EQ(absl::BytesToHexString(Welcomed().node_credential()),
            "c2f6b9f2fb347cbc6894fd31adae16f649eb5a6bec7bf2ba39fab081a171749a"
            "0000000000000000000000006b49d200");
  EXPECT_TRUE(IsOwn(kKey, Welcomed()));
}

TEST(NodeCredential, IsBoundToAllThatItNames) {
  const std::function<void(v1::Hello&)> changes[] = {
      [](v1::Hello& h) { h.set_job("train2"); },
      [](v1::Hello& h) { h.set_run("run2"); },
      [](v1::Hello& h) { h.clear_run(); },
      [](v1::Hello& h) { h.set_node("b"); },
      [](v1::Hello& h) { h.set_incarnation(8); },
      [](v1::Hello& h) { h.set_previous_incarnation(8); },
      [](v1::Hello& h) { h.set_launcher(true); },
      [](v1::Hello& h) { h.mutable_node_credential()->front() ^= 1; },
      [](v1::Hello& h) { h.mutable_node_credential()->back() ^= 1; },
      [](v1::Hello& h) { h.mutable_node_credential()->pop_back(); },
      [](v1::Hello& h) { h.mutable_node_credential()->push_back('x'); },
      [](v1::Hello& h) { h.set_node_credential(""); },
      [](v1::Hello& h) { h.clear_node_credential(); },
      // The letters are the same, but the names are split at another place.
      [](v1::Hello& h) {
        h.set_job("trai");
        h.set_run("nrun1");
      },
  };
  int number = 0;
  for (const auto& change : changes) {
    v1::Hello hello = Welcomed();
    change(hello);
    EXPECT_FALSE(IsOwn(kKey, hello)) << "change " << number;
    ++number;
  }
  EXPECT_FALSE(IsOwn(std::string(32, 'l'), Welcomed()));
}

TEST(NodeCredential, TheLaunchersIsTheLaunchers) {
  v1::Hello hello = Welcomed();
  hello.set_launcher(true);
  hello.set_node_credential(NodeCredential(kKey, "run1", hello, {0, kEndsAt}));
  EXPECT_TRUE(IsOwn(kKey, hello));
  hello.set_launcher(false);
  EXPECT_FALSE(IsOwn(kKey, hello));
}

TEST(NodeCredential, SpeaksForTheNextIncarnationOfItsAgent) {
  v1::Hello hello = Welcomed();
  hello.set_incarnation(8);
  hello.set_previous_incarnation(7);
  EXPECT_TRUE(IsOwn(kKey, hello));
  // The previous incarnation is checked, not the new one.
  hello.set_incarnation(9);
  EXPECT_TRUE(IsOwn(kKey, hello));
  hello.set_previous_incarnation(8);
  EXPECT_FALSE(IsOwn(kKey, hello));
}

TEST(NodeCredential, SaysItsTermsAndIsBoundToThem) {
  v1::Hello hello = Welcomed();
  for (const uint64_t epoch : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
    for (const absl::Time ends_at : {absl::UnixEpoch(), kEndsAt}) {
      hello.set_node_credential(
          NodeCredential(kKey, "run1", hello, {epoch, ends_at}));
      const std::string credential = hello.node_credential();
      ASSERT_EQ(credential.size(), 48u);
      const auto terms = TermsOfCredential(kKey, hello);
      ASSERT_TRUE(terms.has_value());
      EXPECT_EQ(terms->epoch, epoch);
      EXPECT_EQ(terms->ends_at, ends_at);
      // The epoch or the expiry is changed, with the same MAC.
      for (const size_t byte : {39, 47}) {
        hello.set_node_credential(credential);
        (*hello.mutable_node_credential())[byte] ^= 1;
        EXPECT_FALSE(IsOwn(kKey, hello)) << byte;
      }
      hello.set_node_credential(credential.substr(0, 40));
      EXPECT_FALSE(IsOwn(kKey, hello));
    }
  }
}

// --- Commit proofs -----------------------------------------------------------

TEST(CommitProof, IsBoundToAllThatItProves) {
  v1::Hello hello;
  hello.set_job("train");
  hello.set_run("run1");
  hello.mutable_resume_state()->set_running_generation(3);
  hello.mutable_resume_state()->set_world("world");
  hello.mutable_resume_state()->set_world_commit("world commit");
  hello.mutable_resume_state()->set_proof(
      CommitProof(kKey, "train", "run1", 3, "world", "world commit"));
  EXPECT_TRUE(HoldsCommitProof(kKey, hello));
  EXPECT_FALSE(HoldsCommitProof(std::string(32, 'l'), hello));
  EXPECT_FALSE(HoldsCommitProof("", hello));
  const std::function<void(v1::Hello&)> changes[] = {
      [](v1::Hello& h) { h.set_job("train2"); },
      [](v1::Hello& h) { h.set_run("run2"); },
      [](v1::Hello& h) { h.mutable_resume_state()->set_running_generation(4); },
      [](v1::Hello& h) { h.mutable_resume_state()->set_world("worl"); },
      [](v1::Hello& h) { h.mutable_resume_state()->set_world_commit("sea"); },
      [](v1::Hello& h) {
        h.mutable_resume_state()->set_world("worlds");
        h.mutable_resume_state()->set_world_commit("eal");
      },
      [](v1::Hello& h) { h.mutable_resume_state()->clear_proof(); },
      [](v1::Hello& h) {
        h.mutable_resume_state()->mutable_proof()->back() ^= 1;
      },
  };
  int number = 0;
  for (const auto& change : changes) {
    v1::Hello other = hello;
    change(other);
    EXPECT_FALSE(HoldsCommitProof(kKey, other)) << "change " << number;
    ++number;
  }
}

TEST(CommitProof, EachSecretHasAKeyOfItsOwn) {
  const auto a = SharedSecret::Parse(std::string(32, 'a'));
  const auto b = SharedSecret::Parse(std::string(32, 'b'));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(CommitProofKey(*a), CommitProofKey(*a));
  EXPECT_NE(CommitProofKey(*a), CommitProofKey(*b));
  EXPECT_NE(CommitProofKey(*a), a->Derive("credential key", 32));
}

}  // namespace
}  // namespace rollcall
