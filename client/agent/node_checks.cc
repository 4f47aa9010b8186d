#include "client/agent/node_checks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/node_trials.h"
#include "client/doctor/doctor.h"
#include "client/doctor/doctor_text.h"
#include "client/facts/system/network.h"
#include "client/facts/system/system.h"

namespace rollcall {
namespace {

// The daemon's limit on the findings of a report (admission).
constexpr size_t kFindingsMax = 256;
constexpr absl::Duration kDevicesPatience = absl::Seconds(1);

v1::CheckFinding::Severity OnTheWire(Severity severity) {
  switch (severity) {
    case Severity::kNotApplicable:
    case Severity::kOk:
      return v1::CheckFinding::SEVERITY_OK;
    case Severity::kUnknown:
    case Severity::kWarning:
      return v1::CheckFinding::SEVERITY_WARNING;
    case Severity::kRetryable:
      return v1::CheckFinding::SEVERITY_RETRYABLE;
    case Severity::kFatal:
      return v1::CheckFinding::SEVERITY_FATAL;
  }
  return v1::CheckFinding::SEVERITY_WARNING;
}

v1::CheckFinding OnTheWire(const Finding& finding) {
  v1::CheckFinding sent;
  sent.set_check(finding.check);
  sent.set_severity(OnTheWire(finding.severity));
  if (sent.severity() != v1::CheckFinding::SEVERITY_OK) {
    sent.set_text(OneLineText(finding));
  }
  return sent;
}

}  // namespace

v1::CheckReport CheckNode(const NodeChecksOptions& options) {
  NodeFactsOptions gather = options.facts;
  // The daemon waits for at most Limits::check_timeout.
  gather.devices.timeout = kDevicesPatience;
  v1::CheckReport report;
  *report.mutable_facts() = GatherNodeFacts(gather);
  for (v1::CheckFinding& finding : CheckNode(options, report.facts())) {
    *report.add_findings() = std::move(finding);
  }
  // The trials take time, so the network facts are gathered after them.
  v1::Facts network;
  GatherNetwork(network);
  TakeNetwork(network, *report.mutable_facts());
  return report;
}

std::vector<v1::CheckFinding> CheckNode(const NodeChecksOptions& options,
                                        const v1::Facts& facts) {
  DoctorOptions doctor;
  doctor.gpus_expected = options.gpus;
  doctor.may_lock_memory = MayLockMemory();
  doctor.daemon_reached = true;
  doctor.trials = {TryProcess(), TryFolder("run-folder", options.run_folder,
                                           Severity::kFatal)};
  if (!options.log_dir.empty()) {
    // Ranks run even if their logs cannot be written.
    doctor.trials.push_back(
        TryFolder("log-folder", options.log_dir, Severity::kWarning));
  }
  std::vector<v1::CheckFinding> sent;
  const std::vector<Finding> findings = Diagnose(facts, doctor);
  for (size_t i = 0; i < findings.size() && sent.size() < kFindingsMax; ++i) {
    // The findings of the trials come first.
    const bool tried = i < doctor.trials.size();
    if (tried || findings[i].severity == Severity::kFatal) {
      sent.push_back(OnTheWire(findings[i]));
    }
  }
  return sent;
}

NodeChecks::NodeChecks(NodeChecksOptions options, Done done)
    : options_(std::move(options)),
      done_(std::move(done)),
      thread_([this] { Loop(); }) {}

NodeChecks::~NodeChecks() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void NodeChecks::Run(uint64_t request) {
  MutexLock lock(mutex_);
  wanted_ = request;
  changed_.NotifyAll();
}

void NodeChecks::Loop() {
  for (;;) {
    uint64_t request = 0;
    {
      MutexLock lock(mutex_);
      while (!ending_ && !wanted_.has_value()) changed_.Wait(mutex_);
      if (ending_) return;
      request = *std::exchange(wanted_, std::nullopt);
    }
    ChecksDone done{CheckNode(options_)};
    done.report.set_request(request);
    done_(std::move(done));
  }
}

}  // namespace rollcall
