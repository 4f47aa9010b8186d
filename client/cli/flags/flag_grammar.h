// The grammar of the command line: which commands and flags there are, and
// their help texts.
//
// Values that CLI11 cannot check stay as typed; flag_values.h reads them.
#ifndef ROLLCALL_CLIENT_CLI_FLAGS_FLAG_GRAMMAR_H_
#define ROLLCALL_CLIENT_CLI_FLAGS_FLAG_GRAMMAR_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "client/cli/flags/flags.h"

namespace rollcall {

// Settings as typed. setting_values.h converts them to JobSettings.
struct SettingsText {
  std::string nodes;
  std::string grow;
  std::string preflight;
  std::vector<std::string> env;
  std::string join_timeout;
  std::string last_call;
  std::string hang_timeout;
  std::string start_timeout;
  std::string setup_timeout;
  std::string notice_time;
  std::string ping_interval;
  std::string linger;
  bool node_check = false;
  uint32_t max_restarts = 0;
  CLI::Option* max_restarts_option = nullptr;
  int requeue_exit_code = 0;
  CLI::Option* requeue_option = nullptr;
};

// Everything that the parser writes to; it must not move.
struct TypedFlags {
  RunFlags run;
  RemoteFlags remote;
  HostedFlags hosted;
  SubmitFlags submit;
  SettingsText run_settings;
  DetectFlags detect;
  LaunchFlags launch;
  SettingsText launch_settings;
  std::string launch_spec;
  // As typed, for whichever command runs ranks.
  std::string preempt_signal;
  JoinFlags join;
  SettingsText join_settings;
  JoinFlags agent;
  SettingsText agent_settings;
  StatusFlags status;
  StopFlags stop;
  DrainFlags drain;
  std::string drain_deadline;  // As typed.
  std::string status_since;    // As typed.
  EvictFlags evict;
  DoctorFlags doctor;
  TokenFlags token;
  // As typed.
  std::string role = "worker";
  std::string ttl;
  // As typed, for `launch` and for the hidden command `daemon`.
  std::string token_ttl;
  DaemonFlags daemon;
  VersionFlags version;
  CompletionFlags completion;
  RenderFlags render;
};

// `to` must outlive the parser.
std::unique_ptr<CLI::App> MakeParser(TypedFlags& to);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_FLAGS_FLAG_GRAMMAR_H_
