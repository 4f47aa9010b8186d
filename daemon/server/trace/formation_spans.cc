#include "daemon/server/trace/formation_spans.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/printable.h"
#include "daemon/security/digest.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

using nlohmann::ordered_json;

constexpr size_t kReasonBytesMax = 512;
// OTLP's numbers of SpanKind INTERNAL, StatusCode OK and ERROR.
constexpr int kInternal = 1;
constexpr int kOk = 1;
constexpr int kError = 2;

// The phase of a formation in this state; null: no world is being formed.
const char* PhaseOf(const FormationSpans::Seen& seen) {
  switch (seen.state) {
    case v1::JOB_STATE_GATHERING:
      return seen.probing ? "probe" : "gather";
    case v1::JOB_STATE_FORMING:
      return "prepare";
    case v1::JOB_STATE_ISOLATED:
      return "isolated";
    default:
      return nullptr;
  }
}

// 64-bit integers are strings in OTLP's JSON.
std::string Nanoseconds(absl::Time time) {
  return absl::StrCat(absl::ToUnixNanos(time));
}

ordered_json Attribute(const char* key, const std::string& value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}
ordered_json Attribute(const char* key, uint64_t value) {
  return {{"key", key}, {"value", {{"intValue", absl::StrCat(value)}}}};
}

// An id for OTLP: `bytes` bytes as lower-case hexadecimal digits.
std::string Id(size_t bytes, const std::string& text) {
  return absl::BytesToHexString(Sha256(text).substr(0, bytes));
}

}  // namespace

std::optional<FormationTrace> FormationSpans::Note(const Seen& seen,
                                                   absl::Time now,
                                                   absl::Time wall_now) {
  if (seen == seen_) return std::nullopt;
  seen_ = seen;
  const char* const phase = PhaseOf(seen);
  if (!open_.has_value()) {
    // A running world that becomes isolated does not begin a formation.
    if (phase == nullptr || seen.state == v1::JOB_STATE_ISOLATED) {
      return std::nullopt;
    }
    open_.emplace();
    began_ = now;
    wall_began_ = wall_now;
    open_->begin = wall_now;
  }
  EndPhase(now);
  phase_ = phase;
  phase_generation_ = seen.generation;
  phase_began_ = now;
  if (phase != nullptr) return std::nullopt;
  open_->end = Wall(now);
  open_->formed = seen.state == v1::JOB_STATE_RUNNING;
  return std::exchange(open_, std::nullopt);
}

void FormationSpans::EndPhase(absl::Time now) {
  if (phase_ == nullptr) return;
  if (open_->phases.size() == kPhasesMax) {
    ++open_->phases_left_out;
    return;
  }
  open_->phases.push_back(
      {phase_, phase_generation_, Wall(phase_began_), Wall(now)});
}

std::string OtlpLine(const FormationTrace& formation,
                     const FormationFacts& facts) {
  const std::string trace = Id(16, absl::StrCat("trace ", facts.run));
  const std::string seed =
      absl::StrCat("span ", facts.run, " ", facts.generation, " ",
                   Nanoseconds(formation.begin), " ");
  const std::string root = Id(8, seed);
  ordered_json span = {{"traceId", trace},
                       {"spanId", root},
                       {"name", "formation"},
                       {"kind", kInternal},
                       {"startTimeUnixNano", Nanoseconds(formation.begin)},
                       {"endTimeUnixNano", Nanoseconds(formation.end)},
                       {"attributes",
                        {Attribute("rollcall.job", facts.job),
                         Attribute("rollcall.run", facts.run),
                         Attribute("rollcall.generation", facts.generation),
                         Attribute("rollcall.nodes", facts.nodes),
                         Attribute("rollcall.world_size", facts.world_size),
                         Attribute("rollcall.code", facts.code),
                         Attribute("rollcall.reason",
                                   Printable(facts.reason, kReasonBytesMax))}},
                       {"status", {{"code", formation.formed ? kOk : kError}}}};
  if (formation.phases_left_out > 0) {
    span["attributes"].push_back(
        Attribute("rollcall.phases_left_out", formation.phases_left_out));
  }
  ordered_json spans = {std::move(span)};
  for (const FormationTrace::Phase& phase : formation.phases) {
    spans.push_back(
        {{"traceId", trace},
         {"spanId", Id(8, absl::StrCat(seed, spans.size()))},
         {"parentSpanId", root},
         {"name", phase.name},
         {"kind", kInternal},
         {"startTimeUnixNano", Nanoseconds(phase.begin)},
         {"endTimeUnixNano", Nanoseconds(phase.end)},
         {"attributes", ordered_json::array({Attribute("rollcall.generation",
                                                       phase.generation)})}});
  }
  const ordered_json request = {
      {"resourceSpans",
       ordered_json::array(
           {{{"resource",
              {{"attributes",
                ordered_json::array(
                    {Attribute("service.name", "rollcall"),
                     Attribute("service.version", ROLLCALL_VERSION)})}}},
             {"scopeSpans",
              ordered_json::array({{{"scope", {{"name", "rollcall"}}},
                                    {"spans", std::move(spans)}}})}}})}};
  return request.dump(-1, ' ', /*ensure_ascii=*/false,
                      ordered_json::error_handler_t::replace);
}

}  // namespace rollcall
