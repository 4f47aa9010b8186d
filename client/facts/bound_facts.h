// Removes facts that do not fit into a Hello.
#ifndef ROLLCALL_CLIENT_FACTS_BOUND_FACTS_H_
#define ROLLCALL_CLIENT_FACTS_BOUND_FACTS_H_

#include <cstddef>

#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Bytes reserved for what an agent adds to its facts: its prober's port, the
// address that the platform gives, the time.
inline constexpr size_t kFactsBytesAdded = 256;

// Removes, in this order, until the counts are within their bounds:
// - addresses, the least useful first (link-local ones, those of links that are
//   down, those of bridges);
// - interfaces without an address;
// - GIDs, those that no connection uses first;
// - the HCAs near a GPU, then its throttle reasons.
// Then, until the bytes are within their bound: GIDs that no connection uses,
// interfaces without an address, all HCAs near a GPU, all but two GIDs per
// port, entries of `missing`, communication variables, and last interfaces,
// ports, GPUs, folders and files of --same, from the end of each list. The
// remaining entries keep their order. Pure.
void BoundFacts(v1::Facts& facts,
                size_t addresses_max = Limits::addresses_per_node_max,
                size_t bytes_max = Limits::facts_bytes_max - kFactsBytesAdded);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_BOUND_FACTS_H_
