// Converts the texts of flags to checked values, as an Invocation.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_CLI_FLAGS_FLAG_VALUES_H_
#define ROLLCALL_CLIENT_CLI_FLAGS_FLAG_VALUES_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/flags/argv.h"
#include "client/cli/flags/flag_grammar.h"
#include "client/cli/flags/flags.h"

namespace rollcall {

// ReadToken and ReadCommand return INVALID_ARGUMENT if a value is missing or
// wrong. The message names the flag, what was expected and what was given.

// `rollcall token VERB`; null: no verb was given.
absl::StatusOr<Invocation> ReadToken(const CLI::App* verb, TypedFlags& typed);
// Reads any other command of this name.
absl::StatusOr<Invocation> ReadCommand(const std::string& command,
                                       const Argv& args, TypedFlags& typed);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_FLAGS_FLAG_VALUES_H_
