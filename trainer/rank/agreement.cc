#include "trainer/rank/agreement.h"

#include <bit>
#include <map>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "trainer/model/random.h"
#include "trainer/model/schedule.h"

namespace rollcall {
namespace {

MustAgree Whole(const char* flag, uint64_t value) {
  return {flag, value, [](uint64_t bits, int) { return absl::StrCat(bits); }};
}
MustAgree Real(const char* flag, double value) {
  return {flag, std::bit_cast<uint64_t>(value), [](uint64_t bits, int digits) {
            return absl::StrFormat("%.*g", digits, std::bit_cast<double>(bits));
          }};
}

// All flags that must be equal on every rank. File names may differ.
std::vector<MustAgree> FlagsOf(const TrainOptions& o) {
  return {
      Whole("--layers", o.model.layers),
      Whole("--heads", o.model.heads),
      Whole("--width", o.model.width),
      Whole("--context", o.model.context),
      Whole("--steps", o.steps),
      Whole("--batch", o.batch),
      Real("--lr", o.learning_rate),
      Real("--min-lr", o.learning_rates().last),
      {"--schedule", static_cast<uint64_t>(o.schedule),
       [](uint64_t which, int) {
         return std::string(NameOf(static_cast<Schedule>(which)));
       }},
      Whole("--warmup", o.warmup),
      Whole("--seed", o.seed),
      Real("--beta1", o.optimizer.beta1),
      Real("--beta2", o.optimizer.beta2),
      Real("--weight-decay", o.optimizer.weight_decay),
      Real("--clip", o.optimizer.clip),
      Whole("--val-every", o.validate_every),
      Whole("--val-batches", o.validation_batches),
      {"--skip-spikes", std::bit_cast<uint64_t>(o.skip_spikes),
       [](uint64_t bits, int digits) -> std::string {
         const double factor = std::bit_cast<double>(bits);
         return factor > 0 ? absl::StrFormat("%.*g", digits, factor) : "off";
       }},
      {"--init-from", o.init_from.empty() ? 0u : 1u,
       [](uint64_t given, int) -> std::string {
         return given != 0 ? "given" : "not given";
       }},
  };
}

uint64_t Digest(const std::vector<MustAgree>& values) {
  uint64_t digest = values.size();
  for (const MustAgree& each : values) digest = Mix(digest + each.value);
  return digest;
}

uint64_t DigestOfNames(const std::vector<MustAgree>& values) {
  uint64_t digest = values.size();
  for (const MustAgree& each : values) {
    for (const unsigned char c : each.differs) digest = Mix(digest + c);
  }
  return digest;
}

// The values of all ranks, one rank after the other.
absl::StatusOr<std::vector<uint64_t>> Gather(
    Collective& collective, const std::vector<MustAgree>& values) {
  std::vector<uint64_t> mine;
  for (const MustAgree& each : values) mine.push_back(each.value);
  std::vector<uint64_t> all(values.size() * collective.size());
  absl::Status status = collective.AllGather(BytesOf(absl::MakeSpan(mine)),
                                             BytesOf(absl::MakeSpan(all)));
  if (!status.ok()) return status;
  return all;
}

std::string TextOf(const MustAgree& value, uint64_t of_wrong,
                   uint64_t of_right) {
  if (value.text == nullptr) return value.differs;
  constexpr int kShort = 6;
  constexpr int kExact = 17;
  const int digits =
      value.text(of_wrong, kShort) != value.text(of_right, kShort) ? kShort
                                                                   : kExact;
  return absl::StrCat(value.differs, " ", value.text(of_wrong, digits), " and ",
                      value.text(of_right, digits),
                      "; give every node the same");
}

// The first rank whose values more than half of the ranks have. `all` holds
// `count` values of each rank.
std::optional<int> RankOfMajority(const std::vector<uint64_t>& all,
                                  size_t count) {
  std::map<std::vector<uint64_t>, std::vector<int>> ranks;
  const size_t size = all.size() / count;
  for (size_t rank = 0; rank < size; ++rank) {
    const auto begin = all.begin() + rank * count;
    std::vector<int>& same = ranks[{begin, begin + count}];
    same.push_back(static_cast<int>(rank));
    if (2 * same.size() > size) return same.front();
  }
  return std::nullopt;
}

// Every rank has all values, so all ranks find the same differences.
absl::Status Judge(const Collective& collective,
                   const std::vector<MustAgree>& values,
                   const std::vector<uint64_t>& all,
                   std::optional<int> source) {
  const size_t count = values.size();
  const int size = collective.size();
  // A rank with the values that are right: those of the source, or of more than
  // half of the ranks.
  const std::optional<int> known =
      source.has_value() ? source : RankOfMajority(all, count);
  const int right = known.value_or(0);
  // The index of the first value in which `rank` differs from the right rank;
  // `count` if none does.
  const auto differs = [&](int rank) {
    size_t i = 0;
    while (i < count && all[rank * count + i] == all[right * count + i]) ++i;
    return i;
  };
  // Name this rank if it differs, otherwise the first rank that does.
  int wrong = collective.rank();
  if (differs(wrong) == count) wrong = 0;
  while (wrong < size && differs(wrong) == count) ++wrong;
  if (wrong == size) return absl::OkStatus();
  const size_t what = differs(wrong);
  const std::string text =
      absl::StrCat("the ranks do not agree, ", collective.NameOf(wrong),
                   " and ", collective.NameOf(right), ": ",
                   TextOf(values[what], all[wrong * count + what],
                          all[right * count + what]));
  if (known.has_value() && wrong != collective.rank()) {
    return absl::UnavailableError(text);
  }
  return absl::FailedPreconditionError(text);
}

}  // namespace

absl::Status Agree(Collective& collective, const std::vector<MustAgree>& values,
                   std::optional<int> source) {
  const absl::StatusOr<std::vector<uint64_t>> all = Gather(collective, values);
  if (!all.ok()) return all.status();
  return Judge(collective, values, *all, source);
}

// The flags are compared by a digest first: ranks of another version may have
// another number of them.
absl::Status AgreeOnSettings(Collective& collective,
                             const TrainOptions& options, uint64_t data,
                             uint64_t validation_data,
                             std::optional<int> source) {
  const std::vector<MustAgree> flags = FlagsOf(options);
  const std::vector<MustAgree> values = {
      {"the versions of rollcall-train differ; run the same on every node",
       DigestOfNames(flags)},
      {"the flags differ; give every node the same", Digest(flags)},
      {"the files of --data differ; give every node the same", data},
      {"the files of --val-data differ; give every node the same",
       validation_data}};
  const absl::StatusOr<std::vector<uint64_t>> all = Gather(collective, values);
  if (!all.ok()) return all.status();
  bool same_version = true, same_flags = true;
  for (size_t i = 0; i < all->size(); i += values.size()) {
    same_version &= (*all)[i] == (*all)[0];
    same_flags &= (*all)[i + 1] == (*all)[1];
  }
  if (same_version && !same_flags) {
    absl::Status status = Agree(collective, flags, source);
    if (!status.ok()) return status;
  }
  return Judge(collective, values, *all, source);
}

}  // namespace rollcall
