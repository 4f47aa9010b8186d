#include "trainer/check/thresholds.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

using ThresholdsJson = nlohmann::json;

absl::Status Wrong(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("thresholds ", name, ": ", what));
}

// The text of a value in a message; a long text is cut.
std::string Shown(const ThresholdsJson& value) {
  constexpr size_t kMax = 60;
  // ASCII, so that the text can be cut anywhere. Invalid text is replaced.
  std::string text =
      value.dump(-1, ' ', true, ThresholdsJson::error_handler_t::replace);
  if (text.size() > kMax) text = absl::StrCat(text.substr(0, kMax), "...");
  return text;
}

absl::Status ReadNet(const ThresholdsJson& value,
                     std::optional<RequiredNet>* to) {
  const auto* text = value.get_ptr<const std::string*>();
  if (text == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", Shown(value), ", expected a text like \"ib\""));
  }
  absl::StatusOr<RequiredNet> net = ParseRequiredNet(*text);
  if (!net.ok()) return net.status();
  *to = *net;
  return absl::OkStatus();
}

absl::Status ReadNumber(const ThresholdsJson& value,
                        std::optional<double>* to) {
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= kThresholdMin && number <= kThresholdMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", Shown(value), ", expected a number of ",
                     kThresholdMin, " to ", kThresholdMax));
  }
  *to = number;
  return absl::OkStatus();
}

absl::Status ReadOne(const std::string& key, const ThresholdsJson& value,
                     Thresholds* to) {
  if (key == "require-net") return ReadNet(value, &to->require_net);
  if (key == "min-busbw") return ReadNumber(value, &to->min_busbw_gbps);
  if (key == "max-latency") return ReadNumber(value, &to->max_latency_us);
  if (key == "link-outlier") return ReadNumber(value, &to->link_outlier);
  return absl::InvalidArgumentError(
      "unknown; expected require-net, min-busbw, max-latency or link-outlier");
}

}  // namespace

absl::StatusOr<RequiredNet> ParseRequiredNet(absl::string_view text) {
  const bool named = !text.empty() && text.size() <= kNetNameMax &&
                     std::all_of(text.begin(), text.end(), [](unsigned char c) {
                       return absl::ascii_isprint(c) && c != '+' && c != '/';
                     });
  const std::string lower = absl::AsciiStrToLower(text);
  // NCCL has no network with such a name; the error message suggests the right
  // one.
  const bool meant_otherwise =
      lower == "tcp" || lower == "infiniband" || lower == "roce";
  if (named && !meant_otherwise) return lower;
  return absl::InvalidArgumentError(
      absl::StrCat("got ", Shown(std::string(text)),
                   ", expected any, ib, socket, efa, or the name of a network "
                   "in NCCL's log"));
}

absl::StatusOr<Thresholds> ParseThresholds(absl::string_view name,
                                           absl::string_view json) {
  const ThresholdsJson parsed =
      ThresholdsJson::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) {
    return Wrong(name, "not one JSON object like {\"require-net\": \"ib\"}");
  }
  Thresholds thresholds;
  for (const auto& [key, value] : parsed.items()) {
    if (absl::Status s = ReadOne(key, value, &thresholds); !s.ok()) {
      return Wrong(name, absl::StrCat(Shown(key), ": ", s.message()));
    }
  }
  return thresholds;
}

Thresholds Merge(const Thresholds& first, const Thresholds& second) {
  Thresholds merged = first;
  if (!merged.require_net) merged.require_net = second.require_net;
  if (!merged.min_busbw_gbps) merged.min_busbw_gbps = second.min_busbw_gbps;
  if (!merged.max_latency_us) merged.max_latency_us = second.max_latency_us;
  if (!merged.link_outlier) merged.link_outlier = second.link_outlier;
  return merged;
}

}  // namespace rollcall
