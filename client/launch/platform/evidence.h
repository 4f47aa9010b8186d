// Evidence: what one source (a platform's variables, ROLLCALL_* variables or
// flags) gives for this node's place in the run, and how it is known.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_PLATFORM_EVIDENCE_H_
#define ROLLCALL_CLIENT_LAUNCH_PLATFORM_EVIDENCE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/launch/platform/environment.h"

namespace rollcall {

template <typename T>
struct Known {
  T value{};
  // The variable or flag that gave the value, for messages; empty: unknown.
  std::string from;

  bool known() const { return !from.empty(); }
};

struct Evidence {
  // "slurm", "kubernetes", ...; in lower case.
  std::string platform;
  // 0 is the launcher's node. Node ranks of the world may differ, because the
  // daemon assigns seats.
  Known<uint32_t> node_rank;
  // Whether this node launches, if the platform tells it without a rank.
  Known<bool> launches;
  // In the syntax of --nodes: N or MIN:MAX.
  Known<std::string> nodes;
  // A name or address of the launcher's node, without a port.
  Known<std::string> launcher;
  // This node's own address for its peers.
  Known<std::string> address;
  // In the syntax of --nproc-per-node: N or auto.
  Known<std::string> ranks;
  // A job id (job_name.h) that is the same on all nodes of a run.
  Known<std::string> job;
  // How often the platform has started the run again.
  Known<uint32_t> attempt;
  // Why this process must not start an agent, and what to do; empty: it may.
  std::string obstacle;
};

// The variables that hold the fields of Evidence; nullptr: no variable does.
struct VariableNames {
  const char* node_rank = nullptr;
  const char* nodes = nullptr;
  const char* launcher = nullptr;
  // All nodes in the order of their ranks, separated by commas or whitespace.
  const char* hosts = nullptr;
  const char* address = nullptr;
  const char* ranks = nullptr;
  const char* job = nullptr;
  const char* attempt = nullptr;
};

// Adds the values of the named variables to `to`. INVALID_ARGUMENT: a variable
// has no valid value; the message names it and its value.
absl::Status TakeVariables(const NodeEnvironment& environment,
                           const VariableNames& names, Evidence& to);

// "NAME=value", for Known::from.
std::string From(absl::string_view name, absl::string_view value);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_PLATFORM_EVIDENCE_H_
