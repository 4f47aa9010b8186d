#include "client/agent/nccl/ras_status.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/text/name_list.h"
#include "daemon/base/text/printable.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

using Json = nlohmann::json;

// Limits on what is shown: bytes of a text, communicators, ranks.
constexpr size_t kShownBytes = 80;
constexpr size_t kCommunicatorsNamed = 2;
constexpr size_t kRanksNamed = 4;

// Reads the answer without a copy of it in memory: a false service could send
// millions of small objects.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  RasStatus TakeStatus() { return std::move(status_); }
  bool has_communicators() const { return has_communicators_; }
  bool too_many() const { return parts_ > kRasPartsMax; }

  bool start_object(size_t) override {
    if (IsAt({"communicators", kItem})) {
      if (++parts_ > kRasPartsMax) return false;
      status_.communicators.emplace_back();
    } else if (IsAt({"communicators", kItem, "ranks", kItem}) || InMissing()) {
      rank_ = RasRank();
      is_missing_ = false;
      if (++parts_ > kRasPartsMax) return false;
    }
    return Enter("");
  }
  bool end_object() override {
    path_.pop_back();
    if (status_.communicators.empty()) return true;
    RasCommunicator& communicator = status_.communicators.back();
    if (IsAt({"communicators", kItem, "ranks", kItem})) {
      communicator.ranks.push_back(std::move(rank_));
    } else if (InMissing() && is_missing_) {
      communicator.missing.push_back(std::move(rank_));
    }
    return true;
  }
  bool start_array(size_t) override {
    has_communicators_ = has_communicators_ || IsAt({"communicators"});
    return Enter(kItem);
  }
  bool end_array() override {
    path_.pop_back();
    return true;
  }
  bool key(std::string& name) override {
    path_.back() = name.substr(0, kShownBytes);
    return true;
  }

  bool number_unsigned(uint64_t value) override {
    const int64_t number =
        static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
    if (IsAt({"communicators", kItem, "size"})) {
      status_.communicators.back().size = value;
    } else if (InRank("rank")) {
      rank_.rank = number;
    } else if (InRank("pid")) {
      rank_.pid = number;
    } else if (InRank("cuda_dev")) {
      rank_.device = number;
    } else if (path_.size() == 6 && path_[2] == "ranks" &&
               path_[4] == "collective_counts") {
      rank_.begun += value;
    }
    return true;
  }
  bool string(std::string& value) override {
    if (IsAt({"communicators", kItem, "hash"})) {
      status_.communicators.back().hash = Printable(value, kShownBytes);
    } else if (InRank("host")) {
      rank_.host = Printable(value, kShownBytes);
    }
    return true;
  }
  bool boolean(bool value) override {
    if (InRank("unresponsive") || InRank("considered_dead")) {
      is_missing_ = is_missing_ || value;
    }
    return true;
  }
  bool null() override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool parse_error(size_t, const std::string&,
                   const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  static constexpr char kItem[] = "[]";
  static constexpr size_t kDepthMax = 16;

  bool Enter(const char* key) {
    path_.push_back(key);
    return path_.size() <= kDepthMax;
  }
  // Whether the value that is read now is at this path below the answer.
  bool IsAt(std::initializer_list<absl::string_view> path) const {
    return std::equal(path_.begin(), path_.end(), path.begin(), path.end());
  }
  bool InMissing() const {
    return IsAt({"communicators", kItem, "missing_ranks", kItem});
  }
  // A member of a rank, missing or not.
  bool InRank(absl::string_view member) const {
    return path_.size() == 5 && path_[0] == "communicators" &&
           (path_[2] == "ranks" || path_[2] == "missing_ranks") &&
           path_[4] == member;
  }

  RasStatus status_;
  bool has_communicators_ = false;
  size_t parts_ = 0;
  RasRank rank_;
  bool is_missing_ = false;
  // Of each object that is open, the name of the member that is read; of each
  // array, kItem.
  std::vector<std::string> path_;
};

// The host without the zone of a link-local address.
std::string HostOf(const RasRank& rank) {
  return rank.host.substr(0, rank.host.find('%'));
}

std::string Named(const RasRank& rank) {
  return absl::StrCat("rank ", rank.rank, " (process ", rank.pid, " on ",
                      rank.host, ")");
}

// How a rank that has begun a number of collectives compares with the others.
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
  Reader reader;
  const bool is_whole = Json::sax_parse(json, &reader);
  if (reader.too_many()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("NCCL's RAS service: expected an answer of at most ",
                     kRasPartsMax, " communicators and ranks"));
  }
  if (!is_whole || !reader.has_communicators()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "NCCL's RAS service: expected JSON with \"communicators\" (NCCL 2.28.7 "
        "or newer), got \"",
        Printable(std::string(json.substr(0, kShownBytes)), kShownBytes),
        "\""));
  }
  return reader.TakeStatus();
}

// A process can have several ranks, one for each of its GPUs. The rank with the
// fewest begun collectives counts.
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
