// NodeEnvironment: this process's variables and the names of its machine.
// Platform detection reads nothing else.
//
// ReadNodeEnvironment reads this machine; the rest is pure.
#ifndef ROLLCALL_CLIENT_LAUNCH_PLATFORM_ENVIRONMENT_H_
#define ROLLCALL_CLIENT_LAUNCH_PLATFORM_ENVIRONMENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rollcall {

struct NodeEnvironment {
  // By name. A variable with an empty value counts as unset, because templates
  // leave such variables behind.
  std::map<std::string, std::string> variables;
  std::string hostname;
  // The hostname with its domain, as in the hosts file; empty: unknown.
  // Kubernetes writes it there for a pod with a headless service.
  std::string qualified_name;
};

// `entries`: "NAME=value". Reads the hostname and /etc/hosts; makes no DNS
// query.
NodeEnvironment ReadNodeEnvironment(const std::vector<std::string>& entries);

// Like ReadNodeEnvironment, without the machine's names. Pure.
NodeEnvironment VariablesOf(const std::vector<std::string>& entries);

// The first name in `hosts_file` (the text of a hosts file) that is `hostname`
// with a domain, from a line that also has the bare hostname; empty: none.
std::string QualifiedName(absl::string_view hosts_file,
                          absl::string_view hostname);

// nullptr: the variable is unset.
const std::string* Find(const NodeEnvironment& environment,
                        const std::string& name);

// The variable as a number of at most `most`; nullopt: unset. INVALID_ARGUMENT
// names the variable and its value.
absl::StatusOr<std::optional<uint32_t>> FindNumber(
    const NodeEnvironment& environment, const std::string& name, uint32_t most);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_PLATFORM_ENVIRONMENT_H_
