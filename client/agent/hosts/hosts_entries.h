// The address lines of a world's block: which names each member gets, and the
// warnings about names that are left out. hosts_names decides. Pure; any
// thread.
#ifndef ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_ENTRIES_H_
#define ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_ENTRIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/agent/hosts/hosts_names.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Makes complete lines, one for each member with a valid name and address.
// `world.members[node_rank]` is this node. `hostname`: the machine's name.
// `others`: all text outside this block.
std::string MakeHostsEntries(const v1::World& world, uint32_t node_rank,
                             absl::string_view hostname,
                             absl::string_view others, const HostsNames& names,
                             std::vector<std::string>& warnings);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_ENTRIES_H_
