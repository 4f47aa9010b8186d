// The Hello of one node of a crowd; it has about as many facts as that of a
// machine with two networks. Pure.
#ifndef ROLLCALL_TESTS_BENCH_DAEMON_HELLO_H_
#define ROLLCALL_TESTS_BENCH_DAEMON_HELLO_H_

#include <cstdint>

#include "rollcall/v1/membership.pb.h"

namespace rollcall::bench {

// The job of all benchmarks, the number of ranks of each node, and the token
// that admits nodes. The token is not a secret, since its daemon runs for
// seconds and only on loopback.
extern const char kJob[];
inline constexpr uint32_t kRanks = 8;
v1::JoinToken BenchToken();

// `index` is at least 1.
v1::Hello HelloOf(int index);

}  // namespace rollcall::bench

#endif  // ROLLCALL_TESTS_BENCH_DAEMON_HELLO_H_
