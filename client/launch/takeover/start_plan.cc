#include "client/launch/takeover/start_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "daemon/base/durations.h"
#include "daemon/core/membership/name_rules.h"

namespace rollcall {
namespace {

constexpr char kNodeCheck[] = "--node-check";

// A flag with its old and new value.
struct Difference {
  std::string flag;
  std::string kept;
  std::string wanted;
};

std::string NodesText(const v1::JobSettings& settings) {
  return settings.nodes_min() == settings.nodes_max()
             ? absl::StrCat(settings.nodes_min())
             : absl::StrCat(settings.nodes_min(), ":", settings.nodes_max());
}

std::string VariablesText(const v1::JobSettings& settings) {
  return absl::StrJoin(settings.environment(), " ",
                       [](std::string* to, const v1::JobVariable& variable) {
                         absl::StrAppend(to, variable.name(), "=",
                                         variable.value());
                       });
}

std::string GrowText(v1::Grow grow) {
  return grow == v1::GROW_NEVER      ? "never"
         : grow == v1::GROW_BOUNDARY ? "boundary"
                                     : "";
}

std::string PreflightText(v1::Preflight preflight) {
  return preflight == v1::PREFLIGHT_OFF      ? "off"
         : preflight == v1::PREFLIGHT_WARN   ? "warn"
         : preflight == v1::PREFLIGHT_STRICT ? "strict"
                                             : "";
}

// The flags of a job with their texts. An empty text means that the flag was
// not given; it agrees with any value.
std::vector<std::pair<const char*, std::string>> SettingsTexts(
    const v1::JobSettings& s) {
  const auto number = [](bool has, auto value) {
    return has ? absl::StrCat(value) : "";
  };
  std::vector<std::pair<const char*, std::string>> texts = {
      {"--nodes", NodesText(s)},
      {"--max-restarts", number(s.has_max_restarts(), s.max_restarts())},
      {"--grow", GrowText(s.grow())},
      {"--preflight", PreflightText(s.preflight())},
      {kNodeCheck, s.has_node_check() ? (s.node_check() ? "on" : "off") : ""}};
  for (const DurationFlag& one : DurationFlag::kAll) {
    texts.emplace_back(one.flag,
                       (s.*one.has)()
                           ? absl::FormatDuration(FromProto((s.*one.value)()))
                           : "");
  }
  texts.emplace_back("--requeue-exit-code",
                     number(s.has_requeue_exit_code(), s.requeue_exit_code()));
  texts.emplace_back("--env", VariablesText(s));
  return texts;
}

std::string HostsText(const std::vector<Host>& hosts) {
  if (hosts.empty()) return "none";
  return absl::StrJoin(hosts, ", ", [](std::string* to, const Host& host) {
    absl::StrAppend(to, FormatHost(host));
  });
}

std::optional<Difference> FirstDifference(const LaunchTerms& kept,
                                          const LaunchTerms& wanted,
                                          bool made_up) {
  if (!made_up && kept.job != wanted.job) {
    return Difference{"--job", kept.job, wanted.job};
  }
  const auto kept_texts = SettingsTexts(kept.settings);
  const auto wanted_texts = SettingsTexts(wanted.settings);
  for (size_t i = 0; i < wanted_texts.size(); ++i) {
    const auto& [flag, text] = wanted_texts[i];
    std::string before = kept_texts[i].second;
    if (before.empty() && flag == kNodeCheck) before = "off";
    if (text.empty() || text == before) continue;
    return Difference{flag, before.empty() ? "the default" : before, text};
  }
  const std::vector<Difference> always = {
      {"the way in (--secret-file, --tls-cert, --insecure, --http)", kept.wire,
       wanted.wire},
      {"--listen", kept.listen, wanted.listen},
      {"this machine's own node (--name, --no-worker)",
       kept.node.empty() ? "none" : kept.node,
       wanted.node.empty() ? "none" : wanted.node},
      {"--local-workers", absl::StrCat(kept.local_workers),
       absl::StrCat(wanted.local_workers)},
      {"--worker-template, --submit",
       kept.submit.empty() ? "none" : kept.submit,
       wanted.submit.empty() ? "none" : wanted.submit},
      {"--hostfile", HostsText(kept.hosts), HostsText(wanted.hosts)},
      {"the agents' flags", absl::StrJoin(kept.agent_flags, " "),
       absl::StrJoin(wanted.agent_flags, " ")},
      {"the command's SHA-256", kept.command_digest, wanted.command_digest}};
  for (const Difference& one : always) {
    if (one.wanted != one.kept) return one;
  }
  return std::nullopt;
}

absl::Status Contradiction(const Difference& difference,
                           const LeftBehind& left) {
  const LaunchTerms& kept = left.record->terms;
  return absl::InvalidArgumentError(absl::StrCat(
      difference.flag, ": job ", kept.job, ", whose run in ", left.folder,
      " is not over, has ", difference.kept, ", and this command line says ",
      difference.wanted, "; launch it as before to go on with it, ",
      left.daemon_lives ? absl::StrCat("end it with `rollcall stop --state ",
                                       left.folder, "`, ")
                        : "",
      "or give this one another --state"));
}

std::vector<NamedAgent> AllAgents(const LaunchTerms& terms) {
  std::vector<NamedAgent> all;
  if (!terms.node.empty()) all.push_back({terms.node, true, "", 0});
  for (uint32_t i = 1; i <= terms.local_workers; ++i) {
    all.push_back({LocalWorkerName(i), false, "", 0});
  }
  for (const Host& host : terms.hosts) {
    if (host.name == terms.node) {
      all.front().slots = host.slots;
    } else {
      all.push_back({host.name, false, host.target, host.slots});
    }
  }
  return all;
}

StartPlan PlanNew(const LeftBehind& left, const LaunchTerms& wanted) {
  StartPlan plan;
  plan.terms = wanted;
  plan.started = AllAgents(wanted);
  plan.submits = !wanted.submit.empty();
  plan.end_daemon = left.daemon_lives;
  plan.ended = left.living_agents;
  return plan;
}

}  // namespace

std::string LocalWorkerName(uint32_t index) {
  return absl::StrCat("local-", index);
}

absl::StatusOr<StartPlan> PlanStart(const LeftBehind& left,
                                    const LaunchTerms& wanted, bool made_up) {
  if (!left.record.has_value()) return PlanNew(left, wanted);
  const LaunchRecord& record = *left.record;
  // If the port was never recorded, no agent has joined.
  const bool begun = record.port != 0;
  const bool unfinished = left.run == LeftBehind::Run::kUnfinished;
  if (!begun || (!left.daemon_lives && !unfinished)) {
    return PlanNew(left, wanted);
  }
  const auto difference = FirstDifference(record.terms, wanted, made_up);
  if (difference.has_value()) return Contradiction(*difference, left);

  StartPlan plan;
  plan.kind =
      left.daemon_lives ? StartPlan::Kind::kAttach : StartPlan::Kind::kResume;
  plan.terms = record.terms;
  plan.ephemeral = record.ephemeral;
  plan.port = record.port;
  plan.adopted = left.living_agents;
  plan.others_may_live = left.ended == LaunchEnd::kUnknown;
  plan.gone = record.gone;
  const auto on_other_host = [&record](const std::string& name) {
    return name != record.terms.node &&
           std::any_of(record.terms.hosts.begin(), record.terms.hosts.end(),
                       [&](const Host& host) { return host.name == name; });
  };
  if (left.ended != LaunchEnd::kUnknown) {
    for (const AgentRecord& agent : record.agents) {
      if (!on_other_host(agent.name)) plan.gone.push_back(agent.name);
    }
  }
  for (NamedAgent& agent : AllAgents(record.terms)) {
    if (!agent.target.empty()) continue;
    const bool lives = std::find(plan.adopted.begin(), plan.adopted.end(),
                                 agent.name) != plan.adopted.end();
    if (!lives) plan.started.push_back(std::move(agent));
  }
  return plan;
}

}  // namespace rollcall
