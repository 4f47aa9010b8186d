// WatchFacts: what changes at a node while its agent attends: interfaces, RDMA
// ports, free space, and what NVML reports of GPUs.
//
// It runs in a process of its own (`rollcall facts --watch`), because a device,
// a library or a file system may not answer. Each source has its own thread;
// NVML has a copy of the process (gpu_watch.h). A source that hangs delays no
// other, and the agent can end the process at any time.
//
// The kernel announces changes of interfaces. Sysfs and file systems announce
// nothing, so RDMA ports and free space are read every second.
//
// It decides nothing. Changes are damped (fact_damper.h) and written to stdout,
// one line each.
#ifndef ROLLCALL_CLIENT_FACTS_WATCH_FACT_WATCH_H_
#define ROLLCALL_CLIENT_FACTS_WATCH_FACT_WATCH_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/facts/facts.h"
#include "daemon/base/processes/child_process.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Watches until stdin or stdout ends; then ends the process, with code 0.
// Requires a process with one thread. `json`: lines for people.
[[noreturn]] void WatchFacts(const DeviceFactsOptions& options, bool json);

// Starts that process, as NodeFactsOptions say. Errors: see ChildProcess.
absl::StatusOr<ChildProcess> SpawnFactWatch(const NodeFactsOptions& options);

// A change as a line without its end, for the agent, and back. nullopt: not
// such a line, or a change that the daemon would not admit.
std::string FactLine(const v1::FactChange& change);
std::optional<v1::FactChange> ParseFactLine(absl::string_view line);
// The same for what is not watched any more; see FactReporter::TakeEnd.
// nullopt: another line.
std::string EndLine(const std::string& text);
std::optional<std::string> ParseEndLine(absl::string_view line);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_WATCH_FACT_WATCH_H_
