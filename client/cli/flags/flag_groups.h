// Groups of flags that several commands have, for flag_grammar.cc.
//
// The values that they write to must outlive the parser.
#ifndef ROLLCALL_CLIENT_CLI_FLAGS_FLAG_GROUPS_H_
#define ROLLCALL_CLIENT_CLI_FLAGS_FLAG_GROUPS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "client/cli/flags/flag_grammar.h"
#include "client/cli/flags/flags.h"

namespace rollcall {

// A check for CLI11: the error in the number of a flag that takes 0 or more;
// empty: no error.
std::string CheckCount(const std::string& text);
// The flags of one agent on its node.
void AddLocal(CLI::App& app, LocalFlags& to, std::string& preempt_signal);
// Flags that torchrun needs on every node, and that have no effect here.
void AddUnneeded(CLI::App& app, const std::vector<std::string>& names,
                 LocalFlags& to);
// --job, and torchrun's spelling of it, which accepts any text.
void AddJob(CLI::App& app, std::string& to, const std::string& help);
// A job's settings.
void AddSettings(CLI::App& app, SettingsText& to);
// Files of the user's own PKI.
void AddTls(CLI::App& app, TlsFlags& to);
// The daemon's HTTP port.
void AddHttp(CLI::App& app, HttpFlags& to);
// Flags that name a job, and how to reach it.
void AddWhere(CLI::App& app, WhereFlags& to);
void AddState(CLI::App& app, std::string& to);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_FLAGS_FLAG_GROUPS_H_
