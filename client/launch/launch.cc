#include "client/launch/launch.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/admin/live_line.h"
#include "client/admin/messages.h"
#include "client/launch/supervisor.h"
#include "client/launch/takeover/launch_folder.h"
#include "client/launch/takeover/launch_record.h"
#include "client/launch/takeover/left_behind.h"
#include "client/launch/takeover/start_plan.h"
#include "daemon/core/exit_codes.h"
#include "daemon/journal/state_folder.h"

namespace rollcall {
namespace {

LaunchTerms TermsOf(const LaunchOptions& options, const LaunchWire& wire) {
  LaunchTerms terms;
  terms.job = options.job;
  terms.settings = options.settings;
  terms.listen = FormatHostPort(options.listen);
  terms.wire = wire.Describe();
  terms.node = options.node;
  terms.local_workers = options.local_workers;
  terms.hosts = options.hosts;
  if (!options.submit.file.empty()) {
    terms.submit =
        absl::StrCat(options.submit.file, " ", options.submit.command);
  }
  terms.agent_flags = options.agent_flags;
  terms.command_digest = options.command_digest;
  return terms;
}

int Refuse(const absl::Status& status) {
  Messages messages;
  LiveLine(messages, /*terminal=*/false).Print(status.message());
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitRendezvous;
}

}  // namespace

int RunLaunch(LaunchOptions options) {
  auto state = LaunchFolder::Open(options.state_dir);
  if (!state.ok()) return Refuse(state.status());
  auto found = LookAround(**state);
  if (!found.ok()) return Refuse(found.status());
  // Taken before files of another daemon could be replaced. Released when our
  // daemon must take it.
  std::optional<StateFolder> held;
  if (!found->daemon.has_value()) {
    auto taken = StateFolder::Open((*state)->path());
    if (!taken.ok()) return Refuse(taken.status());
    held = *std::move(taken);
  }
  auto wire = LaunchWire::Make((*state)->path(), options.wire);
  if (!wire.ok()) return Refuse(wire.status());
  auto plan =
      PlanStart(found->left, TermsOf(options, *wire), options.job_made_up);
  if (!plan.ok()) return Refuse(plan.status());
  const bool goes_on = plan->kind != StartPlan::Kind::kNew;
  const absl::Status taken = wire->TakeTokens((*state)->path(), goes_on);
  if (!taken.ok()) return Refuse(taken);
  held.reset();
  if (goes_on) {
    options.job = plan->terms.job;
    options.settings = plan->terms.settings;
    options.ephemeral = plan->ephemeral;
  }
  return Supervisor(std::move(options), *std::move(state), *std::move(wire),
                    *std::move(plan))
      .Run(*std::move(found));
}

}  // namespace rollcall
