#include "trainer/check/rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "daemon/base/clock.h"

namespace rollcall {
namespace {

// The number of values per copy between host memory and the collective's
// memory.
constexpr size_t kBlock = 1 << 18;

absl::Span<char> Bytes(absl::Span<float> values) {
  return {reinterpret_cast<char*>(values.data()),
          values.size() * sizeof(float)};
}

// One collective at one size: its buffers and how it runs.
class Operation {
 public:
  Operation(Collective& collective, CheckMemory& memory, const RowPlan& plan)
      : collective_(collective), memory_(memory), plan_(plan) {}

  absl::Status Prepare() {
    const size_t one = plan_.size.count;
    const size_t all = plan_.size.bytes / sizeof(float);
    const bool gathers = plan_.kind == CollectiveKind::kAllGather;
    const bool scatters = plan_.kind == CollectiveKind::kReduceScatter;
    const absl::StatusOr<absl::Span<float>> in =
        memory_.Room(0, scatters ? all : one);
    if (!in.ok()) return in.status();
    in_ = out_ = *in;
    if (in_place()) return absl::OkStatus();
    const absl::StatusOr<absl::Span<float>> out =
        memory_.Room(1, gathers ? all : one);
    if (!out.ok()) return out.status();
    out_ = *out;
    return absl::OkStatus();
  }

  // Runs the collective `times` times. Returns once it has finished on this
  // rank.
  absl::Status Run(int times) {
    for (int i = 0; i < times; ++i) {
      if (absl::Status s = RunOnce(); !s.ok()) return s;
    }
    return memory_.Synchronize();
  }

  absl::Status Zero() {
    const Period zeros(1, 0.0f);
    if (absl::Status s = Write(zeros, 0, in_); !s.ok()) return s;
    return Write(zeros, 0, out_);
  }

  // Runs the collective once over a pattern. Returns the wrong values in this
  // rank's result.
  absl::StatusOr<WrongValues> Verify() {
    const int rank = collective_.rank();
    absl::Status status =
        in_place() ? absl::OkStatus() : Write(Period{kUnwritten}, 0, out_);
    if (!status.ok()) return status;
    const size_t first =
        plan_.kind == CollectiveKind::kAllGather ? rank * plan_.size.count : 0;
    status = Write(PatternOf(rank, plan_.seed), first, in_);
    if (!status.ok()) return status;
    if (status = Run(1); !status.ok()) return status;
    return Compare();
  }

 private:
  bool in_place() const {
    return plan_.kind == CollectiveKind::kAllReduce ||
           plan_.kind == CollectiveKind::kBroadcast;
  }

  absl::Status RunOnce() {
    switch (plan_.kind) {
      case CollectiveKind::kAllReduce:
        return collective_.AllReduce(out_, Reduction::kSum);
      case CollectiveKind::kAllGather:
        return collective_.AllGather(Bytes(in_), Bytes(out_));
      case CollectiveKind::kReduceScatter:
        return collective_.ReduceScatter(in_, out_);
      case CollectiveKind::kBroadcast:
        return collective_.Broadcast(Bytes(out_), RootOf(plan_.kind));
      case CollectiveKind::kSendReceive:
        return collective_.SendReceive(Bytes(in_), Bytes(out_));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<WrongValues> Compare() {
    const int rank = collective_.rank(), ranks = collective_.size();
    const size_t one = plan_.size.count;
    WrongValues wrong;
    absl::Status status;
    switch (plan_.kind) {
      case CollectiveKind::kAllReduce:
        status = Read(PatternSum(ranks, plan_.seed), 0, out_, &wrong);
        break;
      case CollectiveKind::kReduceScatter:
        status = Read(PatternSum(ranks, plan_.seed), rank * one, out_, &wrong);
        break;
      case CollectiveKind::kBroadcast:
        status =
            Read(PatternOf(RootOf(plan_.kind), plan_.seed), 0, out_, &wrong);
        break;
      case CollectiveKind::kSendReceive:
        status = Read(PatternOf((rank + ranks - 1) % ranks, plan_.seed), 0,
                      out_, &wrong);
        break;
      case CollectiveKind::kAllGather:
        for (int from = 0; from < ranks && status.ok(); ++from) {
          status = Read(PatternOf(from, plan_.seed), from * one,
                        out_.subspan(from * one, one), &wrong);
        }
        break;
    }
    if (!status.ok()) return status;
    return wrong;
  }

  absl::Status Write(const Period& period, size_t first,
                     absl::Span<float> room) {
    for (size_t at = 0; at < room.size(); at += kBlock) {
      const absl::Span<float> to = room.subspan(at, kBlock);
      block_.resize(to.size());
      FillPattern(period, first + at, absl::MakeSpan(block_));
      if (absl::Status s = memory_.Put(block_, to); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status Read(const Period& expected, size_t first,
                    absl::Span<const float> room, WrongValues* wrong) {
    for (size_t at = 0; at < room.size(); at += kBlock) {
      const absl::Span<const float> from = room.subspan(at, kBlock);
      block_.resize(from.size());
      absl::Status s = memory_.Get(from, absl::MakeSpan(block_));
      if (!s.ok()) return s;
      CompareWithPattern(expected, first + at, block_, wrong);
    }
    return absl::OkStatus();
  }

  Collective& collective_;
  CheckMemory& memory_;
  const RowPlan& plan_;
  absl::Span<float> in_, out_;
  std::vector<float> block_;
};

// The maximum over all ranks. All ranks return from this call at about the same
// time.
absl::StatusOr<double> MaxOverRanks(Collective& collective, double value) {
  float max = static_cast<float>(value);
  absl::Status s =
      collective.AllReduce(absl::MakeSpan(&max, 1), Reduction::kMax);
  if (!s.ok()) return s;
  return max;
}

// The time of one run on the slowest rank, averaged over `times` runs.
absl::StatusOr<double> Time(Collective& collective, Operation& operation,
                            int times) {
  const absl::StatusOr<double> aligned = MaxOverRanks(collective, 0);
  if (!aligned.ok()) return aligned;
  const absl::Time begun = MonotonicNow();
  if (absl::Status s = operation.Run(times); !s.ok()) return s;
  // If no bytes are moved, the clock may not have advanced.
  const absl::Duration took =
      std::max(MonotonicNow() - begun, absl::Nanoseconds(1));
  return MaxOverRanks(collective, absl::ToDoubleMicroseconds(took) / times);
}

// The number of runs that fit into the budget if one run takes `one_us`. All
// ranks get the same number, because they have the same `one_us`.
int Affordable(const RowPlan& plan, double one_us) {
  const double room = absl::ToDoubleMicroseconds(plan.budget) / one_us;
  return room < plan.iterations ? std::max(1, static_cast<int>(room))
                                : plan.iterations;
}

// The ranks that found wrong values, with their findings.
absl::StatusOr<std::vector<WrongOnRank>> Gather(Collective& collective,
                                                const WrongValues& mine) {
  const absl::StatusOr<double> any =
      MaxOverRanks(collective, mine.count == 0 ? 0 : 1);
  if (!any.ok()) return any.status();
  std::vector<WrongOnRank> found;
  if (*any == 0) return found;
  std::string out(sizeof(mine), '\0');
  std::memcpy(out.data(), &mine, sizeof(mine));
  std::string all(sizeof(mine) * collective.size(), '\0');
  absl::Status s = collective.AllGather(out, absl::MakeSpan(all));
  if (!s.ok()) return s;
  for (int rank = 0; rank < collective.size(); ++rank) {
    WrongOnRank one{rank, {}};
    std::memcpy(&one.values, all.data() + rank * sizeof(mine), sizeof(mine));
    if (one.values.count > 0) found.push_back(one);
  }
  return found;
}

}  // namespace

uint64_t Row::wrong_count() const {
  return std::accumulate(wrong.begin(), wrong.end(), uint64_t{0},
                         [](uint64_t sum, const WrongOnRank& one) {
                           return sum + one.values.count;
                         });
}

absl::StatusOr<Row> MeasureRow(Collective& collective, CheckMemory& memory,
                               const RowPlan& plan) {
  Operation operation(collective, memory, plan);
  if (absl::Status s = operation.Prepare(); !s.ok()) return s;
  if (absl::Status s = operation.Zero(); !s.ok()) return s;
  // The first run sets up connections, so its time does not predict that of
  // later runs.
  if (absl::Status s = operation.Run(1); !s.ok()) return s;
  const absl::StatusOr<double> one = Time(collective, operation, 1);
  if (!one.ok()) return one.status();
  const int affordable = Affordable(plan, *one);
  const int warmup = std::min(plan.warmup, affordable);
  if (absl::Status s = operation.Run(warmup); !s.ok()) return s;
  const absl::StatusOr<double> time = Time(collective, operation, affordable);
  if (!time.ok()) return time.status();
  const absl::StatusOr<WrongValues> wrong = operation.Verify();
  if (!wrong.ok()) return wrong.status();
  Row row{plan.kind, plan.size, affordable, *time, {}};
  absl::StatusOr<std::vector<WrongOnRank>> found = Gather(collective, *wrong);
  if (!found.ok()) return found.status();
  row.wrong = *std::move(found);
  return row;
}

}  // namespace rollcall
