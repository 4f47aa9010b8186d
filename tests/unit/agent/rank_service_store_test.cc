// What ranks exchange and store, over the service's real Unix socket.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"
#include "tests/unit/agent/rank_service_fixture.h"

namespace rollcall {
namespace {

TEST_F(RankServiceTest, AnOperationOnTheStoreGetsItsResult) {
  OpenWorld();
  RankSide rank = Attended(0), other = Attended(1);
  rank.Store(7, 5, v1::STORE_KIND_GET, "k");
  const auto event = Next<RankAsksStore>();
  EXPECT_EQ(event.generation, 5u);
  EXPECT_EQ(event.operation.key(), "k");
  // The other rank uses the same request number, and gets a ticket of its own.
  other.Store(7, 5, v1::STORE_KIND_CHECK, "k");
  const auto others = Next<RankAsksStore>();
  EXPECT_NE(others.ticket, event.ticket);
  AnswerStore answer{event.ticket, {}};
  answer.result.set_value("v");
  service_->Answer(answer);
  service_->Answer(answer);  // A second answer has no effect.
  const v1::RankStored stored = Stored(rank);
  EXPECT_EQ(stored.request(), 7u);
  EXPECT_EQ(stored.result().value(), "v");
  // An operation that waits when the generation ends is answered, too.
  service_->EndWorld(5, v1::REASON_CODE_LEAVING, "why");
  EXPECT_EQ(Stored(other).result().code(),
            static_cast<uint32_t>(CodeOf(absl::StatusCode::kAborted)));
}

TEST_F(RankServiceTest, WhatTheStoreDoesNotTake) {
  OpenWorld();
  RankSide rank = Attended(0);
  using Code = absl::StatusCode;
  const auto refused = [&] {
    return static_cast<Code>(Stored(rank).result().code());
  };
  rank.Store(1, 4, v1::STORE_KIND_GET, "k");
  EXPECT_EQ(refused(), Code::kAborted);
  rank.Store(2, 5, v1::STORE_KIND_GET, "");
  EXPECT_EQ(refused(), Code::kInvalidArgument);
  for (uint64_t i = 0; i < Limits::store_asked_per_rank_max; ++i) {
    rank.Store(10 + i, 5, v1::STORE_KIND_GET, "k");
    Next<RankAsksStore>();
  }
  rank.Store(3, 5, v1::STORE_KIND_GET, "k");
  EXPECT_EQ(refused(), Code::kResourceExhausted);
  rank.CancelStore(10);
  EXPECT_EQ(Next<StoreCancelled>().tickets.size(), 1u);
  rank.Store(11, 5, v1::STORE_KIND_GET, "k");  // Already in use.
  EXPECT_EQ(refused(), Code::kInvalidArgument);
  rank.CancelStore(10);  // Nothing waits under this number.
  // The other operations are cancelled when the connection ends.
  rank.Close();
  EXPECT_EQ(Next<StoreCancelled>().tickets.size(),
            Limits::store_asked_per_rank_max - 1);
}

TEST_F(RankServiceTest, AnAgentThatIsBehindSaysSo) {
  OpenWorld();
  RankSide rank = Attended(0);
  for (int i = 0; i < 1000; ++i) inbox_.Post(AgentTick{});
  rank.Store(1, 5, v1::STORE_KIND_GET, "k");
  EXPECT_EQ(Stored(rank).result().code(),
            static_cast<uint32_t>(CodeOf(absl::StatusCode::kUnavailable)));
}

TEST_F(RankServiceTest, ExchangeWaitsForTheAnswer) {
  OpenWorld();
  RankSide rank = Attended(1);
  rank.Exchange(7, 5, "store/a", "mine");
  const auto event = Next<RankExchanged>();
  EXPECT_EQ(event.generation, 5u);
  EXPECT_EQ(event.local_rank, 1u);
  EXPECT_EQ(event.key, "store/a");
  EXPECT_EQ(event.value, "mine");
  v1::ExchangeOut out;
  out.set_generation(5);
  out.set_key("store/b");
  service_->Answer(out);  // No rank waits for this key.
  out.set_key("store/a");
  for (const char* value : {"a", "b", "c", "mine"}) out.add_values(value);
  service_->Answer(out);
  const v1::RankExchanged answered = Answered(rank);
  EXPECT_EQ(answered.request(), 7u);
  EXPECT_EQ(answered.code(), 0u) << answered.error();
  ASSERT_EQ(answered.values_size(), 4);
  EXPECT_EQ(answered.values(3), "mine");
  // The exchange can also fail for a reason of the daemon.
  rank.Exchange(8, 5, "k", "v");
  Next<RankExchanged>();
  out.set_key("k");
  out.set_code(8);
  out.set_error("too many keys");
  service_->Answer(out);
  const v1::RankExchanged refused = Answered(rank);
  EXPECT_EQ(refused.request(), 8u);
  EXPECT_EQ(refused.code(), 8u);
  EXPECT_EQ(refused.error(), "too many keys");
  EXPECT_EQ(refused.values_size(), 0);
}

TEST_F(RankServiceTest, TheEndOfAGenerationAbortsWhoWaits) {
  OpenWorld();
  RankSide rank = Attended(0);
  rank.Exchange(1, 5, "k", "v");
  Next<RankExchanged>();
  service_->EndWorld(5, v1::REASON_CODE_LOST_LEASE, "node n0 was lost");
  EXPECT_EQ(Answered(rank).code(), CodeOf(absl::StatusCode::kAborted));
  rank.Exchange(2, 5, "k", "v");
  EXPECT_EQ(Answered(rank).code(), CodeOf(absl::StatusCode::kAborted));
}

TEST_F(RankServiceTest, ANewerRequestForAKeyReplacesTheOlder) {
  OpenWorld();
  RankSide rank = Attended(0);
  rank.Exchange(1, 5, "k", "v");
  rank.Exchange(2, 5, "k", "v");
  v1::RankExchanged answered = Answered(rank);
  EXPECT_EQ(answered.request(), 1u);
  EXPECT_EQ(answered.code(), CodeOf(absl::StatusCode::kCancelled));
  // A request with another value does not replace the older request.
  rank.Exchange(3, 5, "k", "w");
  answered = Answered(rank);
  EXPECT_EQ(answered.request(), 3u);
  EXPECT_EQ(answered.code(), CodeOf(absl::StatusCode::kInvalidArgument));
  v1::ExchangeOut out;
  out.set_generation(5);
  out.set_key("k");
  service_->Answer(out);
  EXPECT_EQ(Answered(rank).request(), 2u);
}

TEST_F(RankServiceTest, ARankWaitsForSoManyKeysAlone) {
  OpenWorld();
  RankSide rank = Attended(0), other = Attended(1);
  for (uint64_t i = 0; i < Limits::exchanges_open_max; ++i) {
    rank.Exchange(i, 5, absl::StrCat("k", i), "v");
    Next<RankExchanged>();
  }
  rank.Exchange(1000, 5, "one more", "v");
  const v1::RankExchanged answered = Answered(rank);
  EXPECT_EQ(answered.request(), 1000u);
  EXPECT_EQ(answered.code(), CodeOf(absl::StatusCode::kResourceExhausted));
  // The other rank's own limit is not affected.
  other.Exchange(1, 5, "its key", "v");
  EXPECT_EQ(Next<RankExchanged>().key, "its key");
  // The end of the world answers all exchanges that wait.
  service_->EndWorld(5, v1::REASON_CODE_LOST_LEASE, "node n0 was lost");
  for (uint64_t i = 0; i < Limits::exchanges_open_max; ++i) {
    EXPECT_EQ(Answered(rank).code(), CodeOf(absl::StatusCode::kAborted));
  }
}

TEST_F(RankServiceTest, BadExchangesAreRefused) {
  OpenWorld();
  RankSide rank = Attended(0);
  struct {
    uint64_t generation;
    std::string key, value;
    absl::StatusCode expect;
  } const rows[] = {
      {4, "k", "v", absl::StatusCode::kAborted},
      {6, "k", "v", absl::StatusCode::kAborted},
      {5, "", "v", absl::StatusCode::kInvalidArgument},
      {5, std::string(Limits::exchange_key_bytes_max + 1, 'k'), "v",
       absl::StatusCode::kInvalidArgument},
      // The daemon admits only printable ASCII.
      {5, "a\nb", "v", absl::StatusCode::kInvalidArgument},
      {5, std::string("a\0b", 3), "v", absl::StatusCode::kInvalidArgument},
      {5, "caf\xc3\xa9", "v", absl::StatusCode::kInvalidArgument},
      {5, "a\x7f", "v", absl::StatusCode::kInvalidArgument},
      {5, "k", std::string(Limits::exchange_value_bytes_max + 1, 'v'),
       absl::StatusCode::kInvalidArgument},
  };
  uint64_t request = 0;
  for (const auto& row : rows) {
    rank.Exchange(++request, row.generation, row.key, row.value);
    const v1::RankExchanged answered = Answered(rank);
    EXPECT_EQ(answered.request(), request);
    EXPECT_EQ(answered.code(), CodeOf(row.expect))
        << row.generation << " '" << row.key << "'";
  }
  // The agent does not even read a message of this size to its end.
  rank.Exchange(++request, 5, "k", std::string(kRankMessageBytesMax, 'v'));
  EXPECT_EQ(rank.Finish().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace rollcall
