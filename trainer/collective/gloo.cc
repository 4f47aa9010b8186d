#include "trainer/collective/gloo.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/collective/gloo_ring.h"
#include "trainer/collective/sum_queue.h"

namespace rollcall {
namespace {

// A broadcast passes along the ring in pieces, so that all links are busy at
// the same time.
constexpr size_t kPieceBytes = 256 << 10;

void Reduce(absl::Span<const float> from, Reduction reduction,
            absl::Span<float> into) {
  if (reduction == Reduction::kSum) {
    for (size_t i = 0; i < into.size(); ++i) into[i] += from[i];
  } else {
    for (size_t i = 0; i < into.size(); ++i) {
      into[i] = into[i] < from[i] ? from[i] : into[i];
    }
  }
}

class GlooCollective final : public Collective {
 public:
  GlooCollective(GlooOptions options, std::shared_ptr<GlooRing> ring)
      : options_(std::move(options)),
        ring_(std::move(ring)),
        summing_([this](absl::Span<float> values) { return Sum(values); }) {}
  ~GlooCollective() override {
    if (options_.interruption) options_.interruption->Wakes(nullptr);
    // Sums that were begun, but not waited for, are dropped.
    ring_->Interrupt();
  }

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  std::string NameOf(int which) const override { return options_.name(which); }
  std::string transport() const override { return "Socket"; }
  CollectiveSeen seen() const override { return {entered_, left_}; }

  absl::Status BeginSum(absl::Span<float> values) override {
    return summing_.Begin(values);
  }
  absl::Status Wait() override { return summing_.Wait(); }

  // Each chunk is reduced once, rank by rank. The rank that adds its values
  // last has the result and passes it on, so all ranks get the same bits.
  absl::Status AllReduce(absl::Span<float> values,
                         Reduction reduction) override {
    if (absl::Status s = Wait(); !s.ok()) return s;
    return ReduceAll(values, reduction);
  }

  absl::Status Broadcast(absl::Span<char> bytes, int root) override {
    if (absl::Status s = Wait(); !s.ok()) return s;
    Enter();
    // The distance from the root along the ring.
    const int distance = (rank() - root + size()) % size();
    const bool receives = distance > 0, sends = distance < size() - 1;
    // Each piece is passed on while the next one arrives.
    absl::Span<char> out;
    for (size_t at = 0; at < bytes.size() || !out.empty(); at += kPieceBytes) {
      const absl::Span<char> piece = at < bytes.size()
                                         ? bytes.subspan(at, kPieceBytes)
                                         : absl::Span<char>();
      if (!receives) out = piece;
      absl::Status s = ring_->Pass(sends ? out : absl::Span<char>(),
                                   receives ? piece : absl::Span<char>());
      if (!s.ok()) return Named(s, "broadcast", bytes.size());
      out = receives && sends ? piece : absl::Span<char>();
    }
    return Leave();
  }

  absl::Status AllGather(absl::Span<const char> mine,
                         absl::Span<char> all) override {
    if (absl::Status s = Wait(); !s.ok()) return s;
    Enter();
    std::copy(mine.begin(), mine.end(), Chunk(all, rank()).begin());
    if (absl::Status s = PassRound(all, rank()); !s.ok()) {
      return Named(s, "all-gather", all.size());
    }
    return Leave();
  }

  absl::Status ReduceScatter(absl::Span<float> all,
                             absl::Span<float> mine) override {
    if (absl::Status s = Wait(); !s.ok()) return s;
    Enter();
    if (absl::Status s = ReduceRound(all, Reduction::kSum, rank()); !s.ok()) {
      return Named(s, "reduce-scatter", all.size() * sizeof(float));
    }
    const absl::Span<float> whole = Chunk(all, rank());
    std::copy(whole.begin(), whole.end(), mine.begin());
    return Leave();
  }

  absl::Status SendReceive(absl::Span<const char> out,
                           absl::Span<char> in) override {
    if (absl::Status s = Wait(); !s.ok()) return s;
    Enter();
    if (absl::Status s = ring_->Pass(out, in); !s.ok()) {
      return Named(s, "send and receive", out.size());
    }
    return Leave();
  }

  absl::Status SendReceiveBack(absl::Span<const char> out,
                               absl::Span<char> in) override {
    if (absl::Status s = Wait(); !s.ok()) return s;
    Enter();
    if (absl::Status s = ring_->PassBack(out, in); !s.ok()) {
      return Named(s, "send and receive back", out.size());
    }
    return Leave();
  }

  absl::Status Finish() override {
    if (absl::Status s = Wait(); !s.ok()) return s;
    // Uses the exchange, because the last messages of a barrier over Gloo's
    // connections could be lost when the connections close.
    return options_.exchange("gloo/finish", "").status();
  }

 private:
  absl::Status Sum(absl::Span<float> values) {
    return ReduceAll(values, Reduction::kSum);
  }

  absl::Status ReduceAll(absl::Span<float> values, Reduction reduction) {
    Enter();
    absl::Status status = ReduceRound(values, reduction, rank() + 1);
    if (status.ok()) status = PassRound(values, rank() + 1);
    if (!status.ok()) {
      return Named(status, "all-reduce", values.size() * sizeof(float));
    }
    return Leave();
  }

  // Passes chunks along the ring; each rank adds its own values. At the end
  // this rank has the sum of chunk `last`.
  absl::Status ReduceRound(absl::Span<float> values, Reduction reduction,
                           int last) {
    incoming_.resize(values.size() / size() + 1);
    for (int step = 1; step < size(); ++step) {
      const absl::Span<float> out = Chunk(values, last - step);
      const absl::Span<float> mine = Chunk(values, last - step - 1);
      const absl::Span<float> in = absl::MakeSpan(incoming_).first(mine.size());
      if (absl::Status s = ring_->Pass(BytesOf(out), BytesOf(in)); !s.ok()) {
        return s;
      }
      Reduce(in, reduction, mine);
    }
    return absl::OkStatus();
  }

  // Passes complete chunks along the ring, starting with chunk `first`, which
  // this rank has.
  template <typename T>
  absl::Status PassRound(absl::Span<T> values, int first) {
    for (int step = 0; step < size() - 1; ++step) {
      absl::Status s = ring_->Pass(BytesOf(Chunk(values, first - step)),
                                   BytesOf(Chunk(values, first - step - 1)));
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

  // Chunk `which`, counted modulo the ring's size.
  template <typename T>
  absl::Span<T> Chunk(absl::Span<T> values, int which) const {
    const size_t n = size();
    const size_t at = (which % size() + size()) % size();
    const size_t begin = values.size() * at / n;
    return values.subspan(begin, values.size() * (at + 1) / n - begin);
  }

  void Enter() { ++entered_; }
  absl::Status Leave() {
    left_ = entered_.load();
    return absl::OkStatus();
  }

  absl::Status Named(const absl::Status& status, const char* what,
                     size_t bytes) const {
    return absl::Status(status.code(),
                        absl::StrCat(what, " ", entered_.load(), " of ", bytes,
                                     " bytes: ", status.message()));
  }

  const GlooOptions options_;
  const std::shared_ptr<GlooRing> ring_;
  std::vector<float> incoming_;
  std::atomic<uint64_t> entered_{0};
  std::atomic<uint64_t> left_{0};
  SumQueue summing_;  // Declared last: its thread uses all members above.
};

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> ConnectGloo(GlooOptions options) {
  const std::shared_ptr<GlooRing> ring = GlooRing::Make(options);
  if (options.interruption) {
    options.interruption->Wakes([weak = std::weak_ptr<GlooRing>(ring)] {
      if (const auto living = weak.lock()) living->Interrupt();
    });
  }
  if (absl::Status s = ring->Connect(); !s.ok()) return s;
  return std::make_unique<GlooCollective>(std::move(options), ring);
}

}  // namespace rollcall
