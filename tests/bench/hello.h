// The Hello of one node of a crowd: about what a machine with two networks says
// of itself. Pure.
#ifndef ROLLCALL_TESTS_BENCH_HELLO_H_
#define ROLLCALL_TESTS_BENCH_HELLO_H_

#include <cstdint>

#include "rollcall/v1/membership.pb.h"

namespace rollcall::bench {

// The job of all benchmarks, how many ranks each node has, and the token that
// lets it in; no secret, its daemon lives for seconds, on loopback.
extern const char kJob[];
inline constexpr uint32_t kRanks = 8;
v1::JoinToken BenchToken();

// `index` from 1.
v1::Hello HelloOf(int index);

}  // namespace rollcall::bench

#endif  // ROLLCALL_TESTS_BENCH_HELLO_H_
