#include "trainer/check/check_options.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <iterator>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

constexpr size_t kFileBytesMax = 64 << 10;
constexpr char kCheckGroup[] = "Check";  // Of the flags in --help.

absl::Status Refused(absl::string_view flag, absl::string_view text,
                     absl::string_view expected) {
  constexpr size_t kShownMax = 60;
  return absl::InvalidArgumentError(absl::StrCat(
      flag, ": got \"", text.substr(0, kShownMax), "\", expected ", expected));
}

// A flag that was not given keeps its default.
absl::Status ReadSize(absl::string_view flag, const std::string& text,
                      size_t* to) {
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<size_t> bytes = ParseBytes(text);
  if (!bytes.ok()) {
    return Refused(flag, text, "bytes, 4 to 64G, as in 512, 64K, 8M or 1G");
  }
  *to = *bytes;
  return absl::OkStatus();
}

template <typename T>
absl::Status ReadCount(absl::string_view flag, const std::string& text, T min,
                       T max, T* to) {
  if (text.empty()) return absl::OkStatus();
  T value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < min || value > max) {
    return Refused(flag, text,
                   absl::StrCat("a whole number, ", min, " to ", max));
  }
  *to = value;
  return absl::OkStatus();
}

absl::Status ReadNumber(absl::string_view flag, const std::string& text,
                        std::optional<double>* to) {
  if (text.empty()) return absl::OkStatus();
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !(value >= kThresholdMin) ||
      !(value <= kThresholdMax)) {
    return Refused(
        flag, text,
        absl::StrCat("a number, ", kThresholdMin, " to ", kThresholdMax));
  }
  *to = value;
  return absl::OkStatus();
}

absl::StatusOr<Thresholds> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytesMax + 1, '\0');
  if (!file.is_open() || !file.read(text.data(), text.size()).eof()) {
    if (file.is_open() && file.gcount() > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "thresholds ", path, ": over ", kFileBytesMax, " bytes"));
    }
    return absl::NotFoundError(
        absl::StrCat("thresholds ", path, ": cannot be read"));
  }
  text.resize(file.gcount());
  return ParseThresholds(path, text);
}

}  // namespace

absl::StatusOr<size_t> ParseBytes(absl::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    switch (text.back()) {
      case 'K':
      case 'k':
        shift = 10;
        break;
      case 'M':
      case 'm':
        shift = 20;
        break;
      case 'G':
      case 'g':
        shift = 30;
        break;
    }
  }
  if (shift > 0) text.remove_suffix(1);
  size_t count = 0;
  if (!absl::SimpleAtoi(text, &count) || count > kCheckBytesMax >> shift ||
      count << shift < kCheckBytesMin) {
    return absl::InvalidArgumentError("not a size");
  }
  return count << shift;
}

void CheckFlags::AddTo(CLI::App& app, CheckOptions* options) {
  CLI::Option* const check =
      app.add_flag("--check", options->enabled,
                   "Check the network of the world instead of training; of "
                   "the flags above it takes --device and "
                   "--collective-timeout only")
          ->group(kCheckGroup);
  const auto add = [&](const char* name, std::string* to, const char* type,
                       const char* shown_default, const char* about) {
    CLI::Option* option =
        app.add_option(name, *to, about)->type_name(type)->group(kCheckGroup);
    option->needs(check);
    option->default_str(shown_default);
  };
  add("--min-bytes", &min_bytes_, "SIZE", "8", "Smallest size");
  add("--max-bytes", &max_bytes_, "SIZE", "",
      "Largest size (default 1G on GPUs, else 8M)");
  add("--step-factor", &step_factor_, "N", "4",
      "Factor from one size to the next");
  add("--iters", &iterations_, "N", "20", "Timed iterations at each size");
  add("--warmup-iters", &warmup_, "N", "5", "Untimed iterations before those");
  add("--pings", &trips_, "N", "200", "Round trips on each link");
  add("--require-net", &require_net_, "NET", "",
      "Network that the ranks must use: ib, socket, efa, any, or another name");
  add("--min-busbw", &min_busbw_, "GB/s", "",
      "Minimum bus bandwidth of the largest all-reduce");
  add("--max-latency", &max_latency_, "US", "",
      "Maximum latency between neighbours on the ring");
  add("--link-outlier", &link_outlier_, "N", "4",
      "A link over N times the median latency is an outlier");
  add("--thresholds", &thresholds_file_, "FILE", "",
      "JSON object with the four thresholds above");
  app.add_flag("--json", options->json,
               "Print one JSON object per line on stdout")
      ->group(kCheckGroup)
      ->needs(check);
}

bool CheckFlags::Takes(const CLI::Option& option) {
  return option.get_group() == kCheckGroup || option.get_name() == "--device" ||
         option.get_name() == "--collective-timeout";
}

absl::Status CheckFlags::Apply(CheckOptions* o) const {
  absl::Status results[] = {
      ReadSize("--min-bytes", min_bytes_, &o->min_bytes),
      ReadSize("--max-bytes", max_bytes_, &o->max_bytes),
      ReadCount<size_t>("--step-factor", step_factor_, 2, 1 << 20,
                        &o->step_factor),
      ReadCount("--iters", iterations_, 1, 1000000, &o->iterations),
      ReadCount("--warmup-iters", warmup_, 0, 1000000, &o->warmup),
      ReadCount("--pings", trips_, 1, 1000000, &o->trips),
      ReadNumber("--min-busbw", min_busbw_, &o->thresholds.min_busbw_gbps),
      ReadNumber("--max-latency", max_latency_, &o->thresholds.max_latency_us),
      ReadNumber("--link-outlier", link_outlier_, &o->thresholds.link_outlier),
  };
  for (const absl::Status& status : results) {
    if (!status.ok()) return status;
  }
  if (!require_net_.empty()) {
    const absl::StatusOr<RequiredNet> net = ParseRequiredNet(require_net_);
    if (!net.ok()) {
      return Refused("--require-net", require_net_,
                     "any, ib, socket, efa or a network's name");
    }
    o->thresholds.require_net = *net;
  }
  if (o->max_bytes != 0 && o->max_bytes < o->min_bytes) {
    return Refused("--max-bytes", max_bytes_,
                   absl::StrCat("at least --min-bytes, ", o->min_bytes));
  }
  if (thresholds_file_.empty()) return absl::OkStatus();
  const absl::StatusOr<Thresholds> file = ReadFile(thresholds_file_);
  if (!file.ok()) return file.status();
  o->thresholds = Merge(o->thresholds, *file);
  return absl::OkStatus();
}

}  // namespace rollcall
