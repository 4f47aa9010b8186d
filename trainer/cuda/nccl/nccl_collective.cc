#include "trainer/cuda/nccl/nccl_collective.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "trainer/cuda/nccl/nccl_ids.h"

namespace rollcall {
namespace {

// The pause between two polls begins at kPauseMin and doubles each time.
constexpr absl::Duration kPauseMin = absl::Microseconds(20);
constexpr absl::Duration kPauseMax = absl::Milliseconds(1);
// How often NCCL's warnings are passed on during a wait.
constexpr absl::Duration kLogEach = absl::Seconds(1);

// A sleep that an interruption ends early. Shared with the thread that raises
// it.
class Nap {
 public:
  void Take(absl::Duration time) {
    MutexLock lock(mutex_);
    if (!over_) over_changed_.WaitFor(mutex_, time);
  }
  void End() {
    MutexLock lock(mutex_);
    over_ = true;
    over_changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar over_changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

class NcclCollective final : public Collective {
 public:
  NcclCollective(const NcclLibrary& library, NcclOptions options)
      : library_(library),
        options_(std::move(options)),
        streams_(*options_.streams),
        begun_before_{streams_.Begun(Counter::kEntered),
                      streams_.Begun(Counter::kLeft)} {
    if (options_.interruption != nullptr) {
      options_.interruption->Wakes([nap = nap_] { nap->End(); });
    }
  }
  ~NcclCollective() override { Abort(); }

  absl::Status Begin(std::vector<nccl::UniqueId> ids) {
    if (ids.size() > 1 && library_.init_scalable == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          library_.name, " is NCCL ", library_.version, ": a world of ",
          options_.size, " ranks needs 2.23 or newer"));
    }
    if (options_.log != nullptr) options_.log->Forget();
    nccl::Config config;
    const int code =
        ids.size() > 1 ? library_.init_scalable(
                             &communicator_, options_.size, options_.rank,
                             static_cast<int>(ids.size()), ids.data(), &config)
                       : library_.init(&communicator_, options_.size, ids[0],
                                       options_.rank, &config);
    return Logged(AwaitNccl(code, "the initialization"));
  }

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  std::string NameOf(int which) const override { return options_.name(which); }

  absl::Status AllReduce(absl::Span<float> values,
                         Reduction reduction) override {
    const int nccl_reduction =
        reduction == Reduction::kSum ? nccl::kSum : nccl::kMax;
    Pieces pieces{{}, BytesOf(values)};
    return Run("an all-reduce", pieces, [&](const char*, char* at) {
      return library_.all_reduce(at, at, values.size(), nccl::kFloat,
                                 nccl_reduction, communicator_,
                                 streams_.communication());
    });
  }

  absl::Status BeginSum(absl::Span<float> values) override {
    if (!failed_.ok()) return failed_;
    if (!streams_.IsOnDevice(values.data())) {
      // This is rare and the data is small, so it runs like any other
      // collective, in the same order.
      return AllReduce(values, Reduction::kSum);
    }
    sums_begun_ = true;
    return PutInStream("a sum", [&] {
      return library_.all_reduce(values.data(), values.data(), values.size(),
                                 nccl::kFloat, nccl::kSum, communicator_,
                                 streams_.communication());
    });
  }

  absl::Status Wait() override {
    if (!failed_.ok()) return failed_;
    if (!sums_begun_) return absl::OkStatus();
    absl::Status status = streams_.ComputeAfterCommunication();
    if (!status.ok()) return Fail(status);
    status = AwaitDevice("the sums of a step");
    if (status.ok()) sums_begun_ = false;
    return status;
  }

  absl::Status Broadcast(absl::Span<char> bytes, int root) override {
    Pieces pieces{{}, bytes};
    return Run("a broadcast", pieces, [&](const char*, char* at) {
      return library_.broadcast(at, at, bytes.size(), nccl::kChar, root,
                                communicator_, streams_.communication());
    });
  }

  absl::Status AllGather(absl::Span<const char> mine,
                         absl::Span<char> all) override {
    Pieces pieces{mine, all};
    return Run("an all-gather", pieces, [&](const char* from, char* to) {
      return library_.all_gather(from, to, mine.size(), nccl::kChar,
                                 communicator_, streams_.communication());
    });
  }

  absl::Status ReduceScatter(absl::Span<float> all,
                             absl::Span<float> mine) override {
    Pieces pieces{BytesOf(all), BytesOf(mine)};
    return Run("a reduce-scatter", pieces, [&](const char* from, char* to) {
      return library_.reduce_scatter(from, to, mine.size(), nccl::kFloat,
                                     nccl::kSum, communicator_,
                                     streams_.communication());
    });
  }

  absl::Status SendReceive(absl::Span<const char> out,
                           absl::Span<char> in) override {
    return Pass(out, next(), in, before());
  }
  absl::Status SendReceiveBack(absl::Span<const char> out,
                               absl::Span<char> in) override {
    return Pass(out, before(), in, next());
  }

  std::string transport() const override {
    return options_.log == nullptr ? "NCCL" : options_.log->Transport();
  }

  CollectiveSeen seen() const override {
    // If the device is stuck before a collective, it has not entered it, even
    // if the host has already put the collective into the stream.
    CollectiveSeen seen;
    seen.left = Since(Counter::kLeft);
    seen.entered = std::max(Since(Counter::kEntered), seen.left);
    return seen;
  }

  absl::Status Finish() override {
    if (absl::Status s = Wait(); !s.ok()) return s;
    absl::Status status =
        Logged(AwaitNccl(library_.finalize(communicator_), "the end"));
    if (!status.ok()) return status;
    library_.destroy(std::exchange(communicator_, nullptr));
    failed_ = absl::FailedPreconditionError("the collective has finished");
    return absl::OkStatus();
  }

 private:
  // The buffers that a collective reads and writes. `from` is empty if `to` is
  // also the input.
  struct Pieces {
    absl::Span<const char> from;
    absl::Span<char> to;
  };

  // The device's count for this communicator. If the counter is below the value
  // at the communicator's begin, the device is still at an earlier
  // communicator's work.
  uint64_t Since(Counter counter) const {
    const uint64_t before = begun_before_[static_cast<int>(counter)];
    return std::max(streams_.Counted(counter), before) - before;
  }

  int next() const { return (options_.rank + 1) % options_.size; }
  int before() const {
    return (options_.rank + options_.size - 1) % options_.size;
  }

  absl::Status Pass(absl::Span<const char> out, int to_rank,
                    absl::Span<char> in, int from_rank) {
    Pieces pieces{out, in};
    return Run("a send and receive", pieces, [&](const char* from, char* to) {
      int code = library_.group_start();
      if (code != nccl::kSuccess) return code;
      code = library_.send(from, out.size(), nccl::kChar, to_rank,
                           communicator_, streams_.communication());
      const int received =
          library_.receive(to, in.size(), nccl::kChar, from_rank, communicator_,
                           streams_.communication());
      const int ended = library_.group_end();
      for (const int each : {code, received}) {
        if (each != nccl::kSuccess && each != nccl::kInProgress) return each;
      }
      return ended;
    });
  }

  // Puts a collective into the communication stream, after the work that it
  // needs. `call` calls NCCL and returns its code.
  template <typename Call>
  absl::Status PutInStream(const char* what, const Call& call) {
    absl::Status status = streams_.CommunicationAfterCompute();
    if (status.ok()) status = streams_.Count(Counter::kEntered);
    if (!status.ok()) return Fail(status);
    if (status = AwaitNccl(call(), what); !status.ok()) return status;
    status = streams_.Count(Counter::kLeft);
    return status.ok() ? status : Fail(status);
  }

  // Runs one collective to its end, after all collectives that were begun.
  // `call` calls NCCL with the buffers to read and to write, on the device, and
  // returns its code.
  template <typename Call>
  absl::Status Run(const char* what, const Pieces& pieces, const Call& call) {
    if (absl::Status s = Wait(); !s.ok()) return s;
    const void* const known =
        pieces.to.empty() ? pieces.from.data() : pieces.to.data();
    const bool host = !streams_.IsOnDevice(known);
    return host ? ThroughRoom(what, pieces, call)
                : OnDevice(what, pieces.from.data(), pieces.to.data(), call);
  }

  template <typename Call>
  absl::Status OnDevice(const char* what, const char* from, char* to,
                        const Call& call) {
    absl::Status status = PutInStream(what, [&] { return call(from, to); });
    if (!status.ok()) return status;
    status = streams_.ComputeAfterCommunication();
    if (!status.ok()) return Fail(status);
    return AwaitDevice(what);
  }

  template <typename Call>
  absl::Status ThroughRoom(const char* what, const Pieces& pieces,
                           const Call& call) {
    // The second buffer is aligned for every data type of NCCL.
    constexpr size_t kAlign = 256;
    const size_t skip = (pieces.from.size() + kAlign - 1) / kAlign * kAlign;
    const absl::StatusOr<char*> room = streams_.Room(skip + pieces.to.size());
    if (!room.ok()) return Fail(room.status());
    char* const to = *room + skip;
    // If there is only one buffer, it is the input too.
    absl::Status status = pieces.from.empty()
                              ? streams_.CopyIn(to, pieces.to)
                              : streams_.CopyIn(*room, pieces.from);
    if (!status.ok()) return Fail(status);
    status = OnDevice(what, *room, to, call);
    if (!status.ok()) return status;
    status = streams_.CopyOut(pieces.to, to);
    return status.ok() ? status : Fail(status);
  }

  // Polls until NCCL has accepted the call. NCCL works in the background at
  // initialization, at the end, and at the first use of a connection.
  absl::Status AwaitNccl(int code, const char* what) {
    if (code != nccl::kSuccess && code != nccl::kInProgress) {
      return NcclError(code, what);
    }
    Watch watch(options_.timeout);
    for (;;) {
      int state = nccl::kSuccess;
      code = library_.async_error(communicator_, &state);
      if (code != nccl::kSuccess) return NcclError(code, what);
      if (state == nccl::kSuccess) return absl::OkStatus();
      if (state != nccl::kInProgress) return NcclError(state, what);
      if (absl::Status s = Pause(watch, what); !s.ok()) return s;
    }
  }

  // Polls until the device has done all work in the communication stream. The
  // timeout starts when the device reaches that work.
  absl::Status AwaitDevice(const char* what) {
    Watch watch(options_.timeout);
    bool own_done = false;
    for (;;) {
      const absl::StatusOr<bool> done = streams_.CommunicationIsDone();
      if (!done.ok()) return Fail(done.status());
      if (*done) return absl::OkStatus();
      int state = nccl::kSuccess;
      const int code = library_.async_error(communicator_, &state);
      if (code != nccl::kSuccess) return NcclError(code, what);
      if (state != nccl::kSuccess && state != nccl::kInProgress) {
        return NcclError(state, what);
      }
      if (!own_done) {
        const absl::StatusOr<bool> own = streams_.ComputeIsDone();
        if (!own.ok()) return Fail(own.status());
        own_done = *own;
        watch.deadline = MonotonicNow() + options_.timeout;
      }
      if (absl::Status s = Pause(watch, what); !s.ok()) return s;
    }
  }

  struct Watch {
    explicit Watch(absl::Duration timeout)
        : deadline(MonotonicNow() + timeout) {}
    absl::Time deadline;
    absl::Duration pause = kPauseMin;
  };

  // Sleeps for a short time, or returns the reason to stop waiting.
  absl::Status Pause(Watch& watch, const char* what) {
    if (options_.interruption != nullptr && options_.interruption->raised()) {
      return Fail(absl::AbortedError(
          absl::StrCat(what, ": interrupted, the world is over")));
    }
    if (MonotonicNow() >= watch.deadline) {
      return Fail(absl::DeadlineExceededError(absl::StrCat(
          "NCCL: ", what, " of ", options_.size,
          " ranks: ", absl::FormatDuration(options_.timeout),
          " without completion; NCCL does not say which rank is silent")));
    }
    if (MonotonicNow() >= log_due_) {
      log_due_ = MonotonicNow() + kLogEach;
      ReadLog();
    }
    nap_->Take(watch.pause);
    watch.pause = std::min(2 * watch.pause, kPauseMax);
    return absl::OkStatus();
  }

  // NCCL's error as a status. NCCL rarely knows which peer is lost; if it does,
  // its last error names the peer.
  absl::Status NcclError(int code, const char* what) {
    if (options_.interruption != nullptr && options_.interruption->raised()) {
      return Fail(absl::AbortedError(
          absl::StrCat(what, ": interrupted, the world is over")));
    }
    const char* last = library_.last_error(communicator_);
    return Fail(absl::Status(
        NcclStatusCode(code),
        absl::StrCat(
            "NCCL: ", what, " of ", options_.size,
            " ranks: ", library_.error_string(code), " (", code, ")",
            last == nullptr || *last == '\0' ? "" : ": ",
            last == nullptr ? "" : last,
            code == nccl::kRemoteError ? "; a peer has failed first" : "")));
  }

  // Makes the communicator unusable and ends its work on the device.
  absl::Status Fail(absl::Status why) {
    failed_ = why;
    ReadLog();
    Abort();
    return why;
  }

  void ReadLog() {
    if (options_.log != nullptr) options_.log->ReadOn();
  }
  absl::Status Logged(absl::Status status) {
    ReadLog();
    return status;
  }

  void Abort() {
    if (communicator_ == nullptr) return;
    library_.abort(std::exchange(communicator_, nullptr));
  }

  const NcclLibrary library_;
  const NcclOptions options_;
  Streams& streams_;
  const std::shared_ptr<Nap> nap_ = std::make_shared<Nap>();
  NcclLibrary::Communicator communicator_ = nullptr;
  absl::Status failed_;
  // The values of the streams' counters when this communicator began.
  const std::array<uint64_t, 2> begun_before_;
  bool sums_begun_ = false;  // Sums were begun since the last Wait.
  absl::Time log_due_ = absl::InfinitePast();
};

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> ConnectNccl(
    const NcclLibrary& library, NcclOptions options) {
  if (options.name == nullptr) {
    options.name = [](int rank) { return absl::StrCat("rank ", rank); };
  }
  absl::StatusOr<std::vector<nccl::UniqueId>> ids =
      AgreeOnNcclIds(library, options);
  if (!ids.ok()) return ids.status();
  auto collective =
      std::make_unique<NcclCollective>(library, std::move(options));
  absl::Status status = collective->Begin(*std::move(ids));
  if (!status.ok()) return status;
  return collective;
}

}  // namespace rollcall
