#include "daemon/core/membership/welcome.h"

#include "daemon/base/durations.h"
#include "daemon/core/limits.h"

namespace rollcall {

v1::DaemonMessage WelcomeOf(const std::string& run,
                            const v1::JobSettings& settings,
                            const std::string& credential) {
  v1::DaemonMessage message;
  v1::Welcome& welcome = *message.mutable_welcome();
  Limits limits;
  limits.lease = FromProto(settings.lease());
  welcome.set_run(run);
  *welcome.mutable_lease() = settings.lease();
  ToProto(limits.heartbeat(), welcome.mutable_heartbeat_interval());
  *welcome.mutable_daemon_grace() = settings.daemon_grace();
  *welcome.mutable_stop_grace() = settings.stop_grace();
  welcome.set_node_credential(credential);
  *welcome.mutable_settings() = settings;
  welcome.set_takes_fact_changes(true);
  welcome.set_takes_setup_ended(true);
  welcome.mutable_settings()->clear_expected_nodes();
  return message;
}

}  // namespace rollcall
