// A scripted NCCL and a scripted device.
#ifndef ROLLCALL_TESTS_UNIT_TRAINER_CUDA_SCRIPTED_NCCL_H_
#define ROLLCALL_TESTS_UNIT_TRAINER_CUDA_SCRIPTED_NCCL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/cuda/nccl/nccl_collective.h"
#include "trainer/rank/world_end.h"

namespace rollcall {

// NCCL's functions are plain functions, so their calls and answers are global.
struct FakeNccl {
  std::vector<std::string> calls;
  std::map<std::string, int> answers;  // Default: success.
  std::vector<int> states;             // Of async_error; the last repeats.
  int ids_given = 0;
  std::promise<void> looked;  // Set at the third call of async_error.
  int looks = 0;
};
inline FakeNccl* fake = nullptr;

inline int Called(const char* name) {
  fake->calls.push_back(name);
  const auto answer = fake->answers.find(name);
  return answer == fake->answers.end() ? nccl::kSuccess : answer->second;
}

inline NcclLibrary Fake() {
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

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_TRAINER_CUDA_SCRIPTED_NCCL_H_
