#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "tests/unit/trainer/files.h"
#include "trainer/data/dataset.h"
#include "trainer/data/sampler.h"
#include "trainer/data/shard_header.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;

struct Stretch {
  int steps;
  uint64_t batch;
  int ranks;
};

// Returns all samples of these steps, in order, and sets the position after
// them.
std::vector<uint64_t> Taken(uint64_t samples,
                            const std::vector<Stretch>& stretches,
                            DataPosition* position) {
  std::vector<uint64_t> seen;
  for (const Stretch& stretch : stretches) {
    const Sampler sampler(9, samples, stretch.batch);
    for (int step = 0; step < stretch.steps; ++step) {
      uint64_t taken = 0;
      for (int r = 0; r < stretch.ranks; ++r) {
        const auto share = sampler.Share(*position, r, stretch.ranks);
        EXPECT_EQ(share.size(),
                  Sampler::ShareSize(stretch.batch, r, stretch.ranks));
        EXPECT_LE(share.size(),
                  Sampler::ShareSizeMax(stretch.batch, stretch.ranks));
        taken += share.size();
        seen.insert(seen.end(), share.begin(), share.end());
      }
      EXPECT_EQ(taken, stretch.batch);
      *position = sampler.After(*position);
    }
  }
  EXPECT_EQ(position->epoch * samples + position->cursor, seen.size());
  return seen;
}

// Expects that every complete epoch in `seen` has every sample once.
void ExpectEpochs(uint64_t samples, const std::vector<uint64_t>& seen) {
  std::vector<uint64_t> all(samples);
  std::iota(all.begin(), all.end(), 0);
  for (size_t begin = 0; begin + samples <= seen.size(); begin += samples) {
    std::vector<uint64_t> one(seen.begin() + begin,
                              seen.begin() + begin + samples);
    std::sort(one.begin(), one.end());
    EXPECT_EQ(one, all) << samples << " samples, epoch " << begin / samples;
  }
}

TEST(Sampler, GivesEverySampleOnceAnEpoch) {
  struct Row {
    uint64_t samples, batch;
    int ranks;
  };
  const Row kRows[] = {{1, 1, 1},     {1, 5, 2},    {2, 1, 3},     {10, 5, 2},
                       {10, 4, 3},    {64, 7, 4},   {1000, 32, 3}, {17, 40, 3},
                       {4096, 64, 1}, {4097, 64, 5}};
  for (const Row& row : kRows) {
    const int steps = static_cast<int>(2 * row.samples / row.batch + 1);
    DataPosition position;
    const auto seen =
        Taken(row.samples, {{steps, row.batch, row.ranks}}, &position);
    ASSERT_GE(seen.size(), 2 * row.samples);
    ExpectEpochs(row.samples, seen);
  }
}

TEST(Sampler, BatchAndRanksMayChange) {
  DataPosition position;
  const auto seen =
      Taken(100, {{3, 7, 2}, {2, 16, 3}, {1, 64, 1}, {5, 11, 4}, {9, 13, 5}},
            &position);
  EXPECT_EQ(position, (DataPosition{2, 89}));
  ExpectEpochs(100, seen);
  // The samples of a step do not depend on the number of ranks.
  DataPosition one, five;
  EXPECT_EQ(Taken(100, {{20, 9, 1}}, &one), Taken(100, {{20, 9, 5}}, &five));
}

TEST(Sampler, ACursorBeyondTheEpochIsCarriedOver) {
  const Sampler sampler(9, 10, 4);
  EXPECT_EQ(sampler.Share({0, 23}, 0, 1), sampler.Share({2, 3}, 0, 1));
  EXPECT_EQ(sampler.After({0, 23}), (DataPosition{2, 7}));
  EXPECT_EQ(sampler.After({1, 8}), (DataPosition{2, 2}));
  EXPECT_EQ(sampler.After({0, UINT64_MAX}).cursor, UINT64_MAX % 10 + 4);
}

TEST(Sampler, OrderIsDrawnFromSeedAndEpoch) {
  constexpr uint64_t kSamples = 500;
  const auto epoch = [](uint64_t seed, uint64_t which) {
    const Sampler sampler(seed, kSamples, 1);
    std::vector<uint64_t> order;
    for (uint64_t i = 0; i < kSamples; ++i)
      order.push_back(sampler.At(which, i));
    return order;
  };
  EXPECT_EQ(epoch(1, 0), epoch(1, 0));
  EXPECT_NE(epoch(1, 0), epoch(1, 1));
  EXPECT_NE(epoch(1, 0), epoch(2, 0));
  // Neighbours in the data are not neighbours in the order.
  const auto order = epoch(1, 0);
  int neighbours = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    neighbours += order[i] == order[i - 1] + 1;
  }
  EXPECT_LT(neighbours, 10);
}

TEST(Sampler, CountsSamplesWithTheirNextToken) {
  EXPECT_EQ(Sampler::CountSamples(0, 4), 0u);
  EXPECT_EQ(Sampler::CountSamples(4, 4), 0u);
  EXPECT_EQ(Sampler::CountSamples(5, 4), 1u);
  EXPECT_EQ(Sampler::CountSamples(8, 4), 1u);
  EXPECT_EQ(Sampler::CountSamples(9, 4), 2u);
}

using DatasetTest = Files;

// Returns a shard in llm.c's format.
std::string Shard(const std::vector<uint16_t>& tokens,
                  std::vector<uint32_t> header = {20240520, 1}) {
  if (header.size() == 2) header.push_back(tokens.size());
  header.resize(256);
  std::string text(reinterpret_cast<const char*>(header.data()), 1024);
  text.append(reinterpret_cast<const char*>(tokens.data()), 2 * tokens.size());
  return text;
}

TEST_F(DatasetTest, IsOneSequenceOfAllFiles) {
  auto dataset = Dataset::Open({Write("a", "abc"), Write("empty", ""),
                                Write("b", "defg\xFF"), Write("c", "i")});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->vocabulary(), 256);
  EXPECT_EQ(dataset->unit(), "bytes");
  const std::string all = "abcdefg\xFFi";
  ASSERT_EQ(dataset->tokens(), all.size());
  for (size_t from = 0; from <= all.size(); ++from) {
    for (size_t size = 0; from + size <= all.size(); ++size) {
      std::vector<Token> out(size);
      ASSERT_TRUE(dataset->Read(from, absl::MakeSpan(out)).ok());
      EXPECT_EQ(std::string(out.begin(), out.end()), all.substr(from, size));
    }
  }
}

TEST_F(DatasetTest, ReadsShards) {
  const std::vector<uint16_t> all = {0, 1, 255, 256, 50256, 7, 8};
  auto dataset = Dataset::Open({Write("a.bin", Shard({0, 1, 255})),
                                Write("none.bin", Shard({})),
                                Write("b", Shard({256, 50256, 7, 8}))});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->vocabulary(), 50257);
  EXPECT_EQ(dataset->unit(), "tokens");
  ASSERT_EQ(dataset->tokens(), all.size());
  for (size_t from = 0; from <= all.size(); ++from) {
    for (size_t size = 0; from + size <= all.size(); ++size) {
      std::vector<Token> out(size);
      ASSERT_TRUE(dataset->Read(from, absl::MakeSpan(out)).ok());
      EXPECT_EQ(out, std::vector<Token>(all.begin() + from,
                                        all.begin() + from + size));
    }
  }
}

// The bytes that this thread has had fetched from disks. The kernel counts a
// read when it is submitted.
uint64_t BytesFetched() {
  std::ifstream file("/proc/thread-self/io");
  std::string name;
  uint64_t bytes = 0;
  while (file >> name >> bytes && name != "read_bytes:") {
  }
  EXPECT_EQ(name, "read_bytes:");
  return bytes;
}

TEST_F(DatasetTest, PrefetchesIntoThePageCache) {
  constexpr size_t kFile = 8 << 20, kAt = kFile - (1 << 20), kCount = 2 << 20;
  const std::vector<std::string> paths = {
      Write("a.txt", std::string(kFile, 'a')),
      Write("b.txt", std::string(kFile, 'b'))};
  const auto drop = [&] {
    for (const std::string& path : paths) {
      const int file = open(path.c_str(), O_RDONLY);
      EXPECT_EQ(fdatasync(file), 0);
      EXPECT_EQ(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
      close(file);
    }
  };
  const auto dataset = Dataset::Open(paths);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::vector<Token> tokens(kCount);
  drop();
  uint64_t before = BytesFetched();
  ASSERT_TRUE(dataset->Read(kAt, absl::MakeSpan(tokens)).ok());
  if (BytesFetched() - before < kCount) {
    GTEST_SKIP() << "the file system of " << folder_ << " keeps its pages";
  }
  drop();
  before = BytesFetched();
  dataset->Prefetch(kAt, kCount);
  const uint64_t fetched = BytesFetched();
  EXPECT_GE(fetched - before, kCount);
  ASSERT_TRUE(dataset->Read(kAt, absl::MakeSpan(tokens)).ok());
  EXPECT_EQ(BytesFetched(), fetched);
  EXPECT_EQ(tokens.front(), 'a');
  EXPECT_EQ(tokens.back(), 'b');
}

TEST_F(DatasetTest, RefusesNonFiles) {
  const std::string fifo = Path("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(Dataset::Open({folder_}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Dataset::Open({fifo}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Dataset::Open({folder_ + "/none"}).status().code(),
            Code::kNotFound);
}

TEST_F(DatasetTest, RefusesInvalidShards) {
  const std::string whole = Shard({1, 2, 3});
  struct Row {
    const char* name;
    std::string text;
    std::vector<const char*> says;
  };
  const Row kRows[] = {
      {"llama", Shard({1, 2}, {20240801, 7}), {"magic", "20240801", "32 bits"}},
      {"eval", Shard({1, 2}, {20240522, 1}), {"magic", "20240522"}},
      {"newer",
       Shard({1, 2}, {20240520, 2}),
       {"version", "expected 1, found 2"}},
      {"count",
       Shard({1, 2}, {20240520, 1, 1u << 31}),
       {"token count", "-2147483648"}},
      {"cut",
       whole.substr(0, whole.size() - 1),
       {"size", "expected 1030 bytes", "found 1029"}},
      {"long", whole + "x", {"size", "expected 1030 bytes", "found 1031"}},
      {"short", whole.substr(0, 1023), {"header", "1024 bytes", "found 1023"}},
      {"four", whole.substr(0, 4), {"header", "1024 bytes", "found 4"}},
      {"text.bin", "once upon", {"magic", "20240520", "another name"}},
      {"empty.bin", "", {"magic", "found 0 bytes"}},
  };
  for (const Row& row : kRows) {
    const std::string path = Write(row.name, row.text);
    const absl::Status status = Dataset::Open({path}).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << row.name;
    EXPECT_NE(status.message().find(path), absl::string_view::npos) << status;
    for (const char* word : row.says) {
      EXPECT_NE(status.message().find(word), absl::string_view::npos)
          << status << " does not say " << word;
    }
  }
}

TEST_F(DatasetTest, KindsCannotBeMixed) {
  const std::string text = Write("text", "abc");
  const std::string shard = Write("shard", Shard({1}));
  for (const auto& [first, second] :
       {std::pair(text, shard), std::pair(shard, text)}) {
    const absl::Status status = Dataset::Open({first, second}).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    for (const std::string& word : {text, shard, std::string("do not mix")}) {
      EXPECT_NE(status.message().find(word), absl::string_view::npos) << status;
    }
  }
}

TEST_F(DatasetTest, ATokenBeyondTheVocabularyIsNamed) {
  const std::string path = Write("a", Shard({1, 2, 50257, 3}));
  auto dataset = Dataset::Open({path});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::vector<Token> out(2);
  EXPECT_TRUE(dataset->Read(0, absl::MakeSpan(out)).ok());
  const absl::Status status = dataset->Read(1, absl::MakeSpan(out));
  EXPECT_EQ(status.code(), Code::kDataLoss);
  for (const std::string& word :
       {path, std::string("byte 1028"), std::string("found 50257")}) {
    EXPECT_NE(status.message().find(word), absl::string_view::npos) << status;
  }
}

TEST_F(DatasetTest, AFileThatShrinksIsAnError) {
  for (const std::string& text :
       {std::string("abcdef"), std::string(9000, 'x'), Shard({1, 2, 3})}) {
    const std::string path = Write("a", text);
    auto dataset = Dataset::Open({path});
    ASSERT_TRUE(dataset.ok());
    std::vector<Token> out(dataset->tokens());
    ASSERT_TRUE(dataset->Read(0, absl::MakeSpan(out)).ok());
    ASSERT_EQ(truncate(path.c_str(), text.size() - 1), 0);
    EXPECT_EQ(dataset->Read(0, absl::MakeSpan(out)).code(), Code::kDataLoss);
    ASSERT_EQ(truncate(path.c_str(), 0), 0);
    EXPECT_EQ(dataset->Read(0, absl::MakeSpan(out)).code(), Code::kDataLoss);
  }
}

TEST_F(DatasetTest, FingerprintsTellFilesApart) {
  const auto of = [](const std::vector<std::string>& paths) {
    return Dataset::Open(paths)->Fingerprint().value();
  };
  const std::string a = Write("a", "abc"), same = Write("same", "abc"),
                    b = Write("b", "abd"), longer = Write("l", "abcd");
  EXPECT_EQ(of({a}), of({same}));
  EXPECT_NE(of({a}), of({b}));
  EXPECT_NE(of({a}), of({longer}));
  EXPECT_NE(of({a, b}), of({b, a}));
  EXPECT_NE(of({Write("1", Shard({1}))}), of({Write("2", Shard({2}))}));
}

}  // namespace
}  // namespace rollcall
