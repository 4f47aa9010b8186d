#include "trainer/check/links.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "daemon/base/clock.h"

namespace rollcall {
namespace {

constexpr size_t kPingBytes = 8;
constexpr int kWarmup = 20;

// The part that this rank has in a round.
enum class Part { kIdle, kBegins, kAnswers };

Part PartIn(int round, const Collective& collective) {
  const int ranks = collective.size();
  const int links = ranks == 2 ? 1 : ranks;
  const int before = (collective.rank() + ranks - 1) % ranks;
  if (collective.rank() < links &&
      RoundOfLink(collective.rank(), ranks) == round) {
    return Part::kBegins;
  }
  return before < links && RoundOfLink(before, ranks) == round ? Part::kAnswers
                                                               : Part::kIdle;
}

// One round trip, for any part. All ranks must call the same functions, so an
// idle rank calls them with empty buffers.
absl::Status Trip(Collective& collective, Part part, std::string* ping) {
  const absl::Span<char> none, word = absl::MakeSpan(*ping);
  const bool begins = part == Part::kBegins, answers = part == Part::kAnswers;
  absl::Status s =
      collective.SendReceive(begins ? word : none, answers ? word : none);
  if (!s.ok()) return s;
  return collective.SendReceiveBack(answers ? word : none,
                                    begins ? word : none);
}

absl::StatusOr<std::vector<double>> Trips(Collective& collective, Part part,
                                          int trips) {
  std::string ping(kPingBytes, 'p');
  std::vector<double> times_us;
  times_us.reserve(trips);
  for (int i = -kWarmup; i < trips; ++i) {
    const absl::Time begun = MonotonicNow();
    if (absl::Status s = Trip(collective, part, &ping); !s.ok()) return s;
    if (i < 0) continue;
    times_us.push_back(absl::ToDoubleMicroseconds(MonotonicNow() - begun) / 2);
  }
  return times_us;
}

}  // namespace

LinkTime Summarize(int from, std::vector<double> times_us) {
  std::sort(times_us.begin(), times_us.end());
  const auto at = [&](double part) {
    return times_us[static_cast<size_t>(part * (times_us.size() - 1))];
  };
  return {from, at(0.5), at(0.99)};
}

int RoundOfLink(int from, int ranks) {
  // In a ring with an odd number of ranks, the last link needs a third round.
  if (ranks % 2 == 1 && from == ranks - 1) return 2;
  return from % 2;
}

absl::StatusOr<std::vector<LinkTime>> MeasureLinks(Collective& collective,
                                                   int trips) {
  std::vector<LinkTime> links;
  const int ranks = collective.size();
  if (ranks == 1) return links;
  LinkTime mine{collective.rank(), 0, 0};
  for (int round = 0; round < 3; ++round) {
    // This makes all ranks begin the round together.
    float word = 0;
    absl::Status s =
        collective.AllReduce(absl::MakeSpan(&word, 1), Reduction::kMax);
    if (!s.ok()) return s;
    const Part part = PartIn(round, collective);
    absl::StatusOr<std::vector<double>> times_us =
        Trips(collective, part, trips);
    if (!times_us.ok()) return times_us.status();
    if (part == Part::kBegins) {
      mine = Summarize(collective.rank(), *std::move(times_us));
    }
  }
  std::string out(sizeof(mine), '\0');
  std::memcpy(out.data(), &mine, sizeof(mine));
  std::string all(sizeof(mine) * ranks, '\0');
  absl::Status s = collective.AllGather(out, absl::MakeSpan(all));
  if (!s.ok()) return s;
  links.resize(ranks == 2 ? 1 : ranks);
  for (size_t i = 0; i < links.size(); ++i) {
    std::memcpy(&links[i], all.data() + i * sizeof(mine), sizeof(mine));
  }
  return links;
}

}  // namespace rollcall
