// Cuts facts down to what a Hello may carry.
#ifndef ROLLCALL_CLIENT_FACTS_BOUND_FACTS_H_
#define ROLLCALL_CLIENT_FACTS_BOUND_FACTS_H_

#include <cstddef>

#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Bytes that are left for what an agent adds to its facts: its prober's port,
// the address that the platform names, the time.
inline constexpr size_t kFactsBytesAdded = 256;

// Addresses first, the least useful ones at the front: link-local ones, those
// of links that are down and of bridges. Then, until their count fits:
// interfaces without an address, GIDs that no connection is made by, what is
// near a GPU. Then, until the bytes fit: the same GIDs, interfaces and HCAs
// near a GPU, GIDs but two a port, reasons of what is missing, and at last
// interfaces, ports and GPUs from the end. Order is kept. Pure.
void BoundFacts(v1::Facts& facts,
                size_t addresses_max = Limits::addresses_per_node_max,
                size_t bytes_max = Limits::facts_bytes_max - kFactsBytesAdded);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_BOUND_FACTS_H_
