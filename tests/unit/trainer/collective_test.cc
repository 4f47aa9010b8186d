#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/trainer/local_exchange.h"
#include "tests/unit/trainer/ranks.h"
#include "trainer/collective/blob_exchange.h"
#include "trainer/collective/gloo.h"
#include "trainer/collective/single.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;

TEST(BlobExchange, CarriesAnySize) {
  const size_t kSizes[] = {0, 1, 4087, 4088, 4089, 8184, 8185, 20000};
  for (size_t size : kSizes) {
    LocalExchange exchange(3);
    ForEachRank(3, [&](int r) {
      const auto blob = [size](int rank) {
        // The sizes differ, so that some ranks have empty rounds.
        return std::string(size / (rank + 1), 'a' + rank);
      };
      auto all = ExchangeBlobs(exchange.For(r), "key", blob(r));
      ASSERT_TRUE(all.ok()) << all.status();
      EXPECT_EQ(*all, (std::vector<std::string>{blob(0), blob(1), blob(2)}));
    });
  }
}

TEST(BlobExchange, ChecksWhatPeersSend) {
  const std::vector<std::string> kPieces = {
      "",           "0000000",
      "0000000x",   "00000001",
      "00000001ab", "ffffffff",
      "01000001x",  "-0000001x",
      "00000002a",  std::string(5000, '0')};
  for (const std::string& piece : kPieces) {
    const Exchange lies = [&](const std::string&, const std::string& mine) {
      return std::vector<std::string>{mine, piece};
    };
    EXPECT_EQ(ExchangeBlobs(lies, "key", "mine").status().code(),
              Code::kInternal)
        << piece.substr(0, 20);
  }
  const Exchange fails = [](const std::string&, const std::string&) {
    return absl::AbortedError("the generation has ended");
  };
  EXPECT_EQ(ExchangeBlobs(fails, "key", "").status().code(), Code::kAborted);
  EXPECT_EQ(ExchangeBlobs(fails, "key", std::string(kBlobBytesMax + 1, 'x'))
                .status()
                .code(),
            Code::kInvalidArgument);
}

TEST(Gloo, ReducesToTheSameBitsEverywhere) {
  for (int ranks : {2, 3, 5}) {
    for (int count : {1, 2, 7, 1000, 300001}) {
      LocalExchange exchange(ranks);
      std::vector<std::vector<float>> sums(ranks);
      ForEachRank(ranks, [&](int r) {
        auto gloo = ConnectGloo(LocalGloo(exchange, r, ranks));
        ASSERT_TRUE(gloo.ok()) << gloo.status();
        EXPECT_EQ((*gloo)->rank(), r);
        EXPECT_EQ((*gloo)->size(), ranks);
        std::vector<float>& values = sums[r];
        for (int i = 0; i < count; ++i) {
          values.push_back(std::sin(0.1f * i) * (r + 1));
        }
        std::vector<float> most = values;
        auto status =
            (*gloo)->AllReduce(absl::MakeSpan(values), Reduction::kSum);
        ASSERT_TRUE(status.ok()) << status;
        status = (*gloo)->AllReduce(absl::MakeSpan(most), Reduction::kMax);
        ASSERT_TRUE(status.ok()) << status;
        for (int i = 0; i < count; ++i) {
          const float one = std::sin(0.1f * i);
          EXPECT_EQ(most[i], one > 0 ? one * ranks : one);
        }
        EXPECT_TRUE((*gloo)->Finish().ok());
      });
      for (int i = 0; i < count; ++i) {
        ASSERT_NEAR(sums[0][i], std::sin(0.1f * i) * ranks * (ranks + 1) / 2,
                    1e-5);
      }
      for (int r = 1; r < ranks; ++r) EXPECT_EQ(sums[r], sums[0]);
    }
  }
}

TEST(Gloo, NamesALostPeer) {
  LocalExchange exchange(2);
  std::promise<void> connected;
  std::shared_future<void> wait = connected.get_future().share();
  ForEachRank(2, [&, wait](int r) {
    auto gloo = ConnectGloo(LocalGloo(exchange, r, 2));
    if (r == 0) connected.set_value();
    ASSERT_TRUE(gloo.ok()) << gloo.status();
    // Rank 0's connections break, but only after rank 1 has connected.
    if (r == 1) return wait.wait();
    std::vector<float> values(1000);
    const absl::Status status =
        (*gloo)->AllReduce(absl::MakeSpan(values), Reduction::kSum);
    EXPECT_EQ(status.code(), Code::kUnavailable) << status;
    EXPECT_NE(status.message().find("connection to rank 1"),
              absl::string_view::npos)
        << status;
  });
}

TEST(Gloo, ReportsASilentPeer) {
  LocalExchange exchange(2);
  std::promise<void> timed_out;
  std::shared_future<void> wait = timed_out.get_future().share();
  ForEachRank(2, [&, wait](int r) {
    // The connect has the same timeout, and a loaded machine needs time for it.
    auto gloo = ConnectGloo(LocalGloo(exchange, r, 2, absl::Seconds(3)));
    if (r == 1) return wait.wait();
    absl::Status status = gloo.status();
    if (gloo.ok()) {
      std::vector<float> values(1000);
      status = (*gloo)->AllReduce(absl::MakeSpan(values), Reduction::kSum);
    }
    timed_out.set_value();
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status;
  });
}

TEST(Gloo, ReportsWhyItCouldNotConnect) {
  LocalExchange exchange(2);
  GlooOptions options = LocalGloo(exchange, 0, 2);
  options.exchange = [](const std::string&, const std::string&) {
    return absl::AbortedError("the generation has ended");
  };
  EXPECT_EQ(ConnectGloo(options).status().code(), Code::kAborted);
  options.exchange = [](const std::string&, const std::string& mine) {
    return std::vector<std::string>{mine, "00000003abc"};
  };
  options.timeout = absl::Milliseconds(100);
  EXPECT_EQ(ConnectGloo(options).status().code(), Code::kUnavailable);
  options.address = "203.0.113.77";  // Not an address of this machine.
  EXPECT_EQ(ConnectGloo(options).status().code(), Code::kUnavailable);
}

TEST(Gloo, BroadcastsFromAnyRank) {
  for (int ranks : {2, 3, 5}) {
    LocalExchange exchange(ranks);
    ForEachRank(ranks, [&](int r) {
      auto gloo = ConnectGloo(LocalGloo(exchange, r, ranks));
      ASSERT_TRUE(gloo.ok()) << gloo.status();
      for (size_t size :
           {size_t{0}, size_t{1}, size_t{256} << 10, (size_t{1} << 20) + 3}) {
        for (int root = 0; root < ranks; ++root) {
          std::string bytes(size, static_cast<char>('a' + r));
          if (size > 2) bytes[size - 1] = static_cast<char>('A' + r);
          const absl::Status status =
              (*gloo)->Broadcast(absl::MakeSpan(bytes), root);
          ASSERT_TRUE(status.ok()) << status;
          std::string expected(size, static_cast<char>('a' + root));
          if (size > 2) expected[size - 1] = static_cast<char>('A' + root);
          EXPECT_TRUE(bytes == expected) << "rank " << r << " root " << root;
        }
      }
      EXPECT_TRUE((*gloo)->Finish().ok());
    });
  }
}

// One of three ranks never takes part, and the others are interrupted.
template <typename Wait>
void ExpectInterrupted(Wait wait) {
  LocalExchange exchange(3);
  std::shared_ptr<Interruption> interruptions[3];
  for (auto& one : interruptions) one = std::make_shared<Interruption>();
  std::promise<void> over;
  std::shared_future<void> end = over.get_future().share();
  std::atomic<int> waiting{0}, woken{0};
  std::thread raiser([&] {
    while (waiting < 2) std::this_thread::yield();
    // The ranks are interrupted during or before their waits. Both waits must
    // end, because the third rank stays connected until they have.
    interruptions[0]->Raise();
    interruptions[1]->Raise();
    while (woken < 2) std::this_thread::yield();
    over.set_value();
  });
  ForEachRank(3, [&, end](int r) {
    GlooOptions options = LocalGloo(exchange, r, 3, absl::Seconds(60));
    options.interruption = interruptions[r];
    auto gloo = ConnectGloo(options);
    ASSERT_TRUE(gloo.ok()) << gloo.status();
    if (r == 2) return end.wait();
    ++waiting;
    EXPECT_EQ(wait(**gloo).code(), Code::kAborted);
    ++woken;
    // Later calls return at once, too.
    EXPECT_EQ(wait(**gloo).code(), Code::kAborted);
    end.wait();
  });
  raiser.join();
}

TEST(Gloo, AnInterruptionWakesAWaitingRank) {
  for (size_t count : {size_t{3}, size_t{3000000}}) {
    ExpectInterrupted([count](Collective& collective) {
      std::vector<float> values(count);
      return collective.AllReduce(absl::MakeSpan(values), Reduction::kSum);
    });
  }
  ExpectInterrupted([](Collective& collective) {
    std::string bytes(8 << 20, 'x');
    return collective.Broadcast(absl::MakeSpan(bytes), 2);
  });
}

TEST(Gloo, AnInterruptionWakesAConnectingRank) {
  // Rank 1 published its addresses and then went away.
  auto interruption = std::make_shared<Interruption>();
  std::promise<void> met;
  LocalExchange exchange(2);
  auto gone = std::async(std::launch::async, [&] {
    GlooOptions options = LocalGloo(exchange, 1, 2, absl::Seconds(60));
    options.interruption = std::make_shared<Interruption>();
    options.interruption->Raise();
    return ConnectGloo(options).status().code();
  });
  GlooOptions options = LocalGloo(exchange, 0, 2, absl::Seconds(60));
  options.interruption = interruption;
  options.exchange = [&](const std::string& key, const std::string& value) {
    auto values = exchange.For(0)(key, value);
    EXPECT_EQ(gone.get(), Code::kAborted);
    met.set_value();
    return values;
  };
  std::thread raiser([&] {
    met.get_future().get();
    interruption->Raise();
  });
  const auto code = ConnectGloo(options).status().code();
  raiser.join();
  // Rank 1's listener may close before this rank connects.
  EXPECT_TRUE(code == Code::kAborted || code == Code::kUnavailable);
}

TEST(Single, ChangesNothing) {
  SingleCollective single;
  std::vector<float> values = {1, 2};
  EXPECT_TRUE(single.AllReduce(absl::MakeSpan(values), Reduction::kSum).ok());
  EXPECT_EQ(values, (std::vector<float>{1, 2}));
  EXPECT_EQ(single.size(), 1);
}

}  // namespace
}  // namespace rollcall
