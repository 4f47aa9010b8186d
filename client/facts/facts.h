// Facts: what this node says of itself in its Hello.
//
// Gathered from the kernel alone: no name is resolved, nothing is sent, no
// program is run. What cannot be read stays unset; gathering never fails and
// never blocks for longer than the kernel takes to answer (about a
// millisecond). Each part (network, gpu, system) fills its own fields;
// InfiniBand ports and what only NVML knows are parts to come.
//
// Any thread. The result is within limits.h: addresses_per_node_max and
// facts_bytes_max.
#ifndef ROLLCALL_CLIENT_FACTS_FACTS_H_
#define ROLLCALL_CLIENT_FACTS_FACTS_H_

#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

v1::Facts GatherFacts();

// Cuts facts down to what a Hello may carry, least useful first: interfaces
// without an address, link-local addresses, addresses of bridges and of links
// that are down. Order is kept. Pure.
void BoundFacts(v1::Facts& facts,
                size_t addresses_max = Limits::addresses_per_node_max,
                size_t bytes_max = Limits::facts_bytes_max);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_FACTS_H_
