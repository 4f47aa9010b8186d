#include "daemon/core/membership/name_rules.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"

namespace rollcall {

std::optional<Refused> NameRules::Refuse(const v1::Hello& hello,
                                         const std::string& observed_address,
                                         const Node& node) const {
  const bool same = node.hello.incarnation() == hello.incarnation();
  if (node.gone && same && !moment_.ended) {
    return Refused{
        absl::StatusCode::kAborted, v1::REFUSAL_CODE_LOST,
        absl::StrCat("node ", hello.node(), " was given up (", node.reason,
                     "); attend with a new incarnation"),
        /*logged=*/false};
  }
  if (same && !node.gone && node.hello.ranks() != hello.ranks()) {
    return Refused{absl::StatusCode::kInvalidArgument, v1::REFUSAL_CODE_INVALID,
                   absl::StrCat("node ", hello.node(), " attended with ",
                                node.hello.ranks(),
                                " ranks and comes back with ", hello.ranks()),
                   /*logged=*/false};
  }
  if (AwaitsItsAgent(hello, node)) {
    return Refused{
        absl::StatusCode::kUnavailable, v1::REFUSAL_CODE_UNSPECIFIED,
        absl::StrCat(
            "node name ", hello.node(), " belongs to an agent ",
            node.restored()
                ? "that has not come back since this daemon was restarted"
                : "whose stream broke",
            "; it is reserved for that agent for ",
            absl::FormatDuration(Grace(node)), "; dial again")};
  }
  // The launcher's agent has an admin's token, which takes precedence over a
  // worker's.
  const bool outranks = hello.launcher() && !node.hello.launcher();
  const bool outranked = node.hello.launcher() && !hello.launcher();
  if (same || outranks || (node.session == 0 && !outranked)) {
    return std::nullopt;
  }
  const std::string text = absl::StrCat(
      "node name ", hello.node(), " belongs to the ",
      outranked ? "launcher's " : "", "agent at ", node.observed_address,
      node.session != 0 ? ", which is alive" : "", "; this one comes from ",
      observed_address);
  // A Hello with a run id comes from an agent that was welcomed before; that
  // agent has been replaced. Otherwise the agent is new, and the name is taken.
  if (!hello.run().empty()) {
    return Refused{absl::StatusCode::kAborted, v1::REFUSAL_CODE_REPLACED, text};
  }
  return Refused{absl::StatusCode::kAlreadyExists, v1::REFUSAL_CODE_NAME_TAKEN,
                 absl::StrCat(text, "; give one of them another --name")};
}

// How long a name is reserved for its agent: as long as the daemon waits for a
// node whose stream broke, or for a node after the daemon's restart.
absl::Duration NameRules::Grace(const Node& node) const {
  if (node.restored()) return limits_.reattach_grace;
  return node.lease.broke_with_many ? limits_.lease : limits_.reconnect_grace;
}

// Whether this Hello proves that it comes from the entry's agent or from the
// next incarnation of that agent. The shell has verified the credential. If the
// agent has attended this daemon, CredentialStands decides whether the
// credential is for the right incarnation. If the member has not come back
// since the restart, the world commit decides; any other incarnation may have
// been replaced before. A credential of a run that adoption discarded counts
// like the token for which it was given.
bool NameRules::ProvesToBeItsAgent(const v1::Hello& hello,
                                   const Node& node) const {
  if (!hello.has_node_credential() || hello.run() != moment_.run) return false;
  const uint64_t committed = node.credential.committed_for;
  return !node.restored() || committed == 0 || node.finished() ||
         hello.incarnation() == committed ||
         hello.previous_incarnation() == committed;
}

// Whether the agent that has the name may still come back. No other agent takes
// its place before it is lost. Otherwise any worker's token could take the name
// at the moment when a stream breaks, or take all names after a restart of the
// daemon. A new agent of the same node has to wait for that time. The
// launcher's agent does not, because it shows an admin's token.
bool NameRules::AwaitsItsAgent(const v1::Hello& hello, const Node& node) const {
  if (moment_.ended || node.gone || node.session != 0 ||
      ProvesToBeItsAgent(hello, node) || hello.launcher()) {
    return false;
  }
  // A journaled member is waited for while its world runs. If the daemon is
  // isolated, the wait is longer than the grace, because most agents are not
  // back then. After the world has ended, the usual reason is that the machine
  // was rebooted.
  if (node.restored()) {
    return moment_.running != 0 && node.member();
  }
  // The same incarnation may attend again because its Welcome was lost.
  if (node.hello.incarnation() == hello.incarnation()) return false;
  // Not the deadline alone: it is extended while the daemon is late or
  // isolated, and a new agent of the node would have to wait for as long.
  return moment_.now <
         std::min(node.lease.deadline, node.lease.suspect_since + Grace(node));
}

bool NameRules::Continues(const v1::Hello& hello, const Node& node) const {
  if (node.gone) return false;
  if (!node.restored()) {
    return node.hello.incarnation() == hello.incarnation();
  }
  return ContinuesRestored(hello, node);
}

// For a member from a journal or of an adopted world. A token does not prove
// that the node was admitted before; only the credential for the member's row
// does. Otherwise one Hello could take a member's place and report that its
// ranks have ended.
bool NameRules::ContinuesRestored(const v1::Hello& hello,
                                  const Node& node) const {
  const bool same_ranks =
      node.hello.ranks() == 0 || hello.ranks() == node.hello.ranks();
  if (!hello.has_node_credential() || hello.run() != moment_.run ||
      !same_ranks) {
    return false;
  }
  // A node that is not in a running world has no state to continue.
  if (moment_.running == 0 || !node.member()) return true;
  if (node.credential.committed_for != 0 &&
      node.credential.committed_for != hello.incarnation()) {
    return false;
  }
  return hello.resume_state().running_generation() == moment_.running ||
         hello.resume_state().prepared_generation() == moment_.running;
}

Refused RefusalOfLost(const std::string& job, const std::string& node,
                      v1::ReasonCode code, const std::string& reason) {
  if (code == v1::REASON_CODE_EVICTED) {
    return {
        absl::StatusCode::kPermissionDenied, v1::REFUSAL_CODE_EVICTED,
        absl::StrCat("node ", node, " was evicted from job ", job, " (", reason,
                     "); to bring it back, join with a valid token")};
  }
  // Only the launcher's agent replaces an agent that is alive.
  if (code == v1::REASON_CODE_REPLACED) {
    return {absl::StatusCode::kAlreadyExists, v1::REFUSAL_CODE_NAME_TAKEN,
            absl::StrCat("node name ", node, " is the launcher's: ", reason,
                         "; give this one another --name")};
  }
  return {absl::StatusCode::kAborted, v1::REFUSAL_CODE_LOST,
          absl::StrCat("node ", node, " was given up: ", reason,
                       "; attend with a new incarnation")};
}

// Describes the first setting that both sides set, to different values.
std::optional<std::string> Contradiction(const v1::JobSettings& ours,
                                         const v1::JobSettings& theirs) {
  const auto differ = [](const char* name, auto a, auto b) {
    return absl::StrCat(name, " is ", a, " for this job, and ", b, " here");
  };
  if (theirs.has_nodes_min() && theirs.nodes_min() != ours.nodes_min()) {
    return differ("--nodes (min)", ours.nodes_min(), theirs.nodes_min());
  }
  if (theirs.has_nodes_max() && theirs.nodes_max() != ours.nodes_max()) {
    return differ("--nodes (max)", ours.nodes_max(), theirs.nodes_max());
  }
  if (theirs.has_max_restarts() &&
      theirs.max_restarts() != ours.max_restarts()) {
    return differ("--max-restarts", ours.max_restarts(), theirs.max_restarts());
  }
  if (theirs.grow() != v1::GROW_UNSPECIFIED && theirs.grow() != ours.grow()) {
    return differ("--grow", v1::Grow_Name(ours.grow()),
                  v1::Grow_Name(theirs.grow()));
  }
  if (theirs.preflight() != v1::PREFLIGHT_UNSPECIFIED &&
      theirs.preflight() != ours.preflight()) {
    return differ("--preflight", v1::Preflight_Name(ours.preflight()),
                  v1::Preflight_Name(theirs.preflight()));
  }
  if (theirs.has_node_check() && theirs.node_check() != ours.node_check()) {
    return differ("--node-check", ours.node_check() ? "on" : "off",
                  theirs.node_check() ? "on" : "off");
  }
  for (const DurationFlag& row : DurationFlag::kAll) {
    if (!(theirs.*row.has)()) continue;
    const absl::Duration our = FromProto((ours.*row.value)());
    const absl::Duration their = FromProto((theirs.*row.value)());
    if (our != their) {
      return differ(row.flag, absl::FormatDuration(our),
                    absl::FormatDuration(their));
    }
  }
  if (theirs.has_requeue_exit_code() &&
      theirs.requeue_exit_code() != ours.requeue_exit_code()) {
    return differ("--requeue-exit-code", ours.requeue_exit_code(),
                  theirs.requeue_exit_code());
  }
  for (const v1::JobVariable& their : theirs.environment()) {
    const auto our =
        std::find_if(ours.environment().begin(), ours.environment().end(),
                     [&](const v1::JobVariable& each) {
                       return each.name() == their.name();
                     });
    if (our == ours.environment().end() || our->value() != their.value()) {
      return differ(absl::StrCat("--env ", their.name()).c_str(),
                    our == ours.environment().end() ? "not set" : our->value(),
                    their.value());
    }
  }
  return std::nullopt;
}

std::optional<Displaced> SpareToDisplace(const v1::Hello& hello,
                                         const Membership& membership,
                                         const NodeEpochs& epochs) {
  // By token id.
  std::map<std::string, std::pair<uint32_t, const Node*>> spares;
  for (const auto& [name, node] : membership.nodes()) {
    if (node.session == 0 || node.member() || node.seat >= 0 ||
        node.served_in != 0 || node.hello.launcher()) {
      continue;
    }
    const std::string token = epochs.TokenOf(name);
    if (token.empty()) continue;
    auto& [count, newest] = spares[token];
    ++count;
    if (newest == nullptr || node.attended_at >= newest->attended_at) {
      newest = &node;
    }
  }
  const std::string own = hello.has_node_credential()
                              ? epochs.TokenOf(hello.node())
                              : hello.token().id();
  for (const auto& [token, of_token] : spares) {
    const auto& [count, newest] = of_token;
    if (token == own || count * 2 <= Limits::spares_max) continue;
    return Displaced{
        newest->name(),
        absl::StrCat("it makes room for ", hello.node(), ": ", count,
                     " spares were admitted by its token, of at most ",
                     Limits::spares_max, " in all")};
  }
  return std::nullopt;
}

}  // namespace rollcall
