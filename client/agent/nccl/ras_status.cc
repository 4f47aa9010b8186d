#include "client/agent/nccl/ras_status.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/name_list.h"
#include "daemon/base/printable.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

using Json = nlohmann::json;

// How much of an answer's texts, and how many communicators and ranks, are
// shown.
constexpr size_t kShownBytes = 80;
constexpr size_t kCommunicatorsNamed = 2;
constexpr size_t kRanksNamed = 4;

const Json& Member(const Json& object, const char* name) {
  static const Json& none = *new Json;
  if (!object.is_object()) return none;
  const auto at = object.find(name);
  return at == object.end() ? none : *at;
}

// 0, if it is not a number that fits.
uint64_t Count(const Json& value) {
  return value.is_number_unsigned() ? value.get<uint64_t>() : 0;
}
int64_t Number(const Json& value) {
  return static_cast<int64_t>(std::min<uint64_t>(Count(value), INT64_MAX));
}
std::string Text(const Json& value) {
  return value.is_string()
             ? Printable(value.get_ref<const std::string&>(), kShownBytes)
             : "";
}

RasRank ParseRank(const Json& value) {
  RasRank rank{Number(Member(value, "rank")), Text(Member(value, "host")),
               Number(Member(value, "pid")), Number(Member(value, "cuda_dev"))};
  const Json& counts = Member(value, "collective_counts");
  if (!counts.is_object()) return rank;
  for (const auto& [kind, count] : counts.items()) rank.begun += Count(count);
  return rank;
}

std::vector<RasRank> ParseRanks(const Json& values) {
  std::vector<RasRank> ranks;
  if (!values.is_array()) return ranks;
  for (const Json& value : values) {
    if (value.is_object()) ranks.push_back(ParseRank(value));
  }
  return ranks;
}

bool IsTrue(const Json& value) {
  return value.is_boolean() && value.get<bool>();
}

std::vector<RasRank> ParseMissing(const Json& values) {
  std::vector<RasRank> ranks;
  if (!values.is_array()) return ranks;
  for (const Json& value : values) {
    if (IsTrue(Member(value, "unresponsive")) ||
        IsTrue(Member(value, "considered_dead"))) {
      ranks.push_back(ParseRank(value));
    }
  }
  return ranks;
}

// Without the zone of a link-local address.
std::string HostOf(const RasRank& rank) {
  return rank.host.substr(0, rank.host.find('%'));
}

std::string Named(const RasRank& rank) {
  return absl::StrCat("rank ", rank.rank, " (process ", rank.pid, " on ",
                      rank.host, ")");
}

// A rank that has begun so many collectives, among the others.
struct Comparison {
  bool behind = false;
  bool waits = false;
  std::string text;
};

Comparison Compare(const RasCommunicator& communicator, uint64_t begun) {
  uint64_t most = begun;
  std::vector<std::string> awaited;
  for (const RasRank& rank : communicator.ranks) {
    most = std::max(most, rank.begun);
    if (rank.begun < begun) {
      awaited.push_back(absl::StrCat(Named(rank), " with ", rank.begun));
    }
  }
  for (const RasRank& rank : communicator.missing) {
    awaited.push_back(absl::StrCat(Named(rank), ", which does not answer"));
  }
  Comparison comparison{most > begun, !awaited.empty(), ""};
  if (!comparison.behind && !comparison.waits) return comparison;
  comparison.text =
      absl::StrCat(begun, " collectives begun in communicator ",
                   communicator.hash, " of ", communicator.size, " ranks");
  if (comparison.behind) {
    absl::StrAppend(&comparison.text, ", others ", most);
  }
  if (comparison.waits) {
    absl::StrAppend(&comparison.text, ", waits for ",
                    NameList(std::move(awaited), kRanksNamed));
  }
  return comparison;
}

}  // namespace

absl::StatusOr<RasStatus> ParseRasStatus(absl::string_view json) {
  const auto parts =
      static_cast<size_t>(std::count_if(json.begin(), json.end(), [](char c) {
        return c == ',' || c == '{' || c == '[';
      }));
  if (parts > kRasPartsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("NCCL's RAS service: expected an answer of at most ",
                     kRasPartsMax, " members, got ", parts));
  }
  const Json answer = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  const Json& communicators = Member(answer, "communicators");
  if (!communicators.is_array()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "NCCL's RAS service: expected JSON with \"communicators\" (NCCL 2.28.7 "
        "or newer), got \"",
        Printable(std::string(json.substr(0, kShownBytes)), kShownBytes),
        "\""));
  }
  RasStatus status;
  for (const Json& value : communicators) {
    if (!value.is_object()) continue;
    status.communicators.push_back(
        {Text(Member(value, "hash")), Count(Member(value, "size")),
         ParseRanks(Member(value, "ranks")),
         ParseMissing(Member(value, "missing_ranks"))});
  }
  return status;
}

// A process can have several ranks, one for each of its GPUs. The one that is
// furthest behind counts.
std::optional<uint64_t> FindIn(const RasCommunicator& communicator,
                               const RasProcesses& processes) {
  std::optional<uint64_t> begun;
  std::set<std::pair<int64_t, int64_t>> places;
  for (const RasRank& rank : communicator.ranks) {
    if (!processes.pids.contains(rank.pid) ||
        !processes.hosts.contains(HostOf(rank))) {
      continue;
    }
    if (!places.insert({rank.pid, rank.device}).second) return std::nullopt;
    begun = std::min(begun.value_or(rank.begun), rank.begun);
  }
  return begun;
}

RasPlace FindPlace(const RasStatus& status, const RasProcesses& processes) {
  bool behind = false, waits = false;
  std::vector<std::string> texts;
  for (const RasCommunicator& communicator : status.communicators) {
    const std::optional<uint64_t> begun = FindIn(communicator, processes);
    if (!begun.has_value()) continue;
    Comparison comparison = Compare(communicator, *begun);
    behind = behind || comparison.behind;
    waits = waits || comparison.waits;
    if (!comparison.text.empty()) texts.push_back(std::move(comparison.text));
  }
  RasPlace place;
  if (waits) {
    place.place = v1::NCCL_PLACE_WAITS;
  } else if (behind) {
    place.place = v1::NCCL_PLACE_BEHIND;
  }
  if (texts.empty()) return place;
  const size_t all = texts.size();
  texts.resize(std::min(all, kCommunicatorsNamed));
  place.text = absl::StrCat("NCCL: ", absl::StrJoin(texts, "; "));
  if (all > texts.size()) {
    absl::StrAppend(&place.text, "; and ", all - texts.size(),
                    " further communicators");
  }
  return place;
}

}  // namespace rollcall
