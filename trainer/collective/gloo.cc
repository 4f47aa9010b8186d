#include "trainer/collective/gloo.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/collective/gloo_ring.h"

namespace rollcall {
namespace {

// A broadcast goes round in pieces, so that all links are busy at once.
constexpr size_t kPieceBytes = 256 << 10;

absl::Span<char> Bytes(absl::Span<float> values) {
  return {reinterpret_cast<char*>(values.data()),
          values.size() * sizeof(float)};
}

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
      : options_(std::move(options)), ring_(std::move(ring)) {}
  ~GlooCollective() override {
    if (options_.interruption) options_.interruption->Wakes(nullptr);
  }

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }

  // Chunk by chunk round the ring: each is reduced once, by one rank after the
  // other, and what the last of them has is passed on. So all get equal bits.
  absl::Status AllReduce(absl::Span<float> values,
                         Reduction reduction) override {
    ++sequence_;
    const int n = size();
    incoming_.resize(values.size() / n + 1);
    for (int step = 0; step < n - 1; ++step) {
      const absl::Span<float> out = Chunk(values, rank() - step);
      const absl::Span<float> mine = Chunk(values, rank() - step - 1);
      const absl::Span<float> in = absl::MakeSpan(incoming_).first(mine.size());
      if (absl::Status s = ring_->Pass(Bytes(out), Bytes(in)); !s.ok()) {
        return Named(s, "all-reduce", values.size() * sizeof(float));
      }
      Reduce(in, reduction, mine);
    }
    for (int step = 0; step < n - 1; ++step) {
      const absl::Span<float> out = Chunk(values, rank() + 1 - step);
      const absl::Span<float> in = Chunk(values, rank() - step);
      if (absl::Status s = ring_->Pass(Bytes(out), Bytes(in)); !s.ok()) {
        return Named(s, "all-reduce", values.size() * sizeof(float));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Broadcast(absl::Span<char> bytes, int root) override {
    ++sequence_;
    // How far from the root on the way round.
    const int distance = (rank() - root + size()) % size();
    const bool receives = distance > 0, sends = distance < size() - 1;
    // What comes in is passed on while the next comes in.
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
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    // By the exchange, not by Gloo: a barrier over the connections would leave
    // its own last messages open to being cut off.
    return options_.exchange("gloo/finish", "").status();
  }

 private:
  // Chunk `which`, counted round the ring.
  absl::Span<float> Chunk(absl::Span<float> values, int which) const {
    const size_t n = size();
    const size_t at = (which % size() + size()) % size();
    const size_t begin = values.size() * at / n;
    return values.subspan(begin, values.size() * (at + 1) / n - begin);
  }

  absl::Status Named(const absl::Status& status, const char* what,
                     size_t bytes) const {
    return absl::Status(status.code(),
                        absl::StrCat(what, " ", sequence_, " of ", bytes,
                                     " bytes: ", status.message()));
  }

  const GlooOptions options_;
  const std::shared_ptr<GlooRing> ring_;
  std::vector<float> incoming_;
  uint64_t sequence_ = 0;
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
