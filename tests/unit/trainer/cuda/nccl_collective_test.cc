// NcclCollective with a scripted NCCL and a scripted device: what it waits for,
// what ends it, and its messages.
#include "trainer/cuda/nccl/nccl_collective.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/unit/trainer/cuda/scripted_nccl.h"
#include "trainer/rank/world_end.h"

namespace rollcall {
namespace {

TEST_F(NcclCollectiveTest, SumsFollowTheComputeThatFillsThem) {
  const auto collective = Connected();
  streams_.looks = 5;
  EXPECT_TRUE(collective->BeginSum(absl::MakeSpan(streams_.own)).ok());
  EXPECT_EQ(collective->seen().entered, 1u);
  EXPECT_EQ(collective->seen().left, 0u);
  EXPECT_TRUE(collective->Wait().ok());
  EXPECT_EQ(nccl_.calls, (std::vector<std::string>{
                             "after compute", "all_reduce", "before compute"}));
  EXPECT_EQ(streams_.looks, 0);
  EXPECT_EQ(collective->seen().left, 1u);
  EXPECT_EQ(streams_.own[0], 2);
  EXPECT_TRUE(collective->Wait().ok());  // Nothing was begun.
  EXPECT_EQ(nccl_.calls.size(), 3u);
}

// A rank holds up the others if its device has not reached a collective that
// they are in. What its host has put into the stream does not count.
TEST_F(NcclCollectiveTest, SeenIsWhatTheDeviceHasComeTo) {
  const auto collective = Connected();
  streams_.looks = -1;
  streams_.compute_done = false;
  ASSERT_TRUE(collective->BeginSum(absl::MakeSpan(streams_.own)).ok());
  ASSERT_TRUE(collective->BeginSum(absl::MakeSpan(streams_.own)).ok());
  EXPECT_EQ(collective->seen().entered, 0u);
  streams_.compute_done = true;
  EXPECT_EQ(collective->seen().entered, 2u);
  EXPECT_EQ(collective->seen().left, 0u);
  streams_.looks = 0;
  EXPECT_EQ(collective->seen().left, 2u);
  // The next communicator counts from 0.
  EXPECT_EQ(Connected()->seen().entered, 0u);
}

TEST_F(NcclCollectiveTest, InterruptionAbortsADeviceWait) {
  const auto collective = Connected();
  streams_.looks = -1;
  ASSERT_TRUE(collective->BeginSum(absl::MakeSpan(streams_.own)).ok());
  interruption_->Raise();
  EXPECT_TRUE(absl::IsAborted(collective->Wait()));
  EXPECT_EQ(Count("abort"), 1);
  // It also refuses further collectives.
  EXPECT_TRUE(absl::IsAborted(collective->Wait()));
  EXPECT_TRUE(
      absl::IsAborted(collective->BeginSum(absl::MakeSpan(streams_.own))));
  EXPECT_EQ(Count("all_reduce"), 1);
  EXPECT_EQ(Count("abort"), 1);
}

TEST_F(NcclCollectiveTest, AsyncErrorIsReportedWithNcclsText) {
  const auto collective = Connected();
  streams_.looks = -1;
  ASSERT_TRUE(collective->BeginSum(absl::MakeSpan(streams_.own)).ok());
  nccl_.states = {nccl::kRemoteError};
  const absl::Status status = collective->Wait();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "socket to 10.0.0.2 closed"))
      << status;
  EXPECT_EQ(Count("abort"), 1);
}

// Each error of NCCL, wherever it comes up. A rank whose peer has failed waits
// for the next world and blames no rank: the daemon knows which is gone. A rank
// that has failed itself ends, with its message as the reason, and is blamed.
TEST_F(NcclCollectiveTest, ErrorsByMeaning) {
  const struct {
    int error;
    absl::StatusCode code;
    bool waits;
    const char* printed;
  } kRows[] = {
      {nccl::kUnhandledCudaError, absl::StatusCode::kInternal, false,
       ": CUDA error (1): socket to 10.0.0.2 closed"},
      {nccl::kSystemError, absl::StatusCode::kUnavailable, true,
       ": system error (2): socket to 10.0.0.2 closed"},
      {nccl::kInternalError, absl::StatusCode::kUnavailable, true,
       ": internal error (3): socket to 10.0.0.2 closed"},
      {nccl::kInvalidArgument, absl::StatusCode::kInternal, false,
       ": invalid argument (4): socket to 10.0.0.2 closed"},
      {nccl::kInvalidUsage, absl::StatusCode::kInternal, false,
       ": invalid usage (5): socket to 10.0.0.2 closed"},
      {nccl::kRemoteError, absl::StatusCode::kUnavailable, true,
       ": remote error (6): socket to 10.0.0.2 closed; a peer has failed "
       "first"},
      // From a later version.
      {99, absl::StatusCode::kInternal, false,
       ": unknown result code (99): socket to 10.0.0.2 closed"},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.error);
    const auto expect = [&](const char* call, const absl::Status& status) {
      EXPECT_EQ(status.code(), row.code);
      EXPECT_EQ(status.message(),
                absl::StrCat("NCCL: ", call, " of 2 ranks", row.printed));
      EXPECT_EQ(MayBeWorldEnd(status, /*aborted=*/false), row.waits);
    };
    nccl_.answers["init"] = row.error;
    expect("the initialization", ConnectNccl(Fake(), Options()).status());
    nccl_.answers.clear();
    const auto collective = Connected();
    nccl_.answers["all_reduce"] = row.error;
    expect("a sum", collective->BeginSum(absl::MakeSpan(streams_.own)));
    EXPECT_EQ(Count("abort"), 1);
    nccl_.answers.clear();
    const auto other = Connected();
    streams_.looks = -1;
    ASSERT_TRUE(other->BeginSum(absl::MakeSpan(streams_.own)).ok());
    nccl_.states = {row.error};
    const absl::Status status = other->Wait();
    expect("the sums of a step", status);
    // The communicator is of no use after it.
    EXPECT_EQ(Count("abort"), 1);
    EXPECT_EQ(other->BeginSum(absl::MakeSpan(streams_.own)), status);
    nccl_.states.clear();
    streams_.looks = 0;
  }
}

TEST_F(NcclCollectiveTest, SilentPeerTimesOut) {
  NcclOptions options = Options();
  options.timeout = absl::Milliseconds(30);
  auto collective = ConnectNccl(Fake(), std::move(options));
  ASSERT_TRUE(collective.ok());
  streams_.looks = -1;
  ASSERT_TRUE((*collective)->BeginSum(absl::MakeSpan(streams_.own)).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded((*collective)->Wait()));
  EXPECT_EQ(Count("abort"), 1);
}

TEST_F(NcclCollectiveTest, LongComputeDoesNotTimeOut) {
  NcclOptions options = Options();
  options.timeout = absl::Milliseconds(20);
  auto collective = ConnectNccl(Fake(), std::move(options));
  ASSERT_TRUE(collective.ok());
  streams_.looks = 100;  // Each poll takes at most 1 ms.
  streams_.compute_done = false;
  ASSERT_TRUE((*collective)->BeginSum(absl::MakeSpan(streams_.own)).ok());
  EXPECT_TRUE((*collective)->Wait().ok());
}

TEST_F(NcclCollectiveTest, HostMemoryGoesThroughTheDevice) {
  const auto collective = Connected();
  std::vector<float> values = {1, 2, 3};
  EXPECT_TRUE(
      collective->AllReduce(absl::MakeSpan(values), Reduction::kSum).ok());
  EXPECT_EQ(values, (std::vector<float>{2, 4, 6}));
  EXPECT_TRUE(
      collective->AllReduce(absl::MakeSpan(values), Reduction::kMax).ok());
  EXPECT_EQ(values, (std::vector<float>{2, 4, 6}));
  std::string all(6, ' ');
  EXPECT_TRUE(
      collective->AllGather(std::string("abc"), absl::MakeSpan(all)).ok());
  EXPECT_EQ(all, "abcabc");
  std::vector<float> mine(2), both = {1, 2, 3, 4};
  EXPECT_TRUE(
      collective->ReduceScatter(absl::MakeSpan(both), absl::MakeSpan(mine))
          .ok());
  EXPECT_EQ(mine, (std::vector<float>{2, 4}));
  std::string bytes = "xyz";
  EXPECT_TRUE(collective->Broadcast(absl::MakeSpan(bytes), 1).ok());
  EXPECT_EQ(Count("broadcast 1"), 1);
  std::string in(3, ' ');
  EXPECT_TRUE(
      collective->SendReceive(std::string("abc"), absl::MakeSpan(in)).ok());
  EXPECT_EQ(Count("send 1"), 1);
  EXPECT_EQ(Count("receive 1"), 1);
  // With two ranks, the previous rank is also the next one. One direction is
  // empty.
  EXPECT_TRUE(collective->SendReceiveBack({}, absl::MakeSpan(in)).ok());
  EXPECT_TRUE(collective->SendReceive(std::string("abc"), {}).ok());
  EXPECT_EQ(Count("send 1"), 3);
  EXPECT_EQ(collective->seen().left, 8u);
}

TEST_F(NcclCollectiveTest, RefusedCallEndsIt) {
  const auto collective = Connected();
  nccl_.answers["send 1"] = 2;
  std::string in(3, ' ');
  const absl::Status status =
      collective->SendReceive(std::string("abc"), absl::MakeSpan(in));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(Count("group_end"), 1);  // The group that was opened is closed.
  EXPECT_EQ(Count("abort"), 1);
}

TEST_F(NcclCollectiveTest, BrokenDeviceEndsIt) {
  const auto collective = Connected();
  ASSERT_TRUE(collective->BeginSum(absl::MakeSpan(streams_.own)).ok());
  streams_.broken = absl::InternalError("an illegal memory access");
  EXPECT_TRUE(absl::IsInternal(collective->Wait()));
  EXPECT_EQ(Count("abort"), 1);
}

TEST_F(NcclCollectiveTest, FinishesWithAllRanks) {
  auto collective = Connected();
  nccl_.answers["finalize"] = nccl::kInProgress;
  nccl_.states = {nccl::kInProgress, nccl::kSuccess};
  EXPECT_TRUE(collective->Finish().ok());
  collective.reset();
  EXPECT_EQ(nccl_.calls, (std::vector<std::string>{"finalize", "destroy"}));
}

TEST_F(NcclCollectiveTest, UnfinishedIsAborted) {
  auto collective = Connected();
  collective.reset();
  EXPECT_EQ(Count("abort"), 1);
}

}  // namespace
}  // namespace rollcall
