#include "client/agent/nccl/ras_status.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/files/whole_file.h"
#include "tests/unit/places.h"

namespace rollcall {
namespace {

const std::set<std::string> kHere{"10.0.0.1", "fe80::1", "127.0.0.1"};

// NCCL 2.28.9's answer for two ranks. Rank 0 (process 482) is in the fifth
// all-reduce; rank 1 (process 481) has not entered it.
RasStatus Recorded() {
  const absl::StatusOr<std::string> json = ReadWholeFile(
      absl::StrCat(kRecordedFolder, "/nccl_ras_status.json"), 1 << 20);
  EXPECT_TRUE(json.ok()) << json.status();
  const absl::StatusOr<RasStatus> status = ParseRasStatus(*json);
  EXPECT_TRUE(status.ok()) << status.status();
  return status.value_or(RasStatus());
}

TEST(RasStatus, ARecordedAnswerNamesTheRankThatIsBehind) {
  const RasStatus status = Recorded();
  ASSERT_EQ(status.communicators.size(), 1u);
  const RasPlace behind = FindPlace(status, {{7, 481}, kHere});
  EXPECT_EQ(behind.place, v1::NCCL_PLACE_BEHIND);
  EXPECT_EQ(behind.text,
            "NCCL: 4 collectives begun in communicator 0xe86360c6fd238bd9 of 2 "
            "ranks, others 5");
  const RasPlace waits = FindPlace(status, {{482}, kHere});
  EXPECT_EQ(waits.place, v1::NCCL_PLACE_WAITS);
  EXPECT_EQ(waits.text,
            "NCCL: 5 collectives begun in communicator 0xe86360c6fd238bd9 of 2 "
            "ranks, waits for rank 1 (process 481 on 127.0.0.1) with 4");
  // Other processes of this machine, and the same pid on another machine, are
  // not found.
  EXPECT_EQ(FindPlace(status, {{7}, kHere}).place, v1::NCCL_PLACE_UNSPECIFIED);
  EXPECT_EQ(FindPlace(status, {{481}, {"10.0.0.2"}}).place,
            v1::NCCL_PLACE_UNSPECIFIED);
}

RasRank At(uint64_t begun, int64_t pid, const char* host = "10.0.0.1",
           int64_t device = 0) {
  return {pid % 10, host, pid, device, begun};
}

TEST(FindPlace, WhoWaitsForNoOneAndIsBehindIsBehind) {
  const RasRank dead{3, "10.0.0.2", 43, 0, 0};
  const struct {
    const char* what;
    std::vector<RasCommunicator> communicators;
    v1::NcclPlace place;
    const char* text;
  } kRows[] = {
      {"in none", {}, v1::NCCL_PLACE_UNSPECIFIED, ""},
      {"of others only",
       {{"x", 2, {At(5, 11), At(4, 12)}, {}}},
       v1::NCCL_PLACE_UNSPECIFIED,
       ""},
      {"all at one place",
       {{"x", 2, {At(5, 21), At(5, 12)}, {}}},
       v1::NCCL_PLACE_UNSPECIFIED,
       ""},
      {"behind",
       {{"x", 3, {At(4, 21), At(5, 12), At(4, 13)}, {}}},
       v1::NCCL_PLACE_BEHIND,
       "NCCL: 4 collectives begun in communicator x of 3 ranks, others 5"},
      {"ahead",
       {{"x", 3, {At(5, 21), At(4, 12), At(5, 13)}, {}}},
       v1::NCCL_PLACE_WAITS,
       "waits for rank 2 (process 12 on 10.0.0.1) with 4"},
      {"behind in one, since it waits in another",
       {{"x", 2, {At(4, 21), At(5, 12)}, {}},
        {"y", 2, {At(9, 21), At(8, 13)}, {}}},
       v1::NCCL_PLACE_WAITS,
       "others 5; 9 collectives begun in communicator y"},
      {"behind in one, and at one place in another",
       {{"x", 2, {At(4, 21), At(5, 12)}, {}},
        {"y", 2, {At(9, 21), At(9, 13)}, {}}},
       v1::NCCL_PLACE_BEHIND,
       "communicator x"},
      {"two are named",
       {{"x", 2, {At(4, 21), At(5, 12)}, {}},
        {"y", 2, {At(4, 21), At(5, 12)}, {}},
        {"z", 2, {At(4, 21), At(5, 12)}, {}}},
       v1::NCCL_PLACE_BEHIND,
       "communicator y of 2 ranks, others 5; and 1 further communicators"},
      {"a rank that does not answer is waited for",
       {{"x", 3, {At(4, 21), At(5, 12)}, {dead}}},
       v1::NCCL_PLACE_WAITS,
       "waits for rank 3 (process 43 on 10.0.0.2), which does not answer"},
      {"of a process with two GPUs the rank that is further behind",
       {{"x", 3, {At(5, 21), At(4, 21, "10.0.0.1", 1), At(5, 12)}, {}}},
       v1::NCCL_PLACE_BEHIND,
       "others 5"},
      {"two processes with one pid and one address",
       {{"x", 3, {At(5, 21), At(4, 21), At(5, 12)}, {}}},
       v1::NCCL_PLACE_UNSPECIFIED,
       ""},
      {"the zone of an address does not matter",
       {{"x", 2, {At(4, 21, "fe80::1%eth0"), At(5, 12)}, {}}},
       v1::NCCL_PLACE_BEHIND,
       "others 5"},
  };
  for (const auto& row : kRows) {
    const RasPlace place = FindPlace({row.communicators}, {{21}, kHere});
    EXPECT_EQ(place.place, row.place) << row.what;
    EXPECT_TRUE(absl::StrContains(place.text, row.text))
        << row.what << ": " << place.text;
    EXPECT_EQ(place.text.empty(), row.text[0] == '\0') << row.what;
  }
}

TEST(FindPlace, ManyThatAreWaitedForAreCounted) {
  RasCommunicator all{"x", 100, {At(5, 21)}, {}};
  for (int64_t pid = 100; pid < 199; ++pid) all.ranks.push_back(At(4, pid));
  const RasPlace place = FindPlace({{all}}, {{21}, kHere});
  EXPECT_TRUE(absl::EndsWith(place.text, " and 95 more")) << place.text;
}

TEST(ParseRasStatus, WhatIsNoAnswerIsRefusedAndWrongMembersCountAsMissing) {
  for (const char* json :
       {"", "OK", "{", "[]", "{\"communicators\": 3}", "\xff", "null"}) {
    const absl::StatusOr<RasStatus> status = ParseRasStatus(json);
    EXPECT_TRUE(absl::IsInvalidArgument(status.status())) << json;
    EXPECT_TRUE(absl::StrContains(status.status().message(), "2.28.7"))
        << status.status();
  }
  for (const char* json :
       {"{\"communicators\": []}", "{\"communicators\": [1, null, {}]}",
        "{\"communicators\": [{\"ranks\": 1, \"missing_ranks\": [[]]}]}",
        "{\"communicators\": [{\"ranks\": [{\"pid\": -1, \"host\": 7, "
        "\"collective_counts\": {\"AllReduce\": \"5\"}}]}]}"}) {
    const absl::StatusOr<RasStatus> status = ParseRasStatus(json);
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_EQ(FindPlace(*status, {{21}, kHere}).text, "") << json;
  }
}

TEST(ParseRasStatus, WhoHasLeftIsNotMissing) {
  const absl::StatusOr<RasStatus> status = ParseRasStatus(
      "{\"communicators\": [{\"missing_ranks\": [{\"rank\": 1, "
      "\"unresponsive\": false, \"considered_dead\": false}, {\"rank\": 2, "
      "\"unresponsive\": true}, {\"rank\": 3, \"considered_dead\": true}, "
      "{\"rank\": 4}]}]}");
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_EQ(status->communicators.size(), 1u);
  std::vector<int64_t> missing;
  for (const RasRank& rank : status->communicators[0].missing) {
    missing.push_back(rank.rank);
  }
  EXPECT_EQ(missing, (std::vector<int64_t>{2, 3}));
}

TEST(ParseRasStatus, AnAnswerWithoutEndIsRefused) {
  std::string json = "{\"communicators\": [";
  for (size_t i = 0; i < kRasPartsMax; ++i) json += "{},";
  EXPECT_TRUE(ParseRasStatus(json + "1]}").ok());
  const absl::Status status = ParseRasStatus(json + "{}]}").status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  const std::string deep(100'000, '[');
  EXPECT_TRUE(absl::IsInvalidArgument(ParseRasStatus(deep).status()));
}

TEST(ParseRasStatus, TextsAreMadePrintable) {
  const absl::StatusOr<RasStatus> status = ParseRasStatus(
      "{\"communicators\": [{\"hash\": \"\\u001b[2J\\n\", \"ranks\": "
      "[{\"pid\": "
      "21, \"host\": \"10.0.0.1\"}, {\"pid\": 1, \"collective_counts\": "
      "{\"AllReduce\": 3}}]}]}");
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(
      FindPlace(*status, {{21}, kHere}).text,
      "NCCL: 0 collectives begun in communicator ?[2J? of 0 ranks, others "
      "3");
}

}  // namespace
}  // namespace rollcall
