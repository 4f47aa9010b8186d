// The communication variables that a node's ranks get.
#ifndef ROLLCALL_CLIENT_FACTS_COMMUNICATION_H_
#define ROLLCALL_CLIENT_FACTS_COMMUNICATION_H_

#include <string>
#include <vector>

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Both lists have "NAME=value". As in NCCL, the environment comes before the
// configuration files, the first entry of a name counts, and an empty value
// counts as none. Within the bounds of limits.h; beyond the count, names of the
// end of the alphabet are left out. Pure.
v1::CommunicationVariables CommunicationVariablesIn(
    const std::vector<std::string>& environment,
    const std::vector<std::string>& nccl_conf);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_COMMUNICATION_H_
