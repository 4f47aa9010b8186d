#include "client/facts/communication.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/facts/bound_facts.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

// "NCCL_ALGO=Ring NCCL_X=#1a2b3c4d".
std::string Text(const v1::CommunicationVariables& all) {
  std::string text;
  for (const v1::CommunicationVariable& each : all.variables()) {
    absl::StrAppend(&text, text.empty() ? "" : " ", each.name(), "=",
                    each.has_digest()
                        ? "#" + absl::BytesToHexString(each.digest())
                        : each.value());
  }
  return text;
}

TEST(Communication, OnlySuchVariablesAreReported) {
  struct {
    std::vector<std::string> environment;
    std::vector<std::string> conf;
    std::string expect;
  } const kRows[] = {
      {{}, {}, ""},
      {{"HOME=/root", "NCCL_PROTO=LL", "NCCL_ALGO=Ring", "odd"},
       {},
       "NCCL_ALGO=Ring NCCL_PROTO=LL"},
      // getenv(3) finds the first.
      {{"NCCL_ALGO=Ring", "NCCL_ALGO=Tree"}, {}, "NCCL_ALGO=Ring"},
      {{"NCCL_ALGO="}, {}, ""},
      {{"NCCL_ALGO=Ring=x"}, {}, "NCCL_ALGO=Ring=x"},
      {{"NCCL_ALGO=Ring"},
       {"NCCL_ALGO=Tree", "NCCL_PROTO=LL"},
       "NCCL_ALGO=Ring NCCL_PROTO=LL"},
      {{"NCCL_ALGO="}, {"NCCL_ALGO=Tree"}, "NCCL_ALGO=Tree"},
      // The SHA-256 of "NCCL_X_TOKEN", a zero byte and "s3cret" begins so.
      {{"NCCL_X_TOKEN=s3cret"}, {}, "NCCL_X_TOKEN=#d3f7dc46"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Text(CommunicationVariablesIn(row.environment, row.conf)),
              row.expect);
  }
}

TEST(Communication, ValuesThatAreNotSentCanBeCompared) {
  for (const std::string& value :
       {std::string(129, 'v'), std::string("\x1b[2J")}) {
    const auto one = CommunicationVariablesIn({"UCX_TLS=" + value}, {});
    const auto same = CommunicationVariablesIn({"UCX_TLS=" + value}, {});
    const auto other = CommunicationVariablesIn({"UCX_TLS=" + value + "x"}, {});
    ASSERT_EQ(one.variables_size(), 1);
    EXPECT_TRUE(one.variables(0).has_digest());
    EXPECT_EQ(Text(one), Text(same));
    EXPECT_NE(Text(one), Text(other));
  }
}

TEST(Communication, TheFactsAreWithinTheirBounds) {
  std::vector<std::string> environment;
  for (int i = 10; i < 75; ++i) {
    environment.push_back(absl::StrCat("UCX_", i, "=", std::string(128, 'v')));
  }
  v1::Facts facts;
  *facts.mutable_communication() = CommunicationVariablesIn(environment, {});
  EXPECT_EQ(facts.communication().variables_size(), 64);
  EXPECT_TRUE(facts.communication().more());
  EXPECT_TRUE(AdmitFacts(facts).ok()) << AdmitFacts(facts);
  environment.pop_back();
  EXPECT_FALSE(CommunicationVariablesIn(environment, {}).more());
  // Where other facts need the room, the last ones are dropped.
  BoundFacts(facts, 64, 2000);
  EXPECT_LE(facts.ByteSizeLong(), 2000u);
  EXPECT_GT(facts.communication().variables_size(), 5);
  EXPECT_TRUE(facts.communication().more());
}

}  // namespace
}  // namespace rollcall
