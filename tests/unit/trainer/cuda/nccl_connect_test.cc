// How ranks connect with a scripted NCCL, and which library is opened.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/library.h"
#include "tests/unit/trainer/cuda/scripted_nccl.h"
#include "trainer/cuda/nccl/nccl_collective.h"
#include "trainer/rank/world_end.h"

namespace rollcall {
namespace {

TEST_F(NcclCollectiveTest, BeginsWhenNcclIsReady) {
  nccl_.answers["init"] = nccl::kInProgress;
  nccl_.states = {nccl::kInProgress, nccl::kInProgress, nccl::kSuccess};
  const auto collective = ConnectNccl(Fake(), Options());
  ASSERT_TRUE(collective.ok()) << collective.status();
  EXPECT_EQ(nccl_.states.size(), 1u);
  EXPECT_EQ(Count("abort"), 0);
}

TEST_F(NcclCollectiveTest, InterruptionAbortsTheInitialization) {
  nccl_.answers["init"] = nccl::kInProgress;
  nccl_.states = {nccl::kInProgress};
  std::thread other([this] {
    nccl_.looked.get_future().wait();
    interruption_->Raise();
  });
  const absl::Time begin = MonotonicNow();
  const auto collective = ConnectNccl(Fake(), Options());
  other.join();
  EXPECT_TRUE(absl::IsAborted(collective.status())) << collective.status();
  EXPECT_EQ(Count("abort"), 1);
  EXPECT_LT(MonotonicNow() - begin, absl::Seconds(5));
}

TEST_F(NcclCollectiveTest, ReportsMissingRanks) {
  nccl_.states = {nccl::kInProgress};
  NcclOptions options = Options();
  options.timeout = absl::Milliseconds(30);
  const auto collective = ConnectNccl(Fake(), std::move(options));
  EXPECT_TRUE(absl::IsDeadlineExceeded(collective.status()));
  EXPECT_EQ(Count("abort"), 1);
}

TEST_F(NcclCollectiveTest, TakesOneIdForEach128Ranks) {
  ASSERT_TRUE(ConnectNccl(Fake(), Options(128)).ok());
  EXPECT_EQ(Count("init"), 1);
  ASSERT_TRUE(ConnectNccl(Fake(), Options(129)).ok());
  EXPECT_EQ(Count("init_scalable 2"), 1);
}

TEST_F(NcclCollectiveTest, UsesTheWorldsIdsIfThereAreAny) {
  NcclOptions options = Options();
  options.exchange = nullptr;
  options.ids = {std::string(128, 'x')};
  options.ids_version = 22809;
  EXPECT_TRUE(ConnectNccl(Fake(), options).ok());
  EXPECT_EQ(Count("get_unique_id"), 0);
  options.ids_version = 22703;
  const absl::Status other = ConnectNccl(Fake(), options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  EXPECT_TRUE(absl::StrContains(other.message(), "22703")) << other;
  options.ids_version = 22809;
  options.ids = {"short"};
  EXPECT_TRUE(absl::IsInternal(ConnectNccl(Fake(), options).status()));
}

TEST_F(NcclCollectiveTest, SaysWhyThereIsNoId) {
  const struct {
    int code;
    absl::StatusCode expect;
  } kRows[] = {{nccl::kSystemError, absl::StatusCode::kUnavailable},
               {nccl::kRemoteError, absl::StatusCode::kUnavailable},
               {nccl::kInvalidUsage, absl::StatusCode::kInternal},
               {nccl::kUnhandledCudaError, absl::StatusCode::kInternal}};
  for (const auto& row : kRows) {
    nccl_.answers["get_unique_id"] = row.code;
    const absl::Status status = ConnectNccl(Fake(), Options()).status();
    EXPECT_EQ(status.code(), row.expect) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "ncclGetUniqueId"));
  }
}

TEST_F(NcclCollectiveTest, RefusesRanksOfAnotherVersion) {
  NcclOptions options = Options();
  options.exchange = [](const std::string&, const std::string& mine) {
    const uint32_t theirs = 22105;
    std::string other(sizeof(theirs), '\0');
    std::memcpy(other.data(), &theirs, sizeof(theirs));
    return absl::StatusOr<std::vector<std::string>>({mine, other});
  };
  options.name = [](int rank) { return absl::StrCat("rank ", rank, " on b"); };
  const absl::Status status = ConnectNccl(Fake(), options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "rank 1 on b has NCCL 22105"))
      << status;
  EXPECT_EQ(Count("init"), 0);
}

// --- The libraries -----------------------------------------------------------

TEST(NcclLibraryTest, MissingOneIsReported) {
  const absl::Status status =
      NcclLibrary::Open("/nowhere/libnccl.so.2").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "/nowhere/libnccl.so.2"))
      << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "LD_LIBRARY_PATH"));
}

TEST(NcclLibraryTest, AnotherLibraryIsNamed) {
  const absl::Status status = NcclLibrary::Open("libm.so.6").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "ncclGetVersion")) << status;
}

TEST(LibraryTest, ReportsForEachNameWhyItDoesNotOpen) {
  const absl::Status status =
      Library::Open({"libnowhere-1.so", "libnowhere-2.so"}).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "libnowhere-1.so"));
  EXPECT_TRUE(absl::StrContains(status.message(), "libnowhere-2.so"));
}

// The real NCCL, if it is installed, must have all functions that are declared.
TEST(NcclLibraryTest, RealOneHasAllUsedFunctions) {
  const absl::StatusOr<NcclLibrary> library = NcclLibrary::Open("");
  if (!library.ok()) GTEST_SKIP() << library.status();
  EXPECT_GE(library->version, 21400);
  EXPECT_NE(library->all_reduce, nullptr);
}

}  // namespace
}  // namespace rollcall
