// NcclCollective on a GPU: two ranks, and the end of a world.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/trainer/cuda/on_gpu.h"
#include "trainer/cuda/cuda.h"
#include "trainer/cuda/nccl/nccl_collective.h"

#if __has_include(<nccl.h>)
#include <nccl.h>
// The declarations in nccl_library.h match NCCL's header.
static_assert(sizeof(ncclUniqueId) == sizeof(rollcall::nccl::UniqueId));
static_assert(offsetof(ncclConfig_t, blocking) ==
              offsetof(rollcall::nccl::Config, blocking));
static_assert(ncclUnhandledCudaError == rollcall::nccl::kUnhandledCudaError);
static_assert(ncclSystemError == rollcall::nccl::kSystemError);
static_assert(ncclInternalError == rollcall::nccl::kInternalError);
static_assert(ncclInvalidArgument == rollcall::nccl::kInvalidArgument);
static_assert(ncclInvalidUsage == rollcall::nccl::kInvalidUsage);
static_assert(ncclRemoteError == rollcall::nccl::kRemoteError);
static_assert(ncclInProgress == rollcall::nccl::kInProgress);
static_assert(ncclChar == rollcall::nccl::kChar);
static_assert(ncclFloat == rollcall::nccl::kFloat);
static_assert(ncclSum == rollcall::nccl::kSum);
static_assert(ncclMax == rollcall::nccl::kMax);
#endif

namespace rollcall {
namespace {

// --- Two ranks on one GPU ----------------------------------------------------

// Two pipes as the exchange between two processes.
struct PairExchange {
  int read_fd, write_fd;
  int rank;

  absl::StatusOr<std::vector<std::string>> operator()(
      const std::string&, const std::string& mine) const {
    const uint32_t size = static_cast<uint32_t>(mine.size());
    if (write(write_fd, &size, sizeof(size)) != sizeof(size) ||
        write(write_fd, mine.data(), size) != ssize_t(size)) {
      return absl::UnavailableError("the other rank is gone");
    }
    uint32_t theirs = 0;
    std::string other;
    if (read(read_fd, &theirs, sizeof(theirs)) != sizeof(theirs) ||
        theirs > 4096) {
      return absl::UnavailableError("the other rank is gone");
    }
    other.resize(theirs);
    if (read(read_fd, other.data(), theirs) != ssize_t(theirs)) {
      return absl::UnavailableError("the other rank is gone");
    }
    std::vector<std::string> all(2);
    all[rank] = mine;
    all[1 - rank] = other;
    return all;
  }
};

constexpr int kPairSteps = 3;

// The losses of some steps. This rank trains on its share of one batch of
// `sequences`.
absl::StatusOr<std::vector<float>> Train(Backend& backend,
                                         Collective* collective, int sequences,
                                         int first, int count) {
  const GptConfig& config = backend.config();
  absl::Status status = backend.Reserve(count);
  status.Update(backend.Reset(3));
  if (!status.ok()) return status;
  std::vector<float> losses;
  for (int step = 0; step < kPairSteps; ++step) {
    const auto tokens = Draw(config, sequences, 2 * step);
    const auto targets = Draw(config, sequences, 2 * step + 1);
    const size_t begin = size_t(first) * config.context;
    const size_t size = size_t(count) * config.context;
    const absl::Span<float> gradients = backend.gradients();
    status = backend.LossAndGradients(
        absl::MakeSpan(tokens).subspan(begin, size),
        absl::MakeSpan(targets).subspan(begin, size), 1.0f / tokens.size(),
        false, [&](const Bucket& b) {
          return collective == nullptr ? absl::OkStatus()
                                       : collective->BeginSum(gradients.subspan(
                                             b.begin, b.end - b.begin));
        });
    if (collective != nullptr) status.Update(collective->Wait());
    if (!status.ok()) return status;
    const auto extras = backend.ReadExtras();
    if (!extras.ok()) return extras.status();
    losses.push_back(extras->loss);
    const auto updated = backend.Update(1e-3f, kAnyNorm);
    if (!updated.ok()) return updated.status();
  }
  return losses;
}

// NCCL refuses two ranks on one GPU of one host, so each rank gets another host
// id.
void TakeHost(int rank) {
  setenv("NCCL_HOSTID", absl::StrCat("host-", rank).c_str(), 1);
  setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
}

// The main function of one of two ranks, in its own process. Writes its losses
// to `out`.
absl::Status TrainAsRank(const PairExchange& exchange, int out) {
  TakeHost(exchange.rank);
  const std::unique_ptr<NcclLog> log = NcclLog::Catch();
  auto device = CudaDevice::Choose(0);
  if (!device.ok()) return device.status();
  auto backend = MakeCudaBackend(Nano(), AdamWConfig(), **device);
  if (!backend.ok()) return backend.status();
  const auto library = NcclLibrary::Open("");
  if (!library.ok()) return library.status();
  NcclOptions options;
  options.rank = exchange.rank;
  options.size = 2;
  options.exchange = exchange;
  options.streams = device->get();
  options.log = log.get();
  auto collective = ConnectNccl(*library, std::move(options));
  if (!collective.ok()) return collective.status();
  const auto losses =
      Train(**backend, collective->get(), 6, 3 * exchange.rank, 3);
  if (!losses.ok()) return losses.status();
  std::printf("rank %d by %s\n", exchange.rank,
              (*collective)->transport().c_str());
  if (absl::Status s = (*collective)->Finish(); !s.ok()) return s;
  const ssize_t bytes = losses->size() * sizeof(float);
  return write(out, losses->data(), bytes) == bytes
             ? absl::OkStatus()
             : absl::UnavailableError("no rank reads the losses");
}

// CUDA does not survive a fork, so each rank is a new process of this binary.
// Its environment tells it which rank it is. This process reads what the rank
// writes to descriptor `out`.
pid_t StartRank(const char* what, int rank, int read_fd, int write_fd,
                int out) {
  const std::string which =
      absl::StrCat(what, " ", rank, " ", read_fd, " ", write_fd, " ", out);
  const pid_t child = fork();
  if (child != 0) return child;
  setenv("ROLLCALL_TEST_PAIR", which.c_str(), 1);
  execl("/proc/self/exe", "cuda_test",
        "--gtest_filter=CudaPairTest.RankOfAPair", nullptr);
  _exit(127);
}

// Runs both ranks to their end. `out`: a descriptor from which their output can
// be read; may be null.
void RunPair(const char* what, int* out) {
  int there[2], back[2], result[2];
  ASSERT_EQ(pipe(there) | pipe(back) | pipe(result), 0);
  const pid_t ranks[] = {StartRank(what, 0, back[0], there[1], result[1]),
                         StartRank(what, 1, there[0], back[1], result[1])};
  for (int fd : {there[0], there[1], back[0], back[1], result[1]}) close(fd);
  for (const pid_t rank : ranks) {
    int status = -1;
    ASSERT_EQ(waitpid(rank, &status, 0), rank);
    EXPECT_EQ(status, 0);
  }
  if (out != nullptr) {
    *out = result[0];
  } else {
    close(result[0]);
  }
}

TEST(CudaPairTest, TwoRanksEqualOneWithTwiceTheBatch) {
  SKIP_WITHOUT_GPU();
  if (const auto library = NcclLibrary::Open(""); !library.ok()) {
    GTEST_SKIP() << library.status().message();
  }
  int out = -1;
  RunPair("train", &out);
  auto device = CudaDevice::Choose(0);
  ASSERT_TRUE(device.ok()) << device.status();
  auto backend = MakeCudaBackend(Nano(), AdamWConfig(), **device);
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto want = Train(**backend, nullptr, 6, 0, 6);
  ASSERT_TRUE(want.ok()) << want.status();
  float losses[2][kPairSteps];
  ASSERT_EQ(read(out, losses, sizeof(losses)), ssize_t(sizeof(losses)));
  close(out);
  for (int step = 0; step < kPairSteps; ++step) {
    EXPECT_EQ(losses[0][step], losses[1][step]);
    EXPECT_NEAR(losses[0][step], (*want)[step], kLoss * (*want)[step]);
  }
}

// --- The end of a world ------------------------------------------------------

// Wraps the real NCCL. After some polls, in the middle of NCCL's work, it sets
// a promise. NCCL's functions are plain functions, so the state is global.
struct Polled {
  int (*async_error)(NcclLibrary::Communicator, int*) = nullptr;
  int left = 0;
  std::promise<void> enough;
};
Polled* polled = nullptr;

NcclLibrary PolledLibrary(NcclLibrary library, Polled* state, int polls) {
  state->async_error = library.async_error;
  state->left = polls;
  polled = state;
  library.async_error = [](NcclLibrary::Communicator communicator, int* error) {
    if (--polled->left == 0) polled->enough.set_value();
    return polled->async_error(communicator, error);
  };
  return library;
}

constexpr int kPolls = 50;  // About 40 ms.

// Raises the interruption in the middle of `work` and returns its status.
template <typename Work>
absl::Status Interrupted(Polled& state, Interruption& interruption,
                         const Work& work) {
  std::thread other([&] {
    state.enough.get_future().wait();
    interruption.Raise();
  });
  const absl::Status status = work();
  other.join();
  return status;
}

// The peer never connects, so NCCL waits until it is interrupted.
TEST(CudaInterruptionTest, EndsTheInitialization) {
  SKIP_WITHOUT_GPU();
  const auto library = NcclLibrary::Open("");
  if (!library.ok()) GTEST_SKIP() << library.status().message();
  auto device = CudaDevice::Choose(0);
  ASSERT_TRUE(device.ok()) << device.status();
  nccl::UniqueId id;
  ASSERT_EQ(library->get_unique_id(&id), nccl::kSuccess);
  NcclOptions options;
  options.size = 2;
  options.ids = {std::string(id.bytes, sizeof(id.bytes))};
  options.ids_version = library->version;
  options.streams = device->get();
  options.timeout = absl::Minutes(5);
  options.interruption = std::make_shared<Interruption>();
  Polled state;
  const NcclLibrary watched = PolledLibrary(*library, &state, kPolls);
  const absl::Status status = Interrupted(state, *options.interruption, [&] {
    return ConnectNccl(watched, options).status();
  });
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_TRUE((*device)->Synchronize("the test").ok());
}

absl::Status SumOfTwo(Collective& collective) {
  float value = 1;
  absl::Status status =
      collective.AllReduce(absl::MakeSpan(&value, 1), Reduction::kSum);
  if (status.ok() && value != 2) return absl::InternalError("a wrong sum");
  return status;
}

// Both ranks connect and sum. Rank 0 begins another sum, which rank 1 never
// enters, and is interrupted. Both connect again, and sum.
absl::Status SurviveAsRank(const PairExchange& exchange) {
  TakeHost(exchange.rank);
  auto device = CudaDevice::Choose(0);
  if (!device.ok()) return device.status();
  const auto library = NcclLibrary::Open("");
  if (!library.ok()) return library.status();
  NcclOptions options;
  options.rank = exchange.rank;
  options.size = 2;
  options.exchange = exchange;
  options.streams = device->get();
  options.timeout = absl::Minutes(2);
  options.interruption = std::make_shared<Interruption>();
  Polled state;
  auto collective =
      ConnectNccl(PolledLibrary(*library, &state, INT_MAX), options);
  if (!collective.ok()) return collective.status();
  if (absl::Status s = SumOfTwo(**collective); !s.ok()) return s;
  if (exchange.rank == 0) {
    state.left = kPolls;
    const absl::Status status = Interrupted(
        state, *options.interruption, [&] { return SumOfTwo(**collective); });
    if (!absl::IsAborted(status)) {
      return absl::InternalError(
          absl::StrCat("not aborted: ", status.ToString()));
    }
  }
  if (auto both = exchange("interrupted", ""); !both.ok()) return both.status();
  collective->reset();
  options.interruption = std::make_shared<Interruption>();
  collective = ConnectNccl(*library, options);
  if (!collective.ok()) return collective.status();
  if (absl::Status s = SumOfTwo(**collective); !s.ok()) return s;
  return (*collective)->Finish();
}

TEST(CudaInterruptionTest, EndsACollectiveAndTheNextWorldWorks) {
  SKIP_WITHOUT_GPU();
  if (const auto library = NcclLibrary::Open(""); !library.ok()) {
    GTEST_SKIP() << library.status().message();
  }
  RunPair("survive", nullptr);
}

TEST(CudaPairTest, RankOfAPair) {
  const char* which = std::getenv("ROLLCALL_TEST_PAIR");
  if (which == nullptr) GTEST_SKIP() << "for the tests of two ranks";
  char what[16];
  int rank = 0, read_fd = 0, write_fd = 0, out = 0;
  ASSERT_EQ(std::sscanf(which, "%15s %d %d %d %d", what, &rank, &read_fd,
                        &write_fd, &out),
            5);
  const PairExchange exchange{read_fd, write_fd, rank};
  const absl::Status status = what == std::string("train")
                                  ? TrainAsRank(exchange, out)
                                  : SurviveAsRank(exchange);
  ASSERT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace rollcall
