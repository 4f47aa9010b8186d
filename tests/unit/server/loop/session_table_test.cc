#include "daemon/server/loop/state/session_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();

// Records how it was ended. Keeps the messages that are sent until `reads`.
class FakeStream final : public Stream {
 public:
  void Send(const grpc::ByteBuffer& message, Order order) override {
    orders.push_back(order);
    if (!reads) kept_.push_back(message);
  }
  void Close(absl::StatusCode code, const v1::Refusal& refusal) override {
    absl::StrAppend(&ended, absl::StatusCodeToString(code), " ",
                    v1::RefusalCode_Name(refusal.code()));
  }
  void Cancel(absl::StatusCode, const v1::Refusal&) override {
    kept_.clear();
    ended = "cancelled ";
  }
  size_t UnreadBytes() override {
    size_t bytes = 0;
    for (const grpc::ByteBuffer& message : kept_) bytes += message.Length();
    return bytes;
  }
  void Took(size_t) override {}

  bool reads = false;
  std::string ended;
  std::vector<Order> orders;

 private:
  std::vector<grpc::ByteBuffer> kept_;
};

class SessionTableTest : public testing::Test {
 protected:
  static Limits MakeLimits() {
    Limits limits;
    limits.streams_without_hello_max = 2;
    limits.hello_timeout = absl::Seconds(10);
    limits.unread_bytes_max = 1000;
    return limits;
  }
  std::shared_ptr<FakeStream> Open(SessionId id, absl::Time now = kStart) {
    auto stream = std::make_shared<FakeStream>();
    table_.Open(id, stream, now);
    return stream;
  }
  static v1::DaemonMessage Message(size_t bytes) {
    v1::DaemonMessage message;
    message.mutable_abort()->set_reason(std::string(bytes, 'x'));
    return message;
  }

  Logger logger_{Log::Level::kError};
  SessionTable table_{MakeLimits(), logger_};
};

TEST_F(SessionTableTest, MessagesOfTheStoreGoLast) {
  const auto stream = Open(1);
  v1::DaemonMessage store;
  store.mutable_store()->set_number(1);
  table_.Send(rollcall::Send{{1}, store});
  table_.Send(*table_.Find(1), store);
  table_.Send(rollcall::Send{{1}, Message(1)});
  table_.Send(*table_.Find(1), Message(1));
  using Order = Stream::Order;
  EXPECT_EQ(stream->orders, (std::vector<Order>{Order::kLast, Order::kLast,
                                                Order::kFirst, Order::kFirst}));
}

TEST_F(SessionTableTest, EndsTheOldestOfTooManyWithoutHello) {
  const auto first = Open(1);
  const auto second = Open(2);
  table_.Greet(*table_.Find(1));
  const auto third = Open(3);
  EXPECT_EQ(second->ended, "");
  const auto fourth = Open(4);
  EXPECT_EQ(second->ended, "UNAVAILABLE REFUSAL_CODE_UNSPECIFIED");
  EXPECT_EQ(first->ended + third->ended + fourth->ended, "");
  EXPECT_EQ(table_.FindOpen(2), nullptr);
  EXPECT_NE(table_.Find(2), nullptr);
}

TEST_F(SessionTableTest, EndsWhatHasExpired) {
  const auto silent = Open(1);
  const auto greeted = Open(2);
  table_.Greet(*table_.Find(2));
  EXPECT_EQ(table_.NextExpiry(), kStart + absl::Seconds(10));
  table_.SetExpiry(*table_.Find(2), kStart + absl::Seconds(20));
  table_.Expire(kStart + absl::Seconds(9));
  EXPECT_EQ(silent->ended, "");
  table_.Expire(kStart + absl::Seconds(10));
  EXPECT_EQ(silent->ended, "UNAVAILABLE REFUSAL_CODE_UNSPECIFIED");
  EXPECT_EQ(greeted->ended, "");
  EXPECT_EQ(table_.NextExpiry(), kStart + absl::Seconds(20));
  table_.Expire(kStart + absl::Seconds(20));
  EXPECT_EQ(greeted->ended, "OK REFUSAL_CODE_UNSPECIFIED");
  EXPECT_EQ(table_.NextExpiry(), absl::InfiniteFuture());
}

TEST_F(SessionTableTest, ClosesAStreamOnce) {
  const auto stream = Open(1);
  table_.Close(*table_.Find(1), absl::AbortedError("moved on"));
  table_.Close(*table_.Find(1), absl::OkStatus());
  EXPECT_EQ(stream->ended, "ABORTED REFUSAL_CODE_UNSPECIFIED");
  table_.Remove(*table_.Find(1));
  EXPECT_EQ(table_.Find(1), nullptr);
  EXPECT_EQ(table_.NextExpiry(), absl::InfiniteFuture());
}

TEST_F(SessionTableTest, EndsTheStreamsThatReadTooSlowly) {
  const auto slow = Open(1);
  const auto slower = Open(2);
  table_.Greet(*table_.Find(1));
  table_.Greet(*table_.Find(2));
  const auto reads = Open(3);
  reads->reads = true;
  table_.Send(Send{{1, 2, 3}, Message(300)});
  table_.Send(Send{{2}, Message(300)});
  EXPECT_EQ(slow->ended + slower->ended + reads->ended, "");
  table_.Send(Send{{1, 2, 3}, Message(600)});
  EXPECT_EQ(slower->ended, "cancelled UNAVAILABLE REFUSAL_CODE_SLOW");
  EXPECT_EQ(slow->ended + reads->ended, "");
}

TEST_F(SessionTableTest, VisitsTheSessionsOfAJob) {
  Open(1);
  Open(2);
  table_.Find(2)->job = "train";
  std::vector<SessionId> visited;
  table_.ForEachOf("train", [&](const Session& s) { visited.push_back(s.id); });
  EXPECT_EQ(visited, std::vector<SessionId>{2});
}

}  // namespace
}  // namespace rollcall
