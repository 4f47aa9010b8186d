#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/library.h"
#include "trainer/cuda/blas.h"
#include "trainer/cuda/cuda.h"
#include "trainer/cuda/cuda_status.h"
#include "trainer/cuda/kernels/kernels.h"
#include "trainer/cuda/products.h"

namespace rollcall {
namespace {

constexpr int kComputeMin = 8;  // Ampere: bf16 tensor cores.

std::string Visible() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr
             ? "CUDA_VISIBLE_DEVICES is not set"
             : absl::StrCat("CUDA_VISIBLE_DEVICES is \"", visible, "\"");
}

// Says which piece is missing, where the runtime has only an error number.
absl::Status NoDevices(cudaError_t error) {
  const absl::StatusOr<Library> driver = Library::Open({"libcuda.so.1"});
  if (!driver.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no NVIDIA driver was found: ", driver.status().message(),
        "; install one (in a container: start it with its GPUs, docker run "
        "--gpus all), or train with --device cpu"));
  }
  if (error == cudaErrorInsufficientDriver) {
    int supported = 0;
    cudaDriverGetVersion(&supported);
    return absl::FailedPreconditionError(absl::StrFormat(
        "the NVIDIA driver is too old: expected one for CUDA %d.%d or newer, "
        "found one for CUDA %d.%d; update it, or build with that CUDA",
        CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, supported / 1000,
        supported % 1000 / 10));
  }
  if (error == cudaErrorNoDevice) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the NVIDIA driver shows no GPU (", Visible(),
        "); see what nvidia-smi lists, or train with --device cpu"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      CudaStatus(error, "cudaGetDeviceCount", "the number of GPUs").message(),
      "; see what nvidia-smi says"));
}

absl::StatusOr<int> CountDevices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return NoDevices(error);
  if (count == 0) return NoDevices(cudaErrorNoDevice);
  return count;
}

absl::Status TooOld(int device, const cudaDeviceProp& properties) {
  return absl::FailedPreconditionError(absl::StrFormat(
      "GPU %d, %s, is of compute capability %d.%d: expected %d.0 or newer, for "
      "products in bf16; train with --device cpu",
      device, properties.name, properties.major, properties.minor,
      kComputeMin));
}

class Gpu final : public CudaDevice {
 public:
  ~Gpu() override {
    if (room_ != nullptr) cudaFree(room_);
    if (counted_ != nullptr) cudaFreeHost(counted_);
    for (cudaEvent_t event : {compute_mark_, communication_mark_}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    for (cudaStream_t stream : {compute_, communication_}) {
      if (stream != nullptr) cudaStreamDestroy(stream);
    }
  }

  absl::Status Open(int device) {
    device_ = device;
    const auto check = [this](cudaError_t error, const char* call) {
      status_.Update(CudaStatus(error, call, absl::StrCat("GPU ", device_)));
    };
    check(cudaSetDevice(device), "cudaSetDevice");
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device),
          "cudaGetDeviceProperties");
    if (!status_.ok()) return status_;
    name_ = properties.name;
    memory_bytes_ = properties.totalGlobalMem;
    if (properties.major < kComputeMin) return TooOld(device, properties);
    // The host sleeps while it waits for the device. If the driver does not
    // support that, the host spins.
    if (cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync) != cudaSuccess) {
      cudaGetLastError();
    }
    int lowest = 0;
    int highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
          "cudaDeviceGetStreamPriorityRange");
    check(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking),
          "cudaStreamCreateWithFlags");
    // Work for peers goes first, since they wait for it.
    check(cudaStreamCreateWithPriority(&communication_, cudaStreamNonBlocking,
                                       highest),
          "cudaStreamCreateWithPriority");
    for (cudaEvent_t* event : {&compute_mark_, &communication_mark_}) {
      check(cudaEventCreateWithFlags(event, cudaEventDisableTiming),
            "cudaEventCreateWithFlags");
    }
    check(cudaHostAlloc(reinterpret_cast<void**>(&counted_),
                        kCounters * sizeof(*counted_), cudaHostAllocMapped),
          "cudaHostAlloc");
    if (status_.ok()) std::fill_n(counted_, kCounters, 0);
    return status_;
  }

  std::string name() const override { return name_; }
  std::string description() const override {
    return absl::StrFormat("GPU %d, %s, %.1f GiB", device_, name_,
                           double(memory_bytes_) / (1 << 30));
  }
  size_t memory_bytes() const override { return memory_bytes_; }

  absl::StatusOr<size_t> FreeBytes() override {
    size_t free = 0;
    size_t total = 0;
    const absl::Status status = CudaStatus(
        cudaMemGetInfo(&free, &total), "cudaMemGetInfo", "the memory there is");
    if (!status.ok()) return status;
    return free;
  }
  absl::StatusOr<void*> Allocate(size_t bytes,
                                 absl::string_view purpose) override {
    void* memory = nullptr;
    const int error = cudaMalloc(&memory, bytes);
    if (error == cudaSuccess) return memory;
    cudaGetLastError();  // So that the next launch does not report this error.
    return CudaStatus(error, "cudaMalloc", purpose);
  }
  void Free(void* memory) override { cudaFree(memory); }

  absl::Status Upload(void* device, const void* host, size_t bytes,
                      absl::string_view purpose) override {
    // The memory is not pinned, so CUDA stages it before the call returns.
    return CudaStatus(
        cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, compute_),
        "cudaMemcpyAsync", purpose);
  }
  absl::Status Download(void* host, const void* device, size_t bytes,
                        absl::string_view purpose) override {
    absl::Status status = CudaStatus(
        cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, compute_),
        "cudaMemcpyAsync", purpose);
    status.Update(Synchronize(purpose));
    return status;
  }
  std::shared_ptr<void> Pin(void* host, size_t bytes) override {
    if (cudaHostRegister(host, bytes, cudaHostRegisterDefault) != cudaSuccess) {
      cudaGetLastError();  // So that the next launch does not report this
                           // error.
      return nullptr;
    }
    return {host, [](void* pinned) { cudaHostUnregister(pinned); }};
  }
  absl::Status Synchronize(absl::string_view purpose) override {
    return CudaStatus(cudaStreamSynchronize(compute_), "cudaStreamSynchronize",
                      purpose);
  }
  absl::StatusOr<std::unique_ptr<Products>> MakeProducts(
      void* workspace) override {
    return Blas::Create(compute_, workspace);
  }

  cuda::Stream compute() const override { return compute_; }
  cuda::Stream communication() const override { return communication_; }

  absl::Status CommunicationAfterCompute() override {
    return Order(compute_, compute_mark_, communication_);
  }
  absl::Status ComputeAfterCommunication() override {
    return Order(communication_, communication_mark_, compute_);
  }
  absl::StatusOr<bool> ComputeIsDone() override {
    return IsDone(compute_mark_);
  }
  absl::StatusOr<bool> CommunicationIsDone() override {
    return IsDone(communication_mark_);
  }

  absl::Status Count(Counter counter) override {
    const int which = static_cast<int>(counter);
    return KernelStatus(
        cuda::Store(communication_, counted_ + which, ++begun_[which]),
        "the count of collectives");
  }
  uint64_t Begun(Counter counter) const override {
    return begun_[static_cast<int>(counter)];
  }
  uint64_t Counted(Counter counter) const override {
    return std::atomic_ref(counted_[static_cast<int>(counter)])
        .load(std::memory_order_relaxed);
  }

  bool IsOnDevice(const void* memory) const override {
    cudaPointerAttributes attributes{};
    return cudaPointerGetAttributes(&attributes, memory) == cudaSuccess &&
           (attributes.type == cudaMemoryTypeDevice ||
            attributes.type == cudaMemoryTypeManaged);
  }

  absl::StatusOr<char*> Room(size_t bytes) override {
    if (bytes <= room_bytes_) return room_;
    if (room_ != nullptr) cudaFree(room_);
    room_ = nullptr;
    room_bytes_ = 0;
    const absl::Status status = CudaStatus(
        cudaMalloc(reinterpret_cast<void**>(&room_), bytes), "cudaMalloc",
        absl::StrCat(bytes, " bytes between host and peers"));
    if (!status.ok()) return status;
    room_bytes_ = bytes;
    return room_;
  }

  absl::Status CopyIn(char* device, absl::Span<const char> host) override {
    return Copy(device, host.data(), host.size(), cudaMemcpyHostToDevice);
  }
  absl::Status CopyOut(absl::Span<char> host, const char* device) override {
    return Copy(host.data(), device, host.size(), cudaMemcpyDeviceToHost);
  }

 private:
  static absl::Status Order(cudaStream_t before, cudaEvent_t mark,
                            cudaStream_t after) {
    absl::Status status = CudaStatus(cudaEventRecord(mark, before),
                                     "cudaEventRecord", "order among streams");
    status.Update(CudaStatus(cudaStreamWaitEvent(after, mark, 0),
                             "cudaStreamWaitEvent", "order among streams"));
    return status;
  }
  static absl::StatusOr<bool> IsDone(cudaEvent_t mark) {
    const cudaError_t error = cudaEventQuery(mark);
    if (error == cudaSuccess) return true;
    if (error == cudaErrorNotReady) return false;
    return CudaStatus(error, "cudaEventQuery", "what a stream had to do");
  }
  absl::Status Copy(void* to, const void* from, size_t bytes,
                    cudaMemcpyKind kind) {
    absl::Status status =
        CudaStatus(cudaMemcpyAsync(to, from, bytes, kind, communication_),
                   "cudaMemcpyAsync", "what ranks exchange");
    status.Update(CudaStatus(cudaStreamSynchronize(communication_),
                             "cudaStreamSynchronize", "what ranks exchange"));
    return status;
  }

  int device_ = 0;
  std::string name_;
  size_t memory_bytes_ = 0;
  cudaStream_t compute_ = nullptr, communication_ = nullptr;
  cudaEvent_t compute_mark_ = nullptr, communication_mark_ = nullptr;
  static constexpr int kCounters = 2;
  uint64_t begun_[kCounters] = {};
  uint64_t* counted_ = nullptr;  // Pinned; the device writes it.
  char* room_ = nullptr;
  size_t room_bytes_ = 0;
  absl::Status status_;
};

}  // namespace

absl::Status CudaAvailable() {
  if (absl::StatusOr<int> count = CountDevices(); !count.ok()) {
    return count.status();
  }
  return BlasLibrary::Open().status();
}

absl::StatusOr<std::vector<CudaDevice::Known>> CudaDevice::List() {
  if (absl::Status s = CudaAvailable(); !s.ok()) return s;
  const absl::StatusOr<int> count = CountDevices();
  if (!count.ok()) return count.status();
  std::vector<Known> known;
  absl::Status too_old;
  for (int i = 0; i < *count; ++i) {
    cudaDeviceProp properties{};
    const absl::Status status =
        CudaStatus(cudaGetDeviceProperties(&properties, i),
                   "cudaGetDeviceProperties", absl::StrCat("GPU ", i));
    if (!status.ok()) return status;
    if (properties.major < kComputeMin) {
      too_old.Update(TooOld(i, properties));
      continue;
    }
    known.push_back(
        {i,
         absl::BytesToHexString(
             {properties.uuid.bytes, sizeof(properties.uuid.bytes)}),
         absl::StrFormat("%s (compute capability %d.%d)", properties.name,
                         properties.major, properties.minor)});
  }
  if (known.empty()) return too_old;
  return known;
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Choose(int number) {
  const absl::StatusOr<int> count = CountDevices();
  if (!count.ok()) return count.status();
  if (number < 0 || number >= *count) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "GPU %d: expected 0 to %d (%s)", number, *count - 1, Visible()));
  }
  auto gpu = std::make_unique<Gpu>();
  if (absl::Status s = gpu->Open(number); !s.ok()) return s;
  if (absl::Status s = BlasLibrary::Open().status(); !s.ok()) return s;
  return gpu;
}

}  // namespace rollcall
