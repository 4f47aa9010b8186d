// The CUDA backend and NcclCollective on a GPU, compared with the CPU's.
// Without a GPU each test is skipped and says why.
//
// Tolerances: activations are bf16 (8 bits), so a loss is off by about 0.1%,
// and a gradient by 3% of its length.
#include "trainer/cuda/cuda.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <future>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/cuda/nccl_collective.h"
#include "trainer/cuda/token_places.h"
#include "trainer/model/memory_plan.h"

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

constexpr double kLoss = 2e-3;
constexpr double kGradient = 3e-2;

GptConfig Nano() { return GptConfig(); }
GptConfig Gpt2Like() {
  GptConfig config;
  config.layers = 2;
  config.heads = 12;
  config.width = 768;
  config.context = 200;  // Not a multiple of any tile.
  config.vocabulary = 50257;
  return config;
}

std::vector<Token> Draw(const GptConfig& config, int sequences, int seed) {
  std::mt19937 random(seed);
  std::vector<Token> tokens(size_t(sequences) * config.context);
  for (Token& t : tokens) t = random() % config.vocabulary;
  return tokens;
}

#define SKIP_WITHOUT_GPU()                         \
  if (absl::Status s = CudaAvailable(); !s.ok()) { \
    GTEST_SKIP() << s.message();                   \
  }

struct Result {
  double loss = 0, norm = 0;
  std::vector<float> gradients, weights;
};

// Does one step from the seed's weights, with at most `at_once` sequences in a
// micro-batch (0: all of them).
Result StepOn(Backend& backend, int sequences, int at_once = 0) {
  Result result;
  const GptConfig& config = backend.config();
  EXPECT_TRUE(backend.Reserve(at_once == 0 ? sequences : at_once).ok());
  EXPECT_TRUE(backend.Reset(7).ok());
  const auto tokens = Draw(config, sequences, 1);
  const auto targets = Draw(config, sequences, 2);
  size_t end = backend.layout().size + kExtras;
  const absl::Status status = backend.LossAndGradients(
      tokens, targets, 1.0f / tokens.size(), true, [&](const Bucket& bucket) {
        EXPECT_EQ(bucket.end, end);
        end = bucket.begin;
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(end, 0u);
  const auto extras = backend.ReadExtras();
  EXPECT_TRUE(extras.ok()) << extras.status();
  EXPECT_EQ(extras->stops, 1);
  result.loss = extras->loss;
  const auto norm = backend.Update(1e-3f, kAnyNorm);
  EXPECT_TRUE(norm.ok()) << norm.status();
  result.norm = *norm;
  result.weights.resize(backend.layout().size);
  EXPECT_TRUE(
      backend.CopyOut(StatePart::kWeights, absl::MakeSpan(result.weights))
          .ok());
  // After the first step, the first moment is the gradient, clipped and scaled.
  result.gradients.resize(backend.layout().size);
  EXPECT_TRUE(
      backend.CopyOut(StatePart::kFirstMoment, absl::MakeSpan(result.gradients))
          .ok());
  return result;
}

void ExpectEqualsCpu(const GptConfig& config, int sequences) {
  auto device = CudaDevice::Choose(0);
  ASSERT_TRUE(device.ok()) << device.status();
  auto cuda = MakeCudaBackend(config, AdamWConfig(), **device);
  ASSERT_TRUE(cuda.ok()) << cuda.status();
  auto cpu = MakeCpuBackend(config, AdamWConfig());
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  const Result got = StepOn(**cuda, sequences);
  const Result want = StepOn(**cpu, sequences);
  EXPECT_NEAR(got.loss, want.loss, kLoss * want.loss);
  EXPECT_NEAR(got.norm, want.norm, kGradient * want.norm);
  // Compares each tensor by itself, because an error in a small tensor would
  // not show in the whole.
  for (const Tensor& tensor : (*cpu)->layout().tensors) {
    double apart = 0, length = 0;
    for (size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      apart += std::pow(got.gradients[i] - want.gradients[i], 2);
      length += std::pow(want.gradients[i], 2);
    }
    EXPECT_LE(std::sqrt(apart), kGradient * std::sqrt(length) + 1e-9)
        << tensor.name;
  }
  const auto tokens = Draw(config, sequences, 1);
  const auto targets = Draw(config, sequences, 2);
  const auto after = (*cuda)->Loss(tokens, targets);
  const auto want_after = (*cpu)->Loss(tokens, targets);
  ASSERT_TRUE(after.ok() && want_after.ok()) << after.status();
  EXPECT_NEAR(*after, *want_after, kLoss * *want_after);

  // A repetition gives the same bits.
  const Result again = StepOn(**cuda, sequences);
  EXPECT_EQ(again.loss, got.loss);
  EXPECT_TRUE(again.weights == got.weights);
}

TEST(CudaBackendTest, EqualsTheCpuOnNano) {
  SKIP_WITHOUT_GPU();
  ExpectEqualsCpu(Nano(), 5);
}

TEST(CudaBackendTest, EqualsTheCpuOnASizeLikeGpt2) {
  SKIP_WITHOUT_GPU();
  ExpectEqualsCpu(Gpt2Like(), 2);
}

TEST(CudaBackendTest, NoSamplesGiveZeros) {
  SKIP_WITHOUT_GPU();
  auto device = CudaDevice::Choose(0);
  ASSERT_TRUE(device.ok()) << device.status();
  auto cuda = MakeCudaBackend(Nano(), AdamWConfig(), **device);
  ASSERT_TRUE(cuda.ok()) << cuda.status();
  ASSERT_TRUE((*cuda)->Reserve(1).ok());
  ASSERT_TRUE((*cuda)->Reset(1).ok());
  ASSERT_TRUE(
      (*cuda)
          ->LossAndGradients({}, {}, 1, true,
                             [](const Bucket&) { return absl::OkStatus(); })
          .ok());
  EXPECT_EQ((*cuda)->ReadExtras()->stops, 1);
  EXPECT_EQ((*cuda)->ReadExtras()->loss, 0);
  EXPECT_EQ(*(*cuda)->Update(1e-3f, kAnyNorm), 0);
}

// Compares micro-batches, of which the last is smaller, with the CPU and with a
// step without micro-batches.
void ExpectMicroBatchesAddUp(const GptConfig& config, int sequences) {
  auto device = CudaDevice::Choose(0);
  ASSERT_TRUE(device.ok()) << device.status();
  auto cuda = MakeCudaBackend(config, AdamWConfig(), **device);
  ASSERT_TRUE(cuda.ok()) << cuda.status();
  auto cpu = MakeCpuBackend(config, AdamWConfig());
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  const Result want = StepOn(**cpu, sequences);
  const Result whole = StepOn(**cuda, sequences);
  const auto tokens = Draw(config, sequences, 3);
  const auto targets = Draw(config, sequences, 4);
  for (int at_once : {1, 2, sequences - 1}) {
    SCOPED_TRACE(at_once);
    const Result got = StepOn(**cuda, sequences, at_once);
    EXPECT_NEAR(got.loss, want.loss, kLoss * want.loss);
    EXPECT_NEAR(got.loss, whole.loss, 1e-4 * whole.loss);
    for (const Tensor& tensor : (*cpu)->layout().tensors) {
      double apart = 0, length = 0;
      for (size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
        apart += std::pow(got.gradients[i] - want.gradients[i], 2);
        length += std::pow(want.gradients[i], 2);
      }
      EXPECT_LE(std::sqrt(apart), kGradient * std::sqrt(length) + 1e-9)
          << tensor.name;
    }
    const auto loss = (*cuda)->Loss(tokens, targets);
    ASSERT_TRUE(loss.ok()) << loss.status();
    // The same micro-batches give the same bits again.
    const Result again = StepOn(**cuda, sequences, at_once);
    EXPECT_EQ(again.loss, got.loss);
    EXPECT_TRUE(again.gradients == got.gradients);
    EXPECT_TRUE(again.weights == got.weights);
    EXPECT_EQ(*(*cuda)->Loss(tokens, targets), *loss);
  }
}

TEST(CudaBackendTest, MicroBatchesAddUpOnNano) {
  SKIP_WITHOUT_GPU();
  ExpectMicroBatchesAddUp(Nano(), 5);
}

TEST(CudaBackendTest, MicroBatchesAddUpOnASizeLikeGpt2) {
  SKIP_WITHOUT_GPU();
  ExpectMicroBatchesAddUp(Gpt2Like(), 4);
}

// A share that is larger than the memory is trained in the micro-batches that
// the plan finds. The memory for this many sequences can be reserved.
TEST(CudaBackendTest, AMicroBatchOfWhatFitsCanBeReserved) {
  SKIP_WITHOUT_GPU();
  auto device = CudaDevice::Choose(0);
  ASSERT_TRUE(device.ok()) << device.status();
  auto cuda = MakeCudaBackend(Gpt2Like(), AdamWConfig(), **device);
  ASSERT_TRUE(cuda.ok()) << cuda.status();
  const auto room = (*cuda)->RoomForActivations(1);
  ASSERT_TRUE(room.ok()) << room.status();
  MemoryWishes wishes;
  wishes.share = 1000000;
  MemoryFacts facts;
  facts.state = (*cuda)->StateBytes();
  facts.room = *room;
  facts.activations = [&](int n) { return (*cuda)->ActivationBytes(n); };
  const auto plan = PlanMemory(wishes, facts);
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::printf("%s\n", plan->ToString().c_str());
  EXPECT_GT(plan->micro_batch, 1);
  EXPECT_LT(plan->micro_batch, wishes.share);
  EXPECT_TRUE((*cuda)->Reserve(plan->micro_batch).ok());
  // Under a limit that fits only one sequence, a share of four takes four
  // micro-batches.
  wishes.share = 4;
  wishes.most = facts.state + 1.5 * (*cuda)->ActivationBytes(1);
  const auto limited = PlanMemory(wishes, facts);
  ASSERT_TRUE(limited.ok()) << limited.status();
  EXPECT_EQ(limited->micro_batch, 1);
  StepOn(**cuda, 4, limited->micro_batch);
}

TEST(CudaBackendTest, TooLargeABatchIsRefusedAndChangesNothing) {
  SKIP_WITHOUT_GPU();
  auto device = CudaDevice::Choose(0);
  ASSERT_TRUE(device.ok()) << device.status();
  auto cuda = MakeCudaBackend(Nano(), AdamWConfig(), **device);
  ASSERT_TRUE(cuda.ok()) << cuda.status();
  const Result before = StepOn(**cuda, 3);
  EXPECT_TRUE(absl::IsResourceExhausted((*cuda)->Reserve(10000000)));
  const Result after = StepOn(**cuda, 3);
  EXPECT_EQ(before.loss, after.loss);
}

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
             : absl::UnavailableError("nobody reads the losses");
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

// --- Counters ---------------------------------------------------------------

// A device that is held up in `communication` has not reached the later work.
TEST(CudaDeviceTest, CountsWhatItHasComeTo) {
  SKIP_WITHOUT_GPU();
  auto device = CudaDevice::Choose(0);
  ASSERT_TRUE(device.ok()) << device.status();
  ASSERT_TRUE((*device)->Count(Counter::kEntered).ok());
  std::promise<void> go_on;
  const auto wait = [](void* promise) {
    static_cast<std::promise<void>*>(promise)->get_future().wait();
  };
  ASSERT_EQ(cudaLaunchHostFunc((*device)->communication(), wait, &go_on), 0);
  ASSERT_TRUE((*device)->Count(Counter::kEntered).ok());
  ASSERT_TRUE((*device)->Count(Counter::kLeft).ok());
  EXPECT_EQ((*device)->Begun(Counter::kEntered), 2u);
  EXPECT_LE((*device)->Counted(Counter::kEntered), 1u);
  EXPECT_EQ((*device)->Counted(Counter::kLeft), 0u);
  go_on.set_value();
  ASSERT_EQ(cudaStreamSynchronize((*device)->communication()), 0);
  EXPECT_EQ((*device)->Counted(Counter::kEntered), 2u);
  EXPECT_EQ((*device)->Counted(Counter::kLeft), 1u);
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

// --- Without a GPU -----------------------------------------------------------

TEST(CudaAvailableTest, SaysWhatIsMissing) {
  const absl::Status status = CudaAvailable();
  if (status.ok()) GTEST_SKIP() << "nothing is missing here";
  std::printf("%s\n", std::string(status.message()).c_str());
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(CudaDevice::Choose(0).status(), status);
}

}  // namespace
}  // namespace rollcall
