#include "trainer/check_group.h"

#include <cblas.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "trainer/check/group_link.h"
#include "trainer/check/group_request.h"
#include "trainer/collective/gloo.h"
#include "trainer/cuda/nccl/nccl_collective.h"
#include "trainer/model/cpu/gemm.h"
#include "trainer/rank/rank_device.h"

namespace rollcall {
namespace {

// One unit of work of a core: about 10 ms on a core of 2020. Small, so that the
// check of many nodes that share a machine ends in time.
constexpr int kCpuSize = 384;
constexpr int kCpuProducts = 5;
// One unit of work of a GPU: a few milliseconds.
constexpr int kGpuSize = 4096;
constexpr int kGpuProducts = 20;
// A quota of CPU time is given out every 100 ms, so shorter measurements could
// miss it.
constexpr absl::Duration kMeasured = absl::Seconds(1);
constexpr int kUnitsMin = 3;
constexpr int kCoresMax = 256;
constexpr size_t kSumValues = size_t{1} << 20;
constexpr int kSums = 10;

// Matrices of small whole numbers, whose product is exact: element (i, j) is
// size * RowValue(i) * ColumnValue(j).
int RowValue(int i) { return i % 7; }
int ColumnValue(int j) { return j % 5; }

// FAILED_PRECONDITION: the first wrong element.
absl::Status VerifyProduct(const std::vector<float>& product, int size,
                           const std::string& device) {
  for (int i = 0; i < size; ++i) {
    for (int j = 0; j < size; ++j) {
      const float expected =
          static_cast<float>(size * RowValue(i) * ColumnValue(j));
      const float found = product[static_cast<size_t>(i) * size + j];
      if (found == expected) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("a matrix product on ", device, " is wrong: element ", i,
                       ",", j, " is ", found, ", expected ", expected));
    }
  }
  return absl::OkStatus();
}

// The mean time of a unit, over at least kMeasured and kUnitsMin. Ends early if
// `until` comes first. The first unit is not counted.
absl::StatusOr<absl::Duration> MeasureUnits(
    const std::function<absl::Status()>& unit, absl::Time until) {
  if (absl::Status s = unit(); !s.ok()) return s;
  const absl::Time since = MonotonicNow();
  for (int units = 1;; ++units) {
    if (absl::Status s = unit(); !s.ok()) return s;
    const absl::Time now = MonotonicNow();
    if ((units >= kUnitsMin && now - since >= kMeasured) || now >= until) {
      return (now - since) / units;
    }
  }
}

struct Measured {
  absl::Status status;
  absl::Duration time;
};

Measured MeasureCore(absl::Time until) {
  const size_t values = size_t{kCpuSize} * kCpuSize;
  std::vector<float> a(values), b(values), c(values);
  for (int i = 0; i < kCpuSize; ++i) {
    for (int j = 0; j < kCpuSize; ++j) {
      a[size_t{kCpuSize} * i + j] = static_cast<float>(RowValue(i));
      b[size_t{kCpuSize} * i + j] = static_cast<float>(ColumnValue(j));
    }
  }
  const auto time = MeasureUnits(
      [&] {
        for (int n = 0; n < kCpuProducts; ++n) {
          Gemm(Transpose::kNo, Transpose::kNo, kCpuSize, kCpuSize, kCpuSize, 1,
               a.data(), kCpuSize, b.data(), kCpuSize, 0, c.data(), kCpuSize);
        }
        return absl::OkStatus();
      },
      until);
  if (!time.ok()) return {time.status(), {}};
  return {VerifyProduct(c, kCpuSize, "the CPU"), *time};
}

int CoresHere() {
  cpu_set_t set;
  const bool known = sched_getaffinity(0, sizeof(set), &set) == 0;
  const int cores =
      known ? CPU_COUNT(&set) : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return std::clamp(cores, 1, kCoresMax);
}

// All cores at once, each with products of its own. One product over all cores
// would wait in a loop for its slowest thread, which disturbs other nodes of
// the same machine.
absl::StatusOr<absl::Duration> MeasureCpu(absl::Time until) {
  openblas_set_num_threads(1);
  std::vector<Measured> measured(CoresHere());
  std::vector<std::thread> threads;
  try {
    for (size_t i = 1; i < measured.size(); ++i) {
      threads.emplace_back([&, i] { measured[i] = MeasureCore(until); });
    }
  } catch (const std::system_error&) {
    // The limit on threads is reached, so fewer cores are measured.
    measured.resize(threads.size() + 1);
  }
  measured[0] = MeasureCore(until);
  for (std::thread& thread : threads) thread.join();
  absl::Duration sum;
  for (const Measured& each : measured) {
    if (!each.status.ok()) return each.status;
    sum += each.time;
  }
  return sum / static_cast<int64_t>(measured.size());
}

cuda::Bf16 SmallBf16(int value) {
  const float whole = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &whole, sizeof(bits));
  return {static_cast<uint16_t>(bits >> 16)};
}

// Device memory that is freed at the end of the scope.
class GpuRoom {
 public:
  explicit GpuRoom(CudaDevice& gpu) : gpu_(gpu) {}
  ~GpuRoom() { gpu_.Free(memory_); }
  GpuRoom(const GpuRoom&) = delete;
  GpuRoom& operator=(const GpuRoom&) = delete;

  absl::Status Allocate(size_t bytes) {
    const absl::StatusOr<void*> memory = gpu_.Allocate(bytes, "the node check");
    if (memory.ok()) memory_ = *memory;
    return memory.status();
  }
  void* get() const { return memory_; }

 private:
  CudaDevice& gpu_;
  void* memory_ = nullptr;
};

absl::StatusOr<absl::Duration> MeasureGpu(CudaDevice& gpu, absl::Time until) {
  constexpr size_t kValues = size_t{kGpuSize} * kGpuSize;
  GpuRoom workspace(gpu), a(gpu), b(gpu), c(gpu);
  absl::Status status = workspace.Allocate(kWorkspaceBytes);
  if (status.ok()) status = a.Allocate(kValues * sizeof(cuda::Bf16));
  if (status.ok()) status = b.Allocate(kValues * sizeof(cuda::Bf16));
  if (status.ok()) status = c.Allocate(kValues * sizeof(float));
  if (!status.ok()) return status;
  std::vector<cuda::Bf16> rows(kValues), columns(kValues);
  for (int i = 0; i < kGpuSize; ++i) {
    for (int j = 0; j < kGpuSize; ++j) {
      rows[size_t{kGpuSize} * i + j] = SmallBf16(RowValue(i));
      columns[size_t{kGpuSize} * i + j] = SmallBf16(ColumnValue(j));
    }
  }
  status = gpu.Upload(a.get(), rows.data(), kValues * sizeof(cuda::Bf16),
                      "the node check");
  if (status.ok()) {
    status = gpu.Upload(b.get(), columns.data(), kValues * sizeof(cuda::Bf16),
                        "the node check");
  }
  if (!status.ok()) return status;
  absl::StatusOr<std::unique_ptr<Products>> products =
      gpu.MakeProducts(workspace.get());
  if (!products.ok()) return products.status();
  Product product;
  product.m = product.n = product.k = kGpuSize;
  product.a = static_cast<const cuda::Bf16*>(a.get());
  product.b = static_cast<const cuda::Bf16*>(b.get());
  product.a_stride = product.b_stride = product.out_stride = kGpuSize;
  product.floats = true;
  product.out = c.get();
  const absl::StatusOr<absl::Duration> time = MeasureUnits(
      [&]() -> absl::Status {
        for (int n = 0; n < kGpuProducts; ++n) {
          if (absl::Status s = (*products)->Multiply(product); !s.ok()) {
            return s;
          }
        }
        return gpu.Synchronize("the node check");
      },
      until);
  if (!time.ok()) return time;
  std::vector<float> found(kValues);
  status = gpu.Download(found.data(), c.get(), kValues * sizeof(float),
                        "the node check");
  if (status.ok()) status = VerifyProduct(found, kGpuSize, gpu.description());
  if (!status.ok()) return status;
  return time;
}

// The time of the slowest GPU; nullopt: this node has none that can be used.
absl::StatusOr<std::optional<absl::Duration>> MeasureGpus(absl::Time until) {
  const absl::StatusOr<std::vector<CudaDevice::Known>> gpus =
      CudaDevice::List();
  if (!gpus.ok()) return std::nullopt;
  absl::Duration slowest;
  for (const CudaDevice::Known& known : *gpus) {
    const absl::StatusOr<std::unique_ptr<CudaDevice>> gpu =
        CudaDevice::Choose(known.number);
    if (!gpu.ok()) return gpu.status();
    const absl::StatusOr<absl::Duration> time = MeasureGpu(**gpu, until);
    if (!time.ok()) return time.status();
    slowest = std::max(slowest, *time);
  }
  return slowest;
}

absl::StatusOr<absl::Duration> MeasureProduct(absl::Time until) {
  const absl::StatusOr<std::optional<absl::Duration>> gpus = MeasureGpus(until);
  if (!gpus.ok()) return gpus.status();
  if (gpus->has_value()) return **gpus;
  return MeasureCpu(until);
}

// The group's collective: by NCCL if each node has a GPU of its own.
absl::StatusOr<std::unique_ptr<Collective>> ConnectNodes(
    const GroupRequest& request, const Exchange& exchange, RankDevice& device,
    absl::Time until) {
  DeviceOffer offer = device.offer();
  if (device.nccl() == nullptr) offer.gpus.clear();
  const auto texts = exchange("device", offer.Encode());
  if (!texts.ok()) return texts.status();
  std::vector<DeviceOffer> offers;
  for (const std::string& text : *texts) {
    absl::StatusOr<DeviceOffer> each = DeviceOffer::Decode(text);
    if (!each.ok()) return absl::InternalError(each.status().message());
    offers.push_back(*std::move(each));
  }
  const std::vector<DeviceChoice> choices = ChooseDevices(offers);
  const bool gpus = std::all_of(
      choices.begin(), choices.end(),
      [](const DeviceChoice& choice) { return choice.gpu.has_value(); });
  const auto name = [&request](int rank) { return request.addresses[rank]; };
  const int rank = static_cast<int>(request.place);
  const int size = static_cast<int>(request.addresses.size());
  const absl::Duration timeout = until - MonotonicNow();
  if (absl::Status s =
          device.Take(gpus ? choices[request.place] : DeviceChoice());
      !s.ok()) {
    return s;
  }
  if (gpus) {
    NcclOptions nccl;
    nccl.rank = rank;
    nccl.size = size;
    nccl.exchange = exchange;
    nccl.timeout = timeout;
    nccl.name = name;
    nccl.streams = device.gpu();
    nccl.log = device.nccl_log();
    return ConnectNccl(*device.nccl(), std::move(nccl));
  }
  GlooOptions gloo;
  gloo.rank = rank;
  gloo.size = size;
  gloo.address = request.addresses[request.place];
  gloo.timeout = timeout;
  gloo.exchange = exchange;
  gloo.name = name;
  return ConnectGloo(std::move(gloo));
}

// The least time of kSums sums. After `until` there are fewer: a group with a
// very slow node must answer in time, because which of its nodes failed would
// be unknown otherwise.
absl::StatusOr<absl::Duration> MeasureSum(Collective& nodes, RankDevice& device,
                                          absl::Time until) {
  const std::unique_ptr<CheckMemory> memory = device.MakeCheckMemory();
  const absl::StatusOr<absl::Span<float>> room = memory->Room(0, kSumValues);
  if (!room.ok()) return room.status();
  const absl::StatusOr<absl::Span<float>> vote_room = memory->Room(1, 1);
  if (!vote_room.ok()) return vote_room.status();
  std::vector<float> values(kSumValues);
  const auto sum = [&]() -> absl::Status {
    for (size_t i = 0; i < kSumValues; ++i) {
      values[i] =
          static_cast<float>((nodes.rank() + 1) * RowValue(i % kGpuSize));
    }
    absl::Status s = memory->Put(values, *room);
    if (s.ok()) s = nodes.AllReduce(*room, Reduction::kSum);
    if (s.ok()) s = memory->Synchronize();
    return s;
  };
  // Whether it is late for one of the nodes. All get the same answer, so all do
  // the same number of sums.
  const auto late = [&]() -> absl::StatusOr<bool> {
    float vote = MonotonicNow() >= until ? 1 : 0;
    absl::Status s = memory->Put({&vote, 1}, *vote_room);
    if (s.ok()) s = nodes.AllReduce(*vote_room, Reduction::kSum);
    if (s.ok()) s = memory->Synchronize();
    if (s.ok()) s = memory->Get(*vote_room, {&vote, 1});
    if (!s.ok()) return s;
    return vote > 0;
  };
  // The first one opens connections and waits for the slowest node.
  if (absl::Status s = sum(); !s.ok()) return s;
  absl::Duration least = absl::InfiniteDuration();
  for (int i = 0; i < kSums; ++i) {
    const absl::Time since = MonotonicNow();
    if (absl::Status s = sum(); !s.ok()) return s;
    least = std::min(least, MonotonicNow() - since);
    const absl::StatusOr<bool> last = late();
    if (!last.ok()) return last.status();
    if (*last) break;
  }
  if (absl::Status s = memory->Get(*room, absl::MakeSpan(values)); !s.ok()) {
    return s;
  }
  const int all = nodes.size() * (nodes.size() + 1) / 2;
  for (size_t i = 0; i < kSumValues; ++i) {
    const float expected = static_cast<float>(all * RowValue(i % kGpuSize));
    if (values[i] == expected) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("an all-reduce is wrong: element ", i, " is ", values[i],
                     ", expected ", expected));
  }
  return least;
}

void PrintJson(const nlohmann::json& line) {
  std::printf("%s\n", line.dump(-1, ' ', false,
                                nlohmann::json::error_handler_t::replace)
                          .c_str());
  std::fflush(stdout);
}

int Fail(const absl::Status& status, bool peer) {
  PrintJson({{"error", std::string(status.message())}, {"peer", peer}});
  return 1;
}

// Whether the error of a call among the nodes shows that another node failed.
bool IsOfPeer(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsPermissionDenied(status);
}

int CheckAlone(absl::Time until) {
  const absl::StatusOr<absl::Duration> product = MeasureProduct(until);
  if (!product.ok()) return Fail(product.status(), false);
  PrintJson({{"product_s", absl::ToDoubleSeconds(*product)}});
  return 0;
}

}  // namespace

int CheckGroup() {
  const absl::StatusOr<GroupRequest> request = TakeGroupRequest();
  if (!request.ok()) {
    std::fprintf(stderr, "rollcall-train: %s\n",
                 std::string(request.status().message()).c_str());
    return 2;
  }
  // If this process is stuck or its agent is gone, it ends nevertheless.
  alarm(static_cast<unsigned>(absl::ToInt64Seconds(request->limit)) + 1);
  // A peer that hangs must be noticed before the agent's limit.
  const absl::Time until = MonotonicNow() + 0.9 * request->limit;
  const absl::Time product_until = MonotonicNow() + 0.5 * request->limit;
  const absl::Time sums_until = MonotonicNow() + 0.7 * request->limit;
  GroupListener listener;
  if (request->addresses.size() == 1) return CheckAlone(product_until);
  if (request->place == 0) {
    absl::StatusOr<GroupListener> open = GroupListener::Open();
    if (!open.ok()) return Fail(open.status(), false);
    listener = *std::move(open);
    PrintJson({{"listening", listener.port}});
  }
  absl::StatusOr<std::unique_ptr<GroupLink>> link =
      request->place == 0 ? GroupLink::Accept(listener, *request, until)
                          : GroupLink::Dial(*request, until);
  if (!link.ok()) return Fail(link.status(), IsOfPeer(link.status()));
  const absl::StatusOr<absl::Duration> product = MeasureProduct(product_until);
  if (!product.ok()) return Fail(product.status(), false);
  const Exchange exchange = [&](const std::string& key,
                                const std::string& value) {
    return (*link)->Exchange(key, value);
  };
  absl::StatusOr<std::unique_ptr<RankDevice>> device =
      RankDevice::Find(DeviceKind::kAuto, nullptr);
  if (!device.ok()) return Fail(device.status(), false);
  absl::StatusOr<std::unique_ptr<Collective>> nodes =
      ConnectNodes(*request, exchange, **device, until);
  if (!nodes.ok()) return Fail(nodes.status(), IsOfPeer(nodes.status()));
  const absl::StatusOr<absl::Duration> all_reduce =
      MeasureSum(**nodes, **device, sums_until);
  if (!all_reduce.ok()) {
    return Fail(all_reduce.status(), IsOfPeer(all_reduce.status()));
  }
  if (absl::Status s = (*nodes)->Finish(); !s.ok()) {
    return Fail(s, IsOfPeer(s));
  }
  PrintJson({{"product_s", absl::ToDoubleSeconds(*product)},
             {"all_reduce_s", absl::ToDoubleSeconds(*all_reduce)}});
  return 0;
}

}  // namespace rollcall
