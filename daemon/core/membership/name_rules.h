// NameRules: which agent may have a node's name. Also decides whether an
// agent's settings agree with those of the job, and which spare makes room for
// an agent.
//
// A name belongs to one agent. A stream that breaks, a daemon that is restarted
// or a run that is adopted must not let another agent take the name, its seat
// and its share of the training state.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_CORE_MEMBERSHIP_NAME_RULES_H_
#define ROLLCALL_DAEMON_CORE_MEMBERSHIP_NAME_RULES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/membership.h"
#include "daemon/core/membership/node_epochs.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Why a Hello is refused.
struct Refused {
  absl::StatusCode code;
  v1::RefusalCode refusal;
  std::string text;
  // Whether the daemon logs the refusal. If the agent only has to dial again
  // with a new incarnation, the refusal is not logged.
  bool logged = true;
};

class NameRules {
 public:
  // Facts about the job at this moment.
  struct Moment {
    std::string run;
    // The generation of the running world; 0: none runs.
    uint64_t running = 0;
    bool ended = false;
    absl::Time now;
  };

  // `limits` must outlive the NameRules.
  NameRules(Moment moment, const Limits& limits)
      : moment_(std::move(moment)), limits_(limits) {}

  // For a known name; `node` is its entry. The Hello may come from the same
  // agent, from its next incarnation or from another agent. A launcher's agent
  // takes the name of its node from any other agent, and no other agent takes
  // the name from a launcher's agent, because seat 0 belongs to the launcher.
  // nullopt: the Hello may have the name.
  std::optional<Refused> Refuse(const v1::Hello& hello,
                                const std::string& observed_address,
                                const Node& node) const;

  // Whether this Hello continues the agent that the entry describes. If it does
  // not, and is not refused, the former agent is lost.
  bool Continues(const v1::Hello& hello, const Node& node) const;

 private:
  absl::Duration Grace(const Node& node) const;
  bool ProvesToBeItsAgent(const v1::Hello& hello, const Node& node) const;
  bool AwaitsItsAgent(const v1::Hello& hello, const Node& node) const;
  bool ContinuesRestored(const v1::Hello& hello, const Node& node) const;

  const Moment moment_;
  const Limits& limits_;
};

// The refusal for the agent of a node that is lost, if it still has a stream.
Refused RefusalOfLost(const std::string& job, const std::string& node,
                      v1::ReasonCode code, const std::string& reason);

// A setting that is a duration and has a flag.
struct DurationFlag {
  using S = v1::JobSettings;
  const char* flag;
  bool (S::*has)() const;
  const google::protobuf::Duration& (S::*value)() const;

  static const DurationFlag kAll[8];
};
inline constexpr DurationFlag DurationFlag::kAll[] = {
    {"--join-timeout", &S::has_join_timeout, &S::join_timeout},
    {"--last-call", &S::has_last_call, &S::last_call},
    {"--hang-timeout", &S::has_hang_timeout, &S::hang_timeout},
    {"--start-timeout", &S::has_start_timeout, &S::start_timeout},
    {"--setup-timeout", &S::has_setup_timeout, &S::setup_timeout},
    {"--notice-time", &S::has_notice_time, &S::notice_time},
    {"--ping-interval", &S::has_ping_interval, &S::ping_interval},
    {"--linger", &S::has_linger, &S::linger},
};

// Describes the first setting for which `theirs` has another value than `ours`;
// nullopt: none. Compares the settings that have a flag and a single value.
std::optional<std::string> Contradiction(const v1::JobSettings& ours,
                                         const v1::JobSettings& theirs);

// For a job that is full. Counts the attended spares that never had a seat, by
// the token that admitted them. If one token has admitted more than half of
// Limits::spares_max, its newest spare makes room for an agent of another
// token, so that one token alone cannot keep a replacement out.
struct Displaced {
  std::string node;
  std::string reason;
};
std::optional<Displaced> SpareToDisplace(const v1::Hello& hello,
                                         const Membership& membership,
                                         const NodeEpochs& epochs);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_MEMBERSHIP_NAME_RULES_H_
