// NcclCollective with a scripted NCCL and a scripted device: what it waits for,
// what ends it, and its messages.
#include "trainer/cuda/nccl_collective.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/library.h"
#include "trainer/world_end.h"

namespace rollcall {
namespace {

// NCCL's functions are plain functions, so their calls and answers are global.
struct FakeNccl {
  std::vector<std::string> calls;
  std::map<std::string, int> answers;  // Default: success.
  std::vector<int> states;             // Of async_error; the last repeats.
  int ids_given = 0;
  std::promise<void> looked;  // Set at the third call of async_error.
  int looks = 0;
};
FakeNccl* fake = nullptr;

int Called(const char* name) {
  fake->calls.push_back(name);
  const auto answer = fake->answers.find(name);
  return answer == fake->answers.end() ? nccl::kSuccess : answer->second;
}

NcclLibrary Fake() {
  using Communicator = NcclLibrary::Communicator;
  NcclLibrary n;
  n.name = "libfake.so";
  n.version = 22809;
  n.get_unique_id = [](nccl::UniqueId* id) {
    std::memset(id->bytes, 'a' + fake->ids_given++, sizeof(id->bytes));
    return Called("get_unique_id");
  };
  n.error_string = [](int code) {
    constexpr const char* kTexts[] = {
        "no error",         "CUDA error",    "system error", "internal error",
        "invalid argument", "invalid usage", "remote error"};
    return code < static_cast<int>(std::size(kTexts)) ? kTexts[code]
                                                      : "unknown result code";
  };
  n.last_error = [](Communicator) { return "socket to 10.0.0.2 closed"; };
  n.init = [](Communicator* made, int, nccl::UniqueId, int,
              nccl::Config* config) {
    EXPECT_EQ(config->blocking, 0);
    *made = reinterpret_cast<Communicator>(fake);
    return Called("init");
  };
  n.init_scalable = [](Communicator* made, int, int, int ids, nccl::UniqueId*,
                       nccl::Config*) {
    *made = reinterpret_cast<Communicator>(fake);
    return Called(absl::StrCat("init_scalable ", ids).c_str());
  };
  n.async_error = [](Communicator, int* state) {
    *state = nccl::kSuccess;
    if (++fake->looks == 3) fake->looked.set_value();
    if (!fake->states.empty()) {
      *state = fake->states.front();
      if (fake->states.size() > 1) fake->states.erase(fake->states.begin());
    }
    return nccl::kSuccess;
  };
  n.finalize = [](Communicator) { return Called("finalize"); };
  n.destroy = [](Communicator) { return Called("destroy"); };
  n.abort = [](Communicator) { return Called("abort"); };
  n.group_start = [] { return Called("group_start"); };
  n.group_end = [] { return Called("group_end"); };
  // Sums as for two ranks that have the same values.
  n.all_reduce = [](const void* in, void* out, size_t count, int, int reduction,
                    Communicator, cuda::Stream) {
    const auto* from = static_cast<const float*>(in);
    auto* to = static_cast<float*>(out);
    for (size_t i = 0; i < count; ++i) {
      to[i] = reduction == nccl::kSum ? 2 * from[i] : from[i];
    }
    return Called("all_reduce");
  };
  n.broadcast = [](const void*, void*, size_t, int, int root, Communicator,
                   cuda::Stream) {
    return Called(absl::StrCat("broadcast ", root).c_str());
  };
  n.all_gather = [](const void* in, void* out, size_t bytes, int, Communicator,
                    cuda::Stream) {
    std::memcpy(out, in, bytes);
    std::memcpy(static_cast<char*>(out) + bytes, in, bytes);
    return Called("all_gather");
  };
  n.reduce_scatter = [](const void* in, void* out, size_t count, int, int,
                        Communicator, cuda::Stream) {
    const auto* from = static_cast<const float*>(in);
    for (size_t i = 0; i < count; ++i) {
      static_cast<float*>(out)[i] = 2 * from[i];
    }
    return Called("reduce_scatter");
  };
  n.send = [](const void*, size_t, int, int peer, Communicator, cuda::Stream) {
    return Called(absl::StrCat("send ", peer).c_str());
  };
  n.receive = [](void*, size_t, int, int peer, Communicator, cuda::Stream) {
    return Called(absl::StrCat("receive ", peer).c_str());
  };
  return n;
}

// A device whose work is done after `looks` polls. All memory except `own` is
// host memory.
class FakeStreams final : public Streams {
 public:
  cuda::Stream compute() const override { return nullptr; }
  cuda::Stream communication() const override { return nullptr; }
  absl::Status CommunicationAfterCompute() override {
    fake->calls.push_back("after compute");
    return absl::OkStatus();
  }
  absl::Status ComputeAfterCommunication() override {
    fake->calls.push_back("before compute");
    return absl::OkStatus();
  }
  absl::StatusOr<bool> ComputeIsDone() override { return compute_done; }
  absl::StatusOr<bool> CommunicationIsDone() override {
    if (!broken.ok()) return broken;
    return looks > 0 && --looks == 0 ? true : looks == 0;
  }
  absl::Status Count(Counter counter) override {
    ++begun[static_cast<int>(counter)];
    return absl::OkStatus();
  }
  uint64_t Begun(Counter counter) const override {
    return begun[static_cast<int>(counter)];
  }
  // The device stops before the first collective or in it.
  uint64_t Counted(Counter counter) const override {
    const bool there = compute_done && (counter == Counter::kEntered || !looks);
    return there ? begun[static_cast<int>(counter)] : 0;
  }
  bool IsOnDevice(const void* memory) const override {
    return memory >= own.data() && memory < own.data() + own.size();
  }
  absl::StatusOr<char*> Room(size_t bytes) override {
    room.resize(bytes);
    return room.data();
  }
  absl::Status CopyIn(char* device, absl::Span<const char> host) override {
    std::copy(host.begin(), host.end(), device);
    return absl::OkStatus();
  }
  absl::Status CopyOut(absl::Span<char> host, const char* device) override {
    std::copy_n(device, host.size(), host.begin());
    return absl::OkStatus();
  }

  std::vector<float> own = std::vector<float>(8, 1.0f);
  std::vector<char> room;
  int looks = 0;  // -1: never done.
  uint64_t begun[2] = {};
  bool compute_done = true;
  absl::Status broken;
};

class NcclCollectiveTest : public testing::Test {
 protected:
  void SetUp() override { fake = &nccl_; }
  void TearDown() override { fake = nullptr; }

  NcclOptions Options(int size = 2) {
    NcclOptions options;
    options.rank = 0;
    options.size = size;
    options.timeout = absl::Seconds(20);
    options.streams = &streams_;
    options.interruption = interruption_;
    options.exchange = [size](const std::string&, const std::string& mine) {
      std::vector<std::string> all;
      for (int rank = 0; rank < size; ++rank) {
        all.push_back(rank % 128 == 0 ? mine : mine.substr(0, 4));
      }
      return absl::StatusOr<std::vector<std::string>>(all);
    };
    return options;
  }
  std::unique_ptr<Collective> Connected() {
    auto collective = ConnectNccl(Fake(), Options());
    EXPECT_TRUE(collective.ok()) << collective.status();
    nccl_.calls.clear();
    return *std::move(collective);
  }
  int Count(const std::string& call) const {
    return std::count(nccl_.calls.begin(), nccl_.calls.end(), call);
  }

  FakeNccl nccl_;
  FakeStreams streams_;
  std::shared_ptr<Interruption> interruption_ =
      std::make_shared<Interruption>();
};

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
