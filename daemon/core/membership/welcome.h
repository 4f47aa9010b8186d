// Welcome: the message to an agent that is admitted.
#ifndef ROLLCALL_DAEMON_CORE_MEMBERSHIP_WELCOME_H_
#define ROLLCALL_DAEMON_CORE_MEMBERSHIP_WELCOME_H_

#include <string>

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// For a run with these settings; all settings must be set. `credential`: for
// the agent's node; empty: the Welcome has none.
v1::DaemonMessage WelcomeOf(const std::string& run,
                            const v1::JobSettings& settings,
                            const std::string& credential);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_MEMBERSHIP_WELCOME_H_
