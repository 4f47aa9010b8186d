// How variables and files of nodes are compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"
#include "tests/unit/core/network_plan/differences_fixture.h"

namespace rollcall {
namespace {

TEST_F(Differences, CommunicationVariablesAreComparedByName) {
  struct Row {
    // "NCCL_ALGO=Ring"; "-": the agent reports none; "+": it has more.
    std::vector<std::vector<std::string>> nodes;
    const char* expect;
  };
  const Row rows[] = {
      {{{}, {}, {}}, ""},
      {{{"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Ring"}}, ""},
      {{{"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Tree"}, {"NCCL_ALGO=Ring"}},
       "NCCL_ALGO: Ring on n0, n2; Tree on n1"},
      {{{}, {"NCCL_ALGO=Tree"}, {}},
       "NCCL_ALGO: not set on n0, n2; Tree on n1"},
      {{{"FI_A=1", "UCX_TLS=tcp"}, {"NCCL_ALGO=Tree", "UCX_TLS=rc"}},
       "FI_A: 1 on n0; not set on n1 | NCCL_ALGO: not set on n0; Tree on n1 | "
       "UCX_TLS: tcp on n0; rc on n1"},
      {{{"NCCL_DEBUG=INFO", "NCCL_HOSTID=a"}, {"NCCL_HOSTID=b"}}, ""},
      {{{"NCCL_X_TOKEN=#abcd"}, {"NCCL_X_TOKEN=#abcd"}}, ""},
      {{{"NCCL_X_TOKEN=#abcd"}, {"NCCL_X_TOKEN=#abce"}},
       "NCCL_X_TOKEN: not shown, digest 61626364 on n0; not shown, digest "
       "61626365 on n1"},
      // An older agent, and one that cannot report all.
      {{{"NCCL_ALGO=Ring"}, {"-"}}, ""},
      {{{"NCCL_ALGO=Ring"}, {"+"}}, ""},
      {{{"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Tree", "+"}},
       "NCCL_ALGO: Ring on n0; Tree on n1"},
  };
  for (const Row& row : rows) {
    CompareVariables(row.nodes);
    EXPECT_EQ(Texts(), row.expect);
  }
  CompareVariables({{}, {}, {"NCCL_ALGO=Tree"}});
  EXPECT_EQ(Differing(), "n2");
}

TEST_F(Differences, FilesAreComparedByTheirDigest) {
  struct Row {
    // The digest of "/f" on each node; "": it cannot be read; "-": not given.
    std::vector<std::string> digests;
    const char* expect;
    const char* excluded = "";
  };
  const Row rows[] = {
      {{"a", "a"}, ""},
      {{"-", "-"}, ""},
      {{"a", "-", "a"}, ""},
      {{"a", "b", "a"},
       "/f: SHA-256 616161616161, 5 bytes on n0, n2; SHA-256 626262626262, 5 "
       "bytes on n1",
       "n1"},
      {{"a", "b"},
       "/f: SHA-256 616161616161, 5 bytes on n0; SHA-256 626262626262, 5 bytes "
       "on n1"},
      {{"a", "", "a"},
       "/f: SHA-256 616161616161, 5 bytes on n0, n2; cannot be used: gone on "
       "n1",
       "n1"},
      {{"", "a"},
       "/f: cannot be used: gone on n0; SHA-256 616161616161, 5 bytes on n1",
       "n0"},
      {{"", "", "a"},
       "/f: cannot be used: gone on n0, n1; SHA-256 616161616161, 5 bytes on "
       "n2",
       "n0,n1"},
      {{"", ""}, "/f: cannot be used: gone on n0, n1", "n0,n1"},
  };
  for (const Row& row : rows) {
    Compare(std::vector<Host>(row.digests.size()));
    for (size_t i = 0; i < row.digests.size(); ++i) {
      const std::string& digest = row.digests[i];
      if (digest == "-") continue;
      v1::SameFile& file = *facts_[i].add_same_files();
      file.set_path("/f");
      file.set_size_bytes(5);
      if (digest.empty()) file.set_error("gone");
      if (!digest.empty()) file.set_sha256(std::string(32, digest[0]));
    }
    reference_ = MostCommonNode(nodes_);
    found_ = FindDifferences(nodes_, reference_);
    EXPECT_EQ(Texts(), row.expect);
    EXPECT_EQ(Differing(), row.excluded) << row.expect;
  }
}

// Also in a job that is not strict.
TEST_F(Differences, ANodeWithAnotherSharedFolderGetsNoSeat) {
  Compare({Host(), {.nccl = "2.1"}, Host(), Host()});
  const char digests[] = {'a', 'a', 'b', 'a'};
  for (size_t i = 0; i < 4; ++i) {
    v1::SameFile& folder = *facts_[i].add_same_files();
    folder.set_path("/data/");
    folder.set_sha256(std::string(32, digests[i]));
  }
  found_ = FindDifferences(nodes_, 0);
  EXPECT_EQ(Texts(),
            "NCCL version: 2.28.9 on n0, n2, n3; 2.1 on n1 | /data/: mark "
            "616161616161 on n0, n1, n3; mark 626262626262 on n2");
  const auto left_out = NodesThatDiffer(nodes_, found_, 0, true, false);
  ASSERT_EQ(left_out.size(), 1u);
  EXPECT_EQ(left_out[0].first, "n2");
  EXPECT_EQ(Differing(), "n1,n2");
  // A newcomer as well.
  const ComparedNode other = nodes_[2];
  const SharedFacts shared({nodes_[0], nodes_[3]});
  EXPECT_TRUE(shared.FindDifference(other, false).has_value());
  EXPECT_FALSE(shared.FindDifference(nodes_[1], false).has_value());
}

TEST_F(Differences, TheNetworkPlansValueCountsWhereTheUserHasSetNone) {
  std::vector<v1::PlannedVariable> plan(1);
  plan[0].set_name("NCCL_IB_DISABLE");
  plan[0].set_value("1");
  const auto found = [&](const std::string& own) {
    CompareVariables({{"NCCL_IB_DISABLE=" + own}, {}});
    for (ComparedNode& node : nodes_) node.plan = &plan;
    found_ = FindDifferences(nodes_, 0);
    return Texts();
  };
  EXPECT_EQ(found("1"), "");
  EXPECT_EQ(found("0"), "NCCL_IB_DISABLE: 0 on n0; 1 on n1");
}

// The plan of a newcomer does not exist yet.
TEST_F(Differences, ANewcomersVariablesAreComparedWithWhatTheMembersGet) {
  std::vector<v1::PlannedVariable> plan(1);
  plan[0].set_name("NCCL_IB_DISABLE");
  plan[0].set_value("1");
  struct Row {
    // The last is the newcomer's; the others have the plan.
    std::vector<std::vector<std::string>> nodes;
    const char* expect;
  };
  const Row rows[] = {
      {{{}, {}, {}}, ""},
      {{{}, {}, {"NCCL_IB_DISABLE=1"}}, ""},
      {{{}, {}, {"NCCL_IB_DISABLE=0"}},
       "NCCL_IB_DISABLE: 1 on n0, n1; 0 on n2"},
      {{{"NCCL_IB_DISABLE=0"}, {"NCCL_IB_DISABLE=0"}, {}},
       "NCCL_IB_DISABLE: 0 on n0, n1; not set on n2"},
      {{{"NCCL_IB_DISABLE=1"}, {}, {}}, ""},
      // The members differ.
      {{{"NCCL_IB_DISABLE=0"}, {}, {"NCCL_IB_DISABLE=2"}}, ""},
      {{{"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Ring"}}, ""},
      {{{"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Tree"}},
       "NCCL_ALGO: Ring on n0, n1; Tree on n2"},
      {{{}, {}, {"NCCL_ALGO=Tree"}},
       "NCCL_ALGO: not set on n0, n1; Tree on n2"},
      {{{}, {"+"}, {"NCCL_ALGO=Tree"}}, "NCCL_ALGO: not set on n0; Tree on n2"},
      {{{"-"}, {"-"}, {"NCCL_ALGO=Tree"}}, ""},
  };
  for (const Row& row : rows) {
    CompareVariables(row.nodes);
    ComparedNode newcomer = nodes_.back();
    nodes_.pop_back();
    for (ComparedNode& node : nodes_) node.plan = &plan;
    const auto found = SharedFacts(nodes_).FindDifference(newcomer);
    EXPECT_EQ(found.has_value() ? DifferenceText(*found) : "", row.expect);
  }
}

// One node cannot hide what the others set, nor fill the status.
TEST_F(Differences, ManyVariablesOfOneNodeHideNone) {
  const auto many = [](const std::string& prefix) {
    std::vector<std::string> variables;
    for (int i = 10; i < 74; ++i) {
      variables.push_back(absl::StrCat(prefix, i, "=x"));
    }
    return variables;
  };
  struct Row {
    std::vector<std::vector<std::string>> nodes;
    std::vector<std::string> named;
  };
  const Row rows[] = {
      // What two nodes set otherwise.
      {{many("FI_A"), {"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Tree"}}, {"NCCL_ALGO"}},
      // What one other node sets and no third one.
      {{many("FI_A"), {"NCCL_ALGO=Ring"}, {}}, {"NCCL_ALGO", "FI_A10"}},
      {{many("FI_A"), many("FI_B"), {"NCCL_ALGO=Ring", "UCX_TLS=rc"}},
       {"NCCL_ALGO", "UCX_TLS", "FI_A10", "FI_B10"}},
      {{many("FI_A"),
        many("FI_B"),
        many("FI_C"),
        many("FI_D"),
        many("FI_E"),
        many("FI_F"),
        many("FI_G"),
        many("FI_H"),
        {"NCCL_ALGO=Ring"}},
       {"NCCL_ALGO"}},
  };
  for (const Row& row : rows) {
    CompareVariables(row.nodes);
    EXPECT_EQ(found_.size(), Limits::differing_variables_max);
    EXPECT_TRUE(std::is_sorted(
        found_.begin(), found_.end(),
        [](const auto& a, const auto& b) { return a.fact() < b.fact(); }));
    for (const std::string& name : row.named) {
      EXPECT_TRUE(absl::StrContains(Texts(), name)) << name << ": " << Texts();
    }
  }
}

TEST_F(Differences, MessagesStaySmall) {
  std::vector<Host> hosts;
  for (int i = 0; i < 1024; ++i) {
    hosts.push_back({.nccl = absl::StrCat("2.", i % 100)});
  }
  Compare(hosts);
  ASSERT_EQ(found_.size(), 1u);
  EXPECT_EQ(found_[0].sides_size(), 8);
  EXPECT_EQ(found_[0].side_count(), 100u);
  EXPECT_EQ(found_[0].sides(0).node_count(), 11u);
  EXPECT_EQ(found_[0].sides(0).nodes_size(), 8);
  EXPECT_LT(found_[0].ByteSizeLong(), 2000u);
  Compare({Host(), {.model = std::string(10'000, 'g')}});
  ASSERT_EQ(found_.size(), 1u);
  EXPECT_LT(found_[0].ByteSizeLong(), 1000u);
}

}  // namespace
}  // namespace rollcall
