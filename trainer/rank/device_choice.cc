#include "trainer/rank/device_choice.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/base/counted.h"

namespace rollcall {
namespace {

constexpr absl::string_view kKinds[] = {"auto", "cpu", "cuda"};
constexpr size_t kTextMax = 128;  // The longest host name, UUID or model.
// The lines of an encoded offer: kForm and the kind, the host, what is held,
// the models; then one for each GPU, with the place of its model if it is
// known. Fields within a line are separated by tabs.
//
// kForm changes with everything that ranks say to each other, also in their
// collectives: ranks of different versions find out here, and not by messages
// of unexpected sizes.
constexpr absl::string_view kForm = "3";
constexpr size_t kLinesBeforeGpus = 4;
constexpr size_t kRunsNamedMax = 8;  // For each model.

// At most kTextMax bytes of the text, without line breaks and tabs, which a
// host's name could have.
std::string Plain(absl::string_view text) {
  std::string plain(text.substr(0, kTextMax));
  std::replace(plain.begin(), plain.end(), '\n', ' ');
  std::replace(plain.begin(), plain.end(), '\t', ' ');
  return plain;
}

// Adds one GPU; false: the line is none.
bool DecodeGpu(absl::string_view line, const std::vector<std::string>& models,
               DeviceOffer& offer) {
  const std::vector<std::string> fields = absl::StrSplit(line, '\t');
  if (fields.size() > 2) return false;
  offer.gpus.push_back(fields[0]);
  if (fields.size() == 1) return true;
  size_t model = 0;
  if (!absl::SimpleAtoi(fields[1], &model) || model >= models.size()) {
    return false;
  }
  offer.models[fields[0]] = models[model];
  return true;
}

// Adjacent ranks, both included.
struct Run {
  int first = 0, last = 0;
};

std::string Named(const std::vector<Run>& runs,
                  absl::FunctionRef<std::string(int)> name) {
  std::vector<std::string> names;
  int more = 0;
  for (const Run& run : runs) {
    if (names.size() == kRunsNamedMax) {
      more += run.last - run.first + 1;
    } else if (run.first == run.last) {
      names.push_back(name(run.first));
    } else {
      names.push_back(absl::StrCat(name(run.first), " to ", name(run.last)));
    }
  }
  if (more > 0) names.push_back(absl::StrCat(more, " more"));
  return absl::StrJoin(names, ", ");
}

}  // namespace

std::string DeviceOffer::Encode() const {
  std::vector<std::string> known;
  std::vector<std::string> gpu_lines;
  for (size_t i = 0; i < std::min(gpus.size(), kGpusMax); ++i) {
    gpu_lines.push_back(Plain(gpus[i]));
    const auto model = models.find(gpus[i]);
    if (model == models.end()) continue;
    const std::string text = Plain(model->second);
    auto at = std::find(known.begin(), known.end(), text);
    if (at == known.end()) {
      if (known.size() == kModelsMax) continue;
      at = known.insert(at, text);
    }
    absl::StrAppend(&gpu_lines.back(), "\t", at - known.begin());
  }
  std::vector<std::string> lines = {
      absl::StrCat(kForm, "\t", kKinds[static_cast<int>(wanted)]), Plain(host),
      Plain(held), absl::StrJoin(known, "\t")};
  lines.insert(lines.end(), gpu_lines.begin(), gpu_lines.end());
  return absl::StrJoin(lines, "\n");
}

absl::StatusOr<DeviceOffer> DeviceOffer::Decode(absl::string_view text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  const absl::Status not_one = absl::InvalidArgumentError(
      absl::StrCat("expected the devices of a rollcall-train of this version, "
                   "got ",
                   Counted(lines.size(), "line")));
  if (lines.size() < kLinesBeforeGpus ||
      lines.size() > kLinesBeforeGpus + kGpusMax) {
    return not_one;
  }
  const std::vector<std::string> first = absl::StrSplit(lines[0], '\t');
  const auto kind =
      std::find(std::begin(kKinds), std::end(kKinds), first.back());
  if (first.size() != 2 || first[0] != kForm || kind == std::end(kKinds)) {
    return not_one;
  }
  DeviceOffer offer;
  offer.wanted = static_cast<DeviceKind>(kind - std::begin(kKinds));
  offer.host = lines[1];
  offer.held = lines[2];
  const std::vector<std::string> models = absl::StrSplit(lines[3], '\t');
  for (size_t i = kLinesBeforeGpus; i < lines.size(); ++i) {
    if (!DecodeGpu(lines[i], models, offer)) return not_one;
  }
  return offer;
}

std::vector<DeviceChoice> ChooseDevices(
    const std::vector<DeviceOffer>& offers) {
  std::vector<DeviceChoice> choices(offers.size());
  std::set<std::pair<std::string, std::string>> taken;  // Hosts and GPUs.
  for (size_t i = 0; i < offers.size(); ++i) {
    const DeviceOffer& offer = offers[i];
    if (offer.held.empty() || offer.held == DeviceOffer::kHeldCpu) continue;
    taken.emplace(offer.host, offer.held);
    choices[i].gpu = offer.held;
  }
  const bool gpu_held = !taken.empty();
  for (size_t i = 0; i < offers.size(); ++i) {
    const DeviceOffer& offer = offers[i];
    if (!offer.held.empty() || offer.wanted == DeviceKind::kCpu) continue;
    for (const std::string& gpu : offer.gpus) {
      if (!taken.emplace(offer.host, gpu).second) continue;
      choices[i].gpu = gpu;
      break;
    }
    choices[i].all_taken = !offer.gpus.empty() && !choices[i].gpu.has_value();
  }
  const bool gpu_demanded =
      absl::c_any_of(offers, [](const DeviceOffer& offer) {
        return offer.wanted == DeviceKind::kCuda;
      });
  const bool cpu_held = absl::c_any_of(offers, [](const DeviceOffer& offer) {
    return offer.held == DeviceOffer::kHeldCpu;
  });
  const bool too_few = absl::c_any_of(
      choices, [](const DeviceChoice& choice) { return choice.all_taken; });
  if ((too_few || cpu_held) && !gpu_held && !gpu_demanded) {
    for (DeviceChoice& choice : choices) choice.gpu.reset();
  }
  return choices;
}

std::string WhyCpu(const std::vector<DeviceOffer>& offers,
                   const std::vector<DeviceChoice>& choices, int rank,
                   absl::string_view missing,
                   absl::FunctionRef<std::string(int)> name) {
  const DeviceOffer& offer = offers[rank];
  if (choices[rank].gpu.has_value() || !offer.held.empty() ||
      offer.wanted != DeviceKind::kAuto) {
    return "";
  }
  if (offer.gpus.empty()) {
    return missing.empty() ? "it sees no GPU" : std::string(missing);
  }
  const auto without =
      std::find_if(choices.begin(), choices.end(),
                   [](const DeviceChoice& choice) { return choice.all_taken; });
  if (without != choices.end()) {
    return absl::StrCat("there is no GPU left for ",
                        name(static_cast<int>(without - choices.begin())),
                        "; start one rank a GPU, or demand GPUs by --device "
                        "cuda");
  }
  const auto holder =
      std::find_if(offers.begin(), offers.end(), [](const DeviceOffer& other) {
        return other.held == DeviceOffer::kHeldCpu;
      });
  return absl::StrCat(
      holder == offers.end() ? std::string("another rank")
                             : name(static_cast<int>(holder - offers.begin())),
      " computes on the CPU already, and all ranks use the same kind of "
      "device; "
      "to use GPUs, start the job again where every rank has one");
}

std::string DifferentModels(const std::vector<DeviceOffer>& offers,
                            const std::vector<DeviceChoice>& choices,
                            absl::FunctionRef<std::string(int)> name) {
  std::map<std::string, std::vector<Run>> runs_by_model;
  for (int rank = 0; rank < static_cast<int>(choices.size()); ++rank) {
    if (!choices[rank].gpu.has_value()) continue;
    const auto model = offers[rank].models.find(*choices[rank].gpu);
    if (model == offers[rank].models.end()) continue;
    std::vector<Run>& runs = runs_by_model[model->second];
    if (!runs.empty() && runs.back().last == rank - 1) {
      runs.back().last = rank;
    } else {
      runs.push_back({rank, rank});
    }
  }
  if (runs_by_model.size() < 2) return "";
  return absl::StrJoin(
      runs_by_model, "; ", [&](std::string* to, const auto& entry) {
        absl::StrAppend(to, entry.first, ": ", Named(entry.second, name));
      });
}

}  // namespace rollcall
