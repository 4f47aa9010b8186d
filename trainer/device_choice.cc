#include "trainer/device_choice.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace rollcall {
namespace {

constexpr absl::string_view kKinds[] = {"auto", "cpu", "cuda"};
constexpr size_t kTextMax = 128;  // The longest host name or UUID.

// At most kTextMax bytes of the text, without line breaks, which a host's name
// could have.
std::string Plain(absl::string_view text) {
  std::string plain(text.substr(0, kTextMax));
  std::replace(plain.begin(), plain.end(), '\n', ' ');
  return plain;
}

}  // namespace

std::string DeviceOffer::Encode() const {
  std::vector<std::string> lines = {
      std::string(kKinds[static_cast<int>(wanted)]), Plain(host), Plain(held)};
  for (size_t i = 0; i < std::min(gpus.size(), kGpusMax); ++i) {
    lines.push_back(Plain(gpus[i]));
  }
  return absl::StrJoin(lines, "\n");
}

absl::StatusOr<DeviceOffer> DeviceOffer::Decode(absl::string_view text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  const auto kind =
      std::find(std::begin(kKinds), std::end(kKinds), lines.front());
  if (lines.size() < 3 || lines.size() > 3 + kGpusMax ||
      kind == std::end(kKinds)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected the devices of a rollcall-train of this "
                     "version, got ",
                     lines.size(), " lines"));
  }
  DeviceOffer offer;
  offer.wanted = static_cast<DeviceKind>(kind - std::begin(kKinds));
  offer.host = lines[1];
  offer.held = lines[2];
  offer.gpus.assign(lines.begin() + 3, lines.end());
  return offer;
}

std::vector<DeviceChoice> ChooseDevices(
    const std::vector<DeviceOffer>& offers) {
  std::vector<DeviceChoice> choices(offers.size());
  std::set<std::pair<std::string, std::string>> taken;
  for (size_t i = 0; i < offers.size(); ++i) {
    const DeviceOffer& offer = offers[i];
    if (offer.held.empty() || offer.held == DeviceOffer::kHeldCpu) continue;
    taken.emplace(offer.host, offer.held);
    choices[i].gpu = offer.held;
  }
  bool someone_has_none = false;
  bool gpus_only = !taken.empty();
  bool someone_holds_cpu = false;
  for (size_t i = 0; i < offers.size(); ++i) {
    const DeviceOffer& offer = offers[i];
    if (offer.wanted == DeviceKind::kCuda) gpus_only = true;
    if (offer.held == DeviceOffer::kHeldCpu) someone_holds_cpu = true;
    if (!offer.held.empty() || offer.wanted == DeviceKind::kCpu) continue;
    for (const std::string& gpu : offer.gpus) {
      if (!taken.emplace(offer.host, gpu).second) continue;
      choices[i].gpu = gpu;
      break;
    }
    choices[i].all_taken = !offer.gpus.empty() && !choices[i].gpu.has_value();
    someone_has_none = someone_has_none || choices[i].all_taken;
  }
  if ((someone_has_none || someone_holds_cpu) && !gpus_only) {
    for (DeviceChoice& choice : choices) choice.gpu.reset();
  }
  return choices;
}

}  // namespace rollcall
