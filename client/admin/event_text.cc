#include "client/admin/event_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/admin/job_text.h"
#include "daemon/base/counted.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/bytes_text.h"
#include "daemon/base/text/printable.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

constexpr size_t kEventTextBytesMax = 8 << 10;

// `0.31 s`, `12 s`, `4 min 10 s`: short interruptions differ by fractions.
std::string Took(absl::Duration duration) {
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds < 10) return absl::StrFormat("%.2f s", seconds);
  return ShortDuration(duration);
}

}  // namespace

std::string EventText(const std::string& line) {
  const auto json = nlohmann::ordered_json::parse(line, nullptr, false);
  if (!json.is_object()) return Printable(line, kEventTextBytesMax);
  const auto text = [&json](const char* key) {
    const auto at = json.find(key);
    return at == json.end() || !at->is_string() ? "" : at->get<std::string>();
  };
  std::string out = absl::StrCat(text("time"), " ", text("event"));
  // A run may follow another one of the same name; `start` says which it is.
  const bool starts = text("event") == "start";
  for (const auto& [key, value] : json.items()) {
    if (key == "id" || key == "time" || key == "job" || key == "event" ||
        (key == "run" && !starts) || (key == "level" && value == "info") ||
        !value.is_string()) {
      continue;
    }
    const std::string word = value.get<std::string>();
    absl::StrAppend(
        &out, " ", key, "=",
        word.empty() || word.find_first_of(" \"\\=") != std::string::npos
            ? Quoted(word)
            : word);
  }
  return Printable(out, kEventTextBytesMax);
}

std::string ResumedText(const v1::JobStatus& status) {
  if (!status.has_resumed()) return "";
  const v1::Resumed& resumed = status.resumed();
  return absl::StrCat(
      "generation ", resumed.generation(), " began at step ", resumed.step(),
      ", and step ", resumed.was(), " had been reached before",
      resumed.former_run().empty()
          ? ""
          : absl::StrCat(" by run ", Printable(resumed.former_run(), 64)),
      resumed.saved_step() == 0
          ? ""
          : absl::StrCat(", with a checkpoint of step ", resumed.saved_step()),
      "; check that the ranks find their checkpoint");
}

std::string SummaryText(const v1::JobStatus& status) {
  const v1::RunSummary& summary = status.summary();
  if (summary.worlds() == 0) return "";
  std::string text = absl::StrCat("ran ", Took(FromProto(summary.running())),
                                  " of ", Took(FromProto(summary.elapsed())),
                                  " in ", Counted(summary.worlds(), "world"));
  if (status.has_peak_memory()) {
    const v1::RankMemory& peak = status.peak_memory();
    absl::StrAppend(&text, "; most memory of a rank: ", BytesText(peak.bytes()),
                    " (", peak.node(), ", local rank ", peak.local_rank(), ")");
  }
  if (summary.events_lost() > 0) {
    absl::StrAppend(&text, "; ", Counted(summary.events_lost(), "event"),
                    " could not be written");
  }
  if (summary.interruption_count() == 0) return text;
  absl::StrAppend(&text, "; ",
                  Counted(summary.interruption_count(), "interruption"), " of ",
                  Took(FromProto(summary.stopped())), " in all:");
  const uint64_t older =
      summary.interruption_count() - summary.interruptions().size();
  if (older > 0) absl::StrAppend(&text, "\n  ", older, " older ones");
  for (const v1::Interruption& one : summary.interruptions()) {
    absl::StrAppend(
        &text, "\n  generation ", one.generation(), ": ",
        one.reason().empty() ? Word(one.code()) : one.reason(), "; ",
        one.has_stopped() ? absl::StrCat(Took(FromProto(one.stopped())),
                                         " until the next world")
                          : std::string("no world followed"));
  }
  return text;
}

}  // namespace rollcall
