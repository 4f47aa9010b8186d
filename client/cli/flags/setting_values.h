// Converts the texts of the flags that are a job's settings to JobSettings.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_CLI_FLAGS_SETTING_VALUES_H_
#define ROLLCALL_CLIENT_CLI_FLAGS_SETTING_VALUES_H_

#include "absl/status/status.h"
#include "client/cli/flags/flag_grammar.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Sets what was given, and leaves the rest as it is. INVALID_ARGUMENT: as in
// flag_values.h.
absl::Status ReadSettings(const SettingsText& text, v1::JobSettings& to);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_FLAGS_SETTING_VALUES_H_
