// Ranks that use their generation's key-value store, for store.py. The process
// attaches as all ranks of the agents at these sockets, with a thread for each.
//
//   store_ranks RANKS_PER_NODE SOCKET...
//
// Prints one line each: NAME SECONDS OPERATIONS.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/rank/rank.h"
#include "daemon/base/clock.h"

namespace rollcall::bench {
namespace {

constexpr int kOperations = 3000;
// About the size of what Gloo publishes for a rank.
constexpr size_t kAddressBytes = 200;

using Ranks = std::vector<std::unique_ptr<Rank>>;

v1::StoreResult Do(Rank& rank, v1::StoreKind kind, const std::string& key,
                   const std::string& value = "") {
  v1::StoreOperation what;
  what.set_kind(kind);
  what.set_key(key);
  what.set_value(value);
  what.set_delta(1);
  absl::StatusOr<v1::StoreResult> result = rank.Store(std::move(what));
  if (!result.ok()) {
    std::fprintf(stderr, "store_ranks: %s\n",
                 result.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(result);
}

// Returns the seconds until all ranks have done the work.
double All(const Ranks& ranks, const std::function<void(size_t)>& work) {
  const absl::Time begun = MonotonicNow();
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&work, r] { work(r); });
  }
  for (std::thread& thread : threads) thread.join();
  return absl::ToDoubleSeconds(MonotonicNow() - begun);
}

void Print(const char* name, double seconds, size_t operations) {
  std::printf("%s %.6f %zu\n", name, seconds, operations);
}

void OneRank(const char* name, Rank& rank, v1::StoreKind kind,
             const std::string& key) {
  const absl::Time begun = MonotonicNow();
  for (int i = 0; i < kOperations; ++i) Do(rank, kind, key, "value");
  Print(name, absl::ToDoubleSeconds(MonotonicNow() - begun), kOperations);
}

int Run(uint32_t ranks_per_node, const std::vector<std::string>& sockets) {
  Ranks ranks(ranks_per_node * sockets.size());
  All(ranks, [&](size_t r) {
    auto rank = Rank::Attend(
        RankLocation{sockets[r / ranks_per_node],
                     static_cast<uint32_t>(r % ranks_per_node), 0});
    if (!rank.ok()) {
      std::fprintf(stderr, "store_ranks: %s\n",
                   rank.status().ToString().c_str());
      std::exit(1);
    }
    ranks[r] = *std::move(rank);
  });
  OneRank("set", *ranks[0], v1::STORE_KIND_SET, "mine");
  OneRank("get", *ranks[0], v1::STORE_KIND_GET, "mine");
  OneRank("add", *ranks[0], v1::STORE_KIND_ADD, "number");
  // Another node's agent stores this key.
  OneRank("add_elsewhere", *ranks.back(), v1::STORE_KIND_ADD, "number");
  const auto key = [](size_t rank) { return absl::StrCat("rank/", rank); };
  const std::string address(kAddressBytes, 'a');
  Print("mesh",
        All(ranks,
            [&](size_t r) {
              Do(*ranks[r], v1::STORE_KIND_SET, key(r), address);
              for (size_t i = 1; i < ranks.size(); ++i) {
                Do(*ranks[r], v1::STORE_KIND_GET, key((r + i) % ranks.size()));
              }
            }),
        ranks.size() * ranks.size());
  Print("barrier",
        All(ranks,
            [&](size_t r) {
              const auto there = Do(*ranks[r], v1::STORE_KIND_ADD, "barrier");
              if (there.number() == static_cast<int64_t>(ranks.size())) {
                Do(*ranks[r], v1::STORE_KIND_SET, "all", "1");
              }
              Do(*ranks[r], v1::STORE_KIND_WAIT, "all");
            }),
        2 * ranks.size());
  for (const auto& rank : ranks) rank->Finished(0);
  return 0;
}

}  // namespace
}  // namespace rollcall::bench

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "store_ranks: expected RANKS_PER_NODE SOCKET...\n");
    return 2;
  }
  return rollcall::bench::Run(static_cast<uint32_t>(std::atoi(argv[1])),
                              {argv + 2, argv + argc});
}
