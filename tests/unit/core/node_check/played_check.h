// A node check that is played to its end by nodes whose answers are given.
#ifndef ROLLCALL_TESTS_UNIT_CORE_NODE_CHECK_PLAYED_CHECK_H_
#define ROLLCALL_TESTS_UNIT_CORE_NODE_CHECK_PLAYED_CHECK_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/durations.h"
#include "daemon/core/limits.h"
#include "daemon/core/node_check/node_check.h"
#include "tests/unit/time_at.h"

namespace rollcall {

// How a node answers in one round.
struct Answer {
  enum class Kind { kTimes, kFails, kBlamesPeer, kSilent, kGone };
  Kind kind = Kind::kTimes;
  double product_ms = 10;
  double all_reduce_ms = 5;
};
inline Answer Takes(double product_ms, double all_reduce_ms = 5) {
  return {Answer::Kind::kTimes, product_ms, all_reduce_ms};
}
inline const Answer kFails{Answer::Kind::kFails};
inline const Answer kPeer{Answer::Kind::kBlamesPeer};
inline const Answer kSilent{Answer::Kind::kSilent};
inline const Answer kGone{Answer::Kind::kGone};
// Nodes that are missing answer as Answer().
using Round = std::map<std::string, Answer>;

inline std::string Draw(uint64_t round, const std::string& word) {
  std::string secret = absl::StrCat(round, word);
  secret.resize(Limits::probe_bytes);
  return secret;
}

inline NodeCheck Checker() {
  NodeCheck check;
  check.UseKey(Draw);
  return check;
}

inline std::vector<NodeToCheck> Nodes(const std::string& names) {
  std::vector<NodeToCheck> nodes;
  for (const char name : names) {
    nodes.push_back(
        {std::string(1, name), absl::StrCat("10.0.0.", nodes.size())});
  }
  return nodes;
}

inline v1::GroupChecked Reported(const Answer& answer, uint64_t round) {
  v1::GroupChecked said;
  said.set_round(round);
  if (answer.kind == Answer::Kind::kTimes) {
    ToProto(absl::Milliseconds(answer.product_ms), said.mutable_product());
    ToProto(absl::Milliseconds(answer.all_reduce_ms),
            said.mutable_all_reduce());
  } else {
    said.set_error("broken");
    said.set_peer(answer.kind == Answer::Kind::kBlamesPeer);
  }
  return said;
}

// A check that is played to its end: "ab cd" for the groups of each round, and
// what was found.
struct Played {
  std::vector<std::string> groups;
  std::string found;  // "c d(why it stays)"
  NodeCheckVerdict verdict;
};

inline Played Play(NodeCheck& check, const std::vector<NodeToCheck>& nodes,
                   const std::vector<Round>& rounds, size_t spare,
                   NodeCheck::Way way = NodeCheck::Way::kPairs) {
  std::map<std::string, std::string> name_of;
  for (const NodeToCheck& node : nodes) name_of[node.address] = node.node;
  Played played;
  absl::Time now = At(1);
  NodeCheck::Requests requests = check.Open(nodes, way, now);
  for (size_t round = 0; check.under_way(); ++round) {
    EXPECT_LT(round, 2u);
    std::vector<std::string> groups;
    const auto answer_of = [&](const std::string& node) {
      if (round >= rounds.size()) return Answer();
      const auto at = rounds[round].find(node);
      return at == rounds[round].end() ? Answer() : at->second;
    };
    // A node of the group has failed.
    bool over = false;
    const auto give = [&](const std::string& node, uint64_t number) {
      const Answer answer = answer_of(node);
      if (answer.kind == Answer::Kind::kGone) return check.Gone(node);
      if (answer.kind == Answer::Kind::kSilent) return;
      EXPECT_EQ(check.TakeChecked(node, Reported(answer, number)), !over)
          << node;
      EXPECT_FALSE(check.TakeChecked(node, Reported(answer, number))) << node;
      over = over || answer.kind == Answer::Kind::kFails;
    };
    for (const auto& [first, request] : requests) {
      over = false;
      std::string group;
      for (const std::string& address : request.addresses()) {
        group += name_of.at(address);
      }
      groups.push_back(group);
      EXPECT_EQ(request.port(), 0u);
      EXPECT_EQ(request.secret().size(), Limits::probe_bytes);
      const Answer::Kind kind = answer_of(first).kind;
      if (group.size() > 1 &&
          (kind == Answer::Kind::kTimes || kind == Answer::Kind::kBlamesPeer)) {
        v1::GroupListening listening;
        listening.set_round(request.round());
        listening.set_port(4000);
        // Only the first node may say this, and only once.
        EXPECT_TRUE(
            check.TakeListening(group.substr(1, 1), listening, now).empty());
        const NodeCheck::Requests others =
            check.TakeListening(first, listening, now);
        EXPECT_EQ(others.size() + 1, group.size());
        EXPECT_TRUE(check.TakeListening(first, listening, now).empty());
        for (const auto& [other, second] : others) {
          EXPECT_EQ(second.port(), 4000u);
          EXPECT_EQ(second.secret(), request.secret());
          give(other, second.round());
        }
      }
      give(first, request.round());
    }
    played.groups.push_back(absl::StrJoin(groups, " "));
    requests = check.Advance(now);
    if (check.under_way() && requests.empty()) {
      now = check.until();
      requests = check.Advance(now);
    }
  }
  std::optional<NodeCheckVerdict> verdict = check.TakeVerdict(spare);
  EXPECT_FALSE(check.TakeVerdict(spare).has_value());
  if (!verdict.has_value()) {
    played.found = "no verdict";
    return played;
  }
  played.found = absl::StrJoin(
      verdict->findings, " ",
      [](std::string* to, const NodeCheckVerdict::Finding& finding) {
        absl::StrAppend(to, finding.node);
        if (!finding.stays.empty())
          absl::StrAppend(to, "(", finding.stays, ")");
      });
  played.verdict = *std::move(verdict);
  return played;
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_CORE_NODE_CHECK_PLAYED_CHECK_H_
