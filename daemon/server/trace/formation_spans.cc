#include "daemon/server/trace/formation_spans.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"
#include "daemon/server/trace/otlp_json.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

using nlohmann::ordered_json;

constexpr size_t kReasonBytesMax = 512;

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
  const std::string trace = OtlpTraceId(facts.run);
  const std::string seed =
      absl::StrCat("span ", facts.run, " ", facts.generation, " ",
                   OtlpTime(formation.begin), " ");
  const std::string root = OtlpSpanId(seed);
  ordered_json span = {
      {"traceId", trace},
      {"spanId", root},
      {"parentSpanId", OtlpRunSpanId(facts.run)},
      {"name", "formation"},
      {"kind", kOtlpInternal},
      {"startTimeUnixNano", OtlpTime(formation.begin)},
      {"endTimeUnixNano", OtlpTime(formation.end)},
      {"attributes",
       {OtlpAttribute("rollcall.job", facts.job),
        OtlpAttribute("rollcall.run", facts.run),
        OtlpAttribute("rollcall.generation", facts.generation),
        OtlpAttribute("rollcall.nodes", facts.nodes),
        OtlpAttribute("rollcall.world_size", facts.world_size),
        OtlpAttribute("rollcall.code", facts.code),
        OtlpAttribute("rollcall.reason",
                      Printable(facts.reason, kReasonBytesMax))}},
      {"status", {{"code", formation.formed ? kOtlpOk : kOtlpError}}}};
  if (formation.phases_left_out > 0) {
    span["attributes"].push_back(
        OtlpAttribute("rollcall.phases_left_out", formation.phases_left_out));
  }
  ordered_json spans = ordered_json::array({std::move(span)});
  for (const FormationTrace::Phase& phase : formation.phases) {
    spans.push_back(
        {{"traceId", trace},
         {"spanId", OtlpSpanId(absl::StrCat(seed, spans.size()))},
         {"parentSpanId", root},
         {"name", phase.name},
         {"kind", kOtlpInternal},
         {"startTimeUnixNano", OtlpTime(phase.begin)},
         {"endTimeUnixNano", OtlpTime(phase.end)},
         {"attributes", ordered_json::array({OtlpAttribute(
                            "rollcall.generation", phase.generation)})}});
  }
  return OtlpRequest(std::move(spans));
}

}  // namespace rollcall
