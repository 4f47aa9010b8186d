#include "daemon/server/web/metrics.h"

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/durations.h"
#include "daemon/core/status_words.h"

namespace rollcall {
namespace {

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  // Exact for all integers that occur.
  return absl::StrFormat("%.17g", value);
}

double Seconds(const google::protobuf::Duration& duration) {
  return absl::ToDoubleSeconds(FromProto(duration));
}

// Writes the families one after the other, because the format requires all
// samples of a family in one block.
class Text {
 public:
  void Family(const char* name, const char* type, const char* help) {
    name_ = name;
    absl::StrAppend(&text_, "# HELP ", name, " ", help, "\n# TYPE ", name, " ",
                    type, "\n");
  }
  using Labels = std::vector<std::pair<const char*, std::string>>;
  void Sample(const Labels& labels, double value, const char* suffix = "") {
    absl::StrAppend(&text_, name_, suffix);
    const char* before = "{";
    for (const auto& [label, of] : labels) {
      absl::StrAppend(&text_, before, label, "=\"", EscapedLabel(of), "\"");
      before = ",";
    }
    absl::StrAppend(&text_, labels.empty() ? "" : "}", " ", NumberText(value),
                    "\n");
  }
  std::string Take() { return std::move(text_); }

 private:
  const char* name_ = "";
  std::string text_;
};

// What rank 0 of each job has published; a job without it has no sample.
void PaceGauge(Text& text, const Snapshot& snapshot, const char* name,
               const char* help, bool (*has)(const v1::Pace&),
               double (*of)(const v1::Pace&)) {
  text.Family(name, "gauge", help);
  for (const SharedStatus& job : snapshot.jobs) {
    if (!job->has_pace() || !has(job->pace())) continue;
    text.Sample({{"job", job->job()}}, of(job->pace()));
  }
}

// One number of each job.
void Gauge(Text& text, const Snapshot& snapshot, const char* name,
           const char* help, double (*of)(const v1::JobStatus&)) {
  text.Family(name, "gauge", help);
  for (const SharedStatus& job : snapshot.jobs) {
    text.Sample({{"job", job->job()}}, of(*job));
  }
}

// There is a sample for every state, so that a rule can distinguish "none" from
// "not known".
void States(Text& text, const Snapshot& snapshot) {
  text.Family("rollcall_job_state", "gauge",
              "State of the job: 1 for the one that it is in, 0 for others.");
  for (const SharedStatus& job : snapshot.jobs) {
    for (int state = v1::JobState_MIN + 1; state <= v1::JobState_MAX; ++state) {
      text.Sample({{"job", job->job()},
                   {"state", Word(static_cast<v1::JobState>(state))}},
                  job->state() == state ? 1 : 0);
    }
  }
  text.Family("rollcall_job_nodes", "gauge", "Nodes of the job by state.");
  for (const SharedStatus& job : snapshot.jobs) {
    std::map<int, int> counts;
    for (const v1::NodeStatus& node : job->nodes()) ++counts[node.state()];
    for (int state = v1::NodeState_MIN + 1; state <= v1::NodeState_MAX;
         ++state) {
      text.Sample({{"job", job->job()},
                   {"state", Word(static_cast<v1::NodeState>(state))}},
                  counts[state]);
    }
  }
}

void Sizes(Text& text, const Snapshot& snapshot) {
  Gauge(text, snapshot, "rollcall_job_nodes_min",
        "Nodes without which no world is formed.",
        [](const v1::JobStatus& job) -> double { return job.nodes_min(); });
  Gauge(text, snapshot, "rollcall_job_nodes_max", "Nodes that a world takes.",
        [](const v1::JobStatus& job) -> double { return job.nodes_max(); });
  Gauge(text, snapshot, "rollcall_job_nodes_missing",
        "Nodes that are still waited for.",
        [](const v1::JobStatus& job) -> double { return job.missing_count(); });
  Gauge(text, snapshot, "rollcall_job_world_size",
        "Ranks of the current world; 0: there is none.",
        [](const v1::JobStatus& job) -> double { return job.world_size(); });
  Gauge(text, snapshot, "rollcall_job_generation",
        "Number of the latest world that was proposed.",
        [](const v1::JobStatus& job) -> double {
          return static_cast<double>(job.generation());
        });
  Gauge(text, snapshot, "rollcall_job_waited_seconds",
        "How long the job has been waiting for nodes; 0: it is not.",
        [](const v1::JobStatus& job) { return Seconds(job.waited()); });
}

void Training(Text& text, const Snapshot& snapshot) {
  Gauge(text, snapshot, "rollcall_job_step",
        "Highest step that any rank has published.",
        [](const v1::JobStatus& job) -> double {
          return static_cast<double>(job.step());
        });
  Gauge(text, snapshot, "rollcall_job_saved_step",
        "The last step whose checkpoint is complete; 0: none is known.",
        [](const v1::JobStatus& job) -> double {
          return static_cast<double>(job.saved_step());
        });
  using P = v1::Pace;
  const auto always = [](const P&) { return true; };
  PaceGauge(text, snapshot, "rollcall_job_loss",
            "Loss that rank 0 reported last.", always,
            [](const P& pace) { return pace.loss(); });
  PaceGauge(text, snapshot, "rollcall_job_tokens_per_second",
            "Tokens per second that rank 0 reported last.", always,
            [](const P& pace) { return pace.tokens_per_second(); });
  PaceGauge(
      text, snapshot, "rollcall_job_gradient_norm",
      "Norm of the gradient before clipping that rank 0 reported last.",
      [](const P& pace) { return pace.has_gradient_norm(); },
      [](const P& pace) { return pace.gradient_norm(); });
  PaceGauge(
      text, snapshot, "rollcall_job_flops_utilization",
      "Model FLOPs utilization, from 0 to 1, that rank 0 reported last.",
      [](const P& pace) { return pace.has_flops_utilization(); },
      [](const P& pace) { return pace.flops_utilization(); });
  PaceGauge(
      text, snapshot, "rollcall_job_validation_loss",
      "Loss of the latest validation that rank 0 reported.",
      [](const P& pace) { return pace.has_validation_loss(); },
      [](const P& pace) { return pace.validation_loss(); });
  PaceGauge(
      text, snapshot, "rollcall_job_memory_bytes",
      "Most memory that rank 0 has used on its device or in its process.",
      [](const P& pace) { return pace.memory_bytes() > 0; },
      [](const P& pace) { return static_cast<double>(pace.memory_bytes()); });
}

void Reforms(Text& text, const Snapshot& snapshot) {
  Gauge(text, snapshot, "rollcall_job_restarts_charged",
        "Restarts charged to the budget; progress resets it.",
        [](const v1::JobStatus& job) -> double {
          return job.restarts_charged();
        });
  Gauge(text, snapshot, "rollcall_job_restarts_max", "The restart budget.",
        [](const v1::JobStatus& job) -> double { return job.max_restarts(); });
  text.Family("rollcall_job_generations_total", "counter",
              "Worlds that were proposed, by the reason for which the previous "
              "one ended.");
  for (const SharedStatus& job : snapshot.jobs) {
    const std::map<std::string, uint64_t> formed(
        job->history().formed().begin(), job->history().formed().end());
    for (const auto& [reason, count] : formed) {
      text.Sample({{"job", job->job()}, {"reason", reason}},
                  static_cast<double>(count));
    }
  }
  text.Family("rollcall_job_formation_seconds", "summary",
              "Time from the proposal of a world to its commit.");
  for (const SharedStatus& job : snapshot.jobs) {
    const Text::Labels labels = {{"job", job->job()}};
    text.Sample(labels, Seconds(job->history().commit_time_total()), "_sum");
    text.Sample(labels, static_cast<double>(job->history().commits()),
                "_count");
  }
}

void Daemon(Text& text, const v1::JobStatus& counters) {
  text.Family("rollcall_refused_total", "counter",
              "Clients that were refused, by reason.");
  const std::map<std::string, uint64_t> refused(counters.refused().begin(),
                                                counters.refused().end());
  for (const auto& [reason, count] : refused) {
    text.Sample({{"reason", reason}}, static_cast<double>(count));
  }
  text.Family("rollcall_unauthenticated_connections_total", "counter",
              "Connections that ended before they authenticated, by how.");
  const v1::UnauthenticatedCounts& all = counters.unauthenticated();
  const std::pair<const char*, uint64_t> kHows[] = {
      {"crowded", all.crowded()}, {"garbage", all.garbage()},
      {"hung_up", all.hung_up()}, {"silent", all.silent()},
      {"unknown", all.unknown()},
  };
  for (const auto& [how, count] : kHows) {
    text.Sample({{"how", how}}, static_cast<double>(count));
  }
  text.Family("rollcall_build_info", "gauge", "Version of this daemon.");
  text.Sample({{"version", ROLLCALL_VERSION}}, 1);
}

}  // namespace

std::string EscapedLabel(std::string_view value) {
  std::string escaped;
  escaped.reserve(value.size());
  for (const char c : value) {
    if (c == '\\') {
      escaped += "\\\\";
    } else if (c == '"') {
      escaped += "\\\"";
    } else if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped.push_back(c);
    }
  }
  return escaped;
}

std::string MetricsText(const Snapshot& snapshot) {
  Text text;
  States(text, snapshot);
  Sizes(text, snapshot);
  Training(text, snapshot);
  Reforms(text, snapshot);
  if (snapshot.counters != nullptr) Daemon(text, *snapshot.counters);
  return text.Take();
}

}  // namespace rollcall
