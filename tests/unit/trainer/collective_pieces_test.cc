// Collectives that move pieces from rank to rank: all-gather, reduce-scatter,
// send and receive.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/trainer/ranks.h"
#include "trainer/collective/single.h"

namespace rollcall {
namespace {

constexpr int kWorlds[] = {2, 3, 5};
constexpr size_t kSizes[] = {0, 1, 3, 4, 1000, (1 << 20) + 3};

// Returns a rank's own bytes. Elements near each other all differ.
std::string BytesOf(int rank, size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>((i * 7 + i / 251 + rank * 83) & 0xff);
  }
  return bytes;
}

TEST(Gloo, GathersAPieceOfEachRank) {
  for (const int ranks : kWorlds) {
    ForEachConnected(ranks, [&](std::unique_ptr<Collective> gloo) {
      for (const size_t size : kSizes) {
        std::string all(size * ranks, 'x'), expected;
        for (int r = 0; r < ranks; ++r) expected += BytesOf(r, size);
        const absl::Status status =
            gloo->AllGather(BytesOf(gloo->rank(), size), absl::MakeSpan(all));
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_TRUE(all == expected) << "rank " << gloo->rank() << " of "
                                     << ranks << ", " << size << " bytes";
      }
      EXPECT_TRUE(gloo->Finish().ok());
    });
  }
}

TEST(Gloo, ScattersSums) {
  for (const int ranks : kWorlds) {
    ForEachConnected(ranks, [&](std::unique_ptr<Collective> gloo) {
      for (const size_t size : {0, 1, 2, 7, 1000, 100001}) {
        std::vector<float> all(size * ranks), mine(size, -1.0f);
        for (size_t i = 0; i < all.size(); ++i) {
          all[i] = static_cast<float>(i % 1009 + gloo->rank());
        }
        const absl::Status status =
            gloo->ReduceScatter(absl::MakeSpan(all), absl::MakeSpan(mine));
        ASSERT_TRUE(status.ok()) << status;
        for (size_t i = 0; i < size; ++i) {
          const size_t at = gloo->rank() * size + i;
          ASSERT_EQ(mine[i], ranks * (at % 1009) + ranks * (ranks - 1) / 2)
              << "rank " << gloo->rank() << " of " << ranks << ", " << i
              << " of " << size;
        }
      }
      EXPECT_TRUE(gloo->Finish().ok());
    });
  }
}

TEST(Gloo, SendsInBothDirections) {
  for (const int ranks : kWorlds) {
    ForEachConnected(ranks, [&](std::unique_ptr<Collective> gloo) {
      const int rank = gloo->rank();
      const int before = (rank + ranks - 1) % ranks, next = (rank + 1) % ranks;
      for (const size_t size : kSizes) {
        std::string in(size, 'x');
        absl::Status status =
            gloo->SendReceive(BytesOf(rank, size), absl::MakeSpan(in));
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_TRUE(in == BytesOf(before, size)) << rank << " of " << ranks;
        status =
            gloo->SendReceiveBack(BytesOf(rank + 9, size), absl::MakeSpan(in));
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_TRUE(in == BytesOf(next + 9, size)) << rank << " of " << ranks;
      }
      EXPECT_TRUE(gloo->Finish().ok());
    });
  }
}

// With two ranks, both directions use one connection.
TEST(Gloo, DirectionsDoNotTakeEachOthersMessages) {
  for (const int ranks : {2, 3}) {
    ForEachConnected(ranks, [&](std::unique_ptr<Collective> gloo) {
      const int rank = gloo->rank();
      const absl::Span<char> none;
      for (int round = 0; round < 20; ++round) {
        // Rank 0 sends to rank 1, which answers with the same length.
        std::string ping = "ping" + std::to_string(round);
        std::string got(ping.size(), ' ');
        absl::Status status =
            gloo->SendReceive(rank == 0 ? absl::MakeConstSpan(ping) : none,
                              rank == 1 ? absl::MakeSpan(got) : none);
        ASSERT_TRUE(status.ok()) << status;
        if (rank == 1) {
          EXPECT_EQ(got, ping);
          got[1] = 'o';
        }
        ping = got;
        status =
            gloo->SendReceiveBack(rank == 1 ? absl::MakeConstSpan(ping) : none,
                                  rank == 0 ? absl::MakeSpan(got) : none);
        ASSERT_TRUE(status.ok()) << status;
        if (rank == 0) {
          EXPECT_EQ(got, "pong" + std::to_string(round));
        }
      }
      EXPECT_TRUE(gloo->Finish().ok());
    });
  }
}

// Runs all collectives, one after the other, on the same connections.
TEST(Gloo, NumbersTheCollectivesThatItEntersAndLeaves) {
  ForEachConnected(3, [&](std::unique_ptr<Collective> gloo) {
    std::vector<float> values(5, 1.0f), all(15, 1.0f);
    std::string bytes(5, 'b'), wide(15, 'w');
    EXPECT_EQ(gloo->seen().entered, 0u);
    EXPECT_TRUE(gloo->AllReduce(absl::MakeSpan(values), Reduction::kMax).ok());
    EXPECT_TRUE(gloo->Broadcast(absl::MakeSpan(bytes), 1).ok());
    EXPECT_TRUE(gloo->AllGather(bytes, absl::MakeSpan(wide)).ok());
    EXPECT_TRUE(
        gloo->ReduceScatter(absl::MakeSpan(all), absl::MakeSpan(values)).ok());
    std::string in(5, ' ');
    EXPECT_TRUE(gloo->SendReceive(bytes, absl::MakeSpan(in)).ok());
    EXPECT_TRUE(gloo->BeginSum(absl::MakeSpan(values)).ok());
    EXPECT_TRUE(gloo->Wait().ok());
    EXPECT_EQ(gloo->seen().entered, 6u);
    EXPECT_EQ(gloo->seen().left, 6u);
    EXPECT_EQ(values[4], 9.0f);
    EXPECT_TRUE(gloo->Finish().ok());
  });
}

TEST(Single, GathersAndScattersItsOwn) {
  SingleCollective single;
  const std::string mine = "mine";
  std::string got(4, ' ');
  EXPECT_TRUE(single.AllGather(mine, absl::MakeSpan(got)).ok());
  EXPECT_EQ(got, mine);
  got = "    ";
  EXPECT_TRUE(single.SendReceive(mine, absl::MakeSpan(got)).ok());
  EXPECT_EQ(got, mine);
  got = "    ";
  EXPECT_TRUE(single.SendReceiveBack(mine, absl::MakeSpan(got)).ok());
  EXPECT_EQ(got, mine);
  std::vector<float> all = {1, 2, 3}, sum(3);
  EXPECT_TRUE(
      single.ReduceScatter(absl::MakeSpan(all), absl::MakeSpan(sum)).ok());
  EXPECT_EQ(sum, all);
}

}  // namespace
}  // namespace rollcall
