// Ranks as threads of one process, connected by Gloo over loopback.
#ifndef ROLLCALL_TESTS_UNIT_TRAINER_RANKS_H_
#define ROLLCALL_TESTS_UNIT_TRAINER_RANKS_H_

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/trainer/local_exchange.h"
#include "trainer/collective/gloo.h"

namespace rollcall {

// Runs `body(rank)` on one thread for each rank.
template <typename Body>
void ForEachRank(int ranks, Body body) {
  std::vector<std::future<void>> all;
  for (int r = 0; r < ranks; ++r) {
    all.push_back(std::async(std::launch::async, [body, r] { body(r); }));
  }
  for (auto& one : all) one.get();
}

inline GlooOptions LocalGloo(LocalExchange& exchange, int rank, int ranks,
                             absl::Duration timeout = absl::Seconds(20)) {
  GlooOptions options;
  options.rank = rank;
  options.size = ranks;
  options.address = "127.0.0.1";
  options.timeout = timeout;
  options.exchange = exchange.For(rank);
  options.name = [](int which) { return "rank " + std::to_string(which); };
  return options;
}

// Runs `body(collective)` on each of `ranks` connected ranks.
template <typename Body>
void ForEachConnected(int ranks, Body body,
                      absl::Duration timeout = absl::Seconds(20)) {
  LocalExchange exchange(ranks);
  ForEachRank(ranks, [&](int r) {
    auto gloo = ConnectGloo(LocalGloo(exchange, r, ranks, timeout));
    ASSERT_TRUE(gloo.ok()) << gloo.status();
    body(std::move(*gloo));
  });
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_TRAINER_RANKS_H_
