#include "client/agent/rank_service/rank_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/inbox.h"
#include "tests/unit/agent/rank_side.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;

// The handler refuses the message `leave`. At `stopped` it ends the connection
// as another thread could.
class RankSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/rank_socket.XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/s";
  }
  void TearDown() override {
    socket_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Listen(const RankSocketLimits& limits = RankSocketLimits()) {
    RankSocket::Events events;
    events.came = [this](const RankConnectionRef& connection) {
      came_.PostAlways(connection);
    };
    events.heard = [this](RankConnection& connection,
                          const v1::RankMessage& message) {
      ++heard_;
      if (message.has_stopped()) connection.End(absl::AbortedError("stopped"));
      return message.has_leave() ? absl::AbortedError("left")
                                 : absl::OkStatus();
    };
    events.gone = [this](RankConnection& connection) {
      gone_.PostAlways(connection.ended());
    };
    auto socket = RankSocket::Listen(path_, std::move(events), nullptr, limits);
    ASSERT_TRUE(socket.ok()) << socket.status();
    socket_ = *std::move(socket);
  }
  RankConnectionRef Came() {
    std::vector<RankConnectionRef> all;
    while (all.empty()) all = came_.Take(absl::Seconds(60));
    EXPECT_EQ(all.size(), 1u);
    return all[0];
  }
  // The status with which the agent ended the connection that ended next.
  absl::Status Gone() {
    std::vector<absl::Status> all;
    while (all.empty()) all = gone_.Take(absl::Seconds(60));
    EXPECT_EQ(all.size(), 1u);
    return all[0];
  }

  std::string folder_, path_;
  std::atomic<int> heard_{0};
  Inbox<RankConnectionRef> came_{1000};
  Inbox<absl::Status> gone_{1000};
  std::unique_ptr<RankSocket> socket_;
};

v1::AgentReply Reply(size_t bytes) {
  v1::AgentReply reply;
  reply.mutable_abort()->set_reason(std::string(bytes, 'x'));
  return reply;
}

TEST_F(RankSocketTest, AnAbortOvertakesAnswersOfTheStore) {
  Listen();
  RankSide rank(path_);
  const RankConnectionRef connection = Came();
  // This is more than the kernel takes, so some replies wait.
  v1::AgentReply stored;
  stored.mutable_stored()->mutable_result()->set_value(
      std::string(1 << 20, 'x'));
  constexpr int kStored = 8;
  for (int i = 0; i < kStored; ++i) {
    stored.mutable_stored()->set_request(i + 1);
    connection->Send(stored);
  }
  connection->Send(Reply(1));
  connection->End(absl::AbortedError("the last"));
  int before = 0;
  uint64_t last = 0;
  v1::AgentReply reply;
  bool aborted = false;
  while (rank.Read(&reply)) {
    if (reply.has_abort()) {
      aborted = true;
    } else if (!aborted) {
      ++before;
    }
    if (reply.has_stored()) {
      EXPECT_EQ(reply.stored().request(), ++last);
    }
  }
  EXPECT_TRUE(aborted);
  EXPECT_LT(before, kStored);
  EXPECT_EQ(last, static_cast<uint64_t>(kStored));
  EXPECT_EQ(rank.Finish().code(), Code::kAborted);
}

TEST_F(RankSocketTest, OneThatSaysNothingIsEnded) {
  RankSocketLimits limits;
  limits.hello_timeout = absl::Milliseconds(1);
  Listen(limits);
  RankSide rank(path_);
  EXPECT_EQ(rank.Finish().code(), Code::kFailedPrecondition);
  EXPECT_EQ(Gone().code(), Code::kFailedPrecondition);
  // Half a message counts as no message.
  RankSide half(path_);
  half.WriteBytes(std::string("\0\0\0\2x", 5));
  EXPECT_EQ(half.Finish().code(), Code::kFailedPrecondition);
}

TEST_F(RankSocketTest, OneThatHasSpokenMayBeSilent) {
  RankSocketLimits limits;
  limits.hello_timeout = absl::Milliseconds(200);
  Listen(limits);
  RankSide rank(path_), silent(path_);
  rank.Hello(0);
  // The time of the silent rank, which ends later than the time of the first
  // one, is over.
  EXPECT_EQ(silent.Finish().code(), Code::kFailedPrecondition);
  v1::RankMessage message;
  message.mutable_leave();
  rank.Write(message);
  EXPECT_EQ(rank.Finish().code(), Code::kAborted);
}

TEST_F(RankSocketTest, OneTooManyIsToldSo) {
  RankSocketLimits limits;
  limits.connections_max = 2;
  Listen(limits);
  RankSide first(path_), second(path_), third(path_);
  EXPECT_EQ(third.Finish().code(), Code::kResourceExhausted);
  first.Close();
  EXPECT_TRUE(Gone().ok());
  RankSide fourth(path_);
  v1::RankMessage message;
  message.mutable_leave();
  fourth.Write(message);
  EXPECT_EQ(fourth.Finish().code(), Code::kAborted);
}

TEST_F(RankSocketTest, OneThatDoesNotReadIsEnded) {
  struct {
    size_t replies, bytes;
  } const kRows[] = {{4, 1 << 30}, {1000, 4 << 20}};
  for (const auto& row : kRows) {
    RankSocketLimits limits;
    limits.replies_queued_max = row.replies;
    limits.bytes_queued_max = row.bytes;
    limits.end_patience = absl::Milliseconds(1);
    socket_.reset();
    Listen(limits);
    RankSide rank(path_);
    rank.Hello(0);
    const RankConnectionRef connection = Came();
    // More than the kernel buffers.
    int sent = 0;
    for (; connection->ended().ok(); ++sent) connection->Send(Reply(1 << 20));
    EXPECT_LE(sent, 10);
    EXPECT_EQ(connection->ended().code(), Code::kResourceExhausted);
    // The rank does not read the end of the connection either.
    EXPECT_EQ(Gone().code(), Code::kResourceExhausted);
  }
}

TEST_F(RankSocketTest, WhatWasSentBeforeTheEndArrives) {
  Listen();
  RankSide rank(path_);
  const RankConnectionRef connection = Came();
  constexpr size_t kBytes = 4 << 20;
  for (int i = 0; i < 3; ++i) connection->Send(Reply(kBytes));
  connection->End(absl::AbortedError("that is all"));
  connection->End(absl::InternalError("the first one counts"));
  connection->Send(Reply(1));
  v1::AgentReply reply;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(rank.Read(&reply));
    EXPECT_EQ(reply.abort().reason().size(), kBytes);
  }
  EXPECT_FALSE(rank.Read(&reply));
  EXPECT_EQ(rank.Finish(), absl::AbortedError("that is all"));
  EXPECT_EQ(Gone().code(), Code::kAborted);
}

TEST_F(RankSocketTest, WhatIsNoMessageIsEnded) {
  Listen();
  struct {
    std::string bytes;
    Code expect;
  } const kRows[] = {
      {std::string("\0\x10\x40\x01", 4), Code::kResourceExhausted},
      {std::string("\0\0\0\1\xff", 5), Code::kInvalidArgument},
      // Bytes after a bad message are ignored.
      {std::string("\0\0\0\1\xff\xff\xff\xff\xff", 9), Code::kInvalidArgument},
  };
  for (const auto& row : kRows) {
    RankSide rank(path_);
    rank.WriteBytes(row.bytes);
    EXPECT_EQ(rank.Finish().code(), row.expect);
    EXPECT_EQ(Gone().code(), row.expect);
  }
}

TEST_F(RankSocketTest, NothingIsHeardAfterTheEnd) {
  Listen();
  RankSide rank(path_);
  v1::RankMessage stopped, here;
  stopped.mutable_stopped();
  here.mutable_here();
  rank.WriteBytes(FrameOf(here) + FrameOf(stopped) + FrameOf(here));
  EXPECT_EQ(rank.Finish().code(), Code::kAborted);
  EXPECT_EQ(Gone().code(), Code::kAborted);
  EXPECT_EQ(heard_, 2);
}

TEST_F(RankSocketTest, ARankThatEndsIsGone) {
  Listen();
  RankSide killed(path_);
  killed.Hello(0);
  killed.Close();
  EXPECT_TRUE(Gone().ok());
  RankSide ends(path_);
  ends.Hello(0);
  ends.WritesDone();
  EXPECT_TRUE(ends.Finish().ok());
  EXPECT_TRUE(Gone().ok());
}

TEST_F(RankSocketTest, AConnectionMayOutliveTheSocket) {
  Listen();
  RankSide rank(path_);
  const RankConnectionRef connection = Came();
  socket_.reset();
  EXPECT_EQ(Gone().code(), Code::kUnavailable);
  EXPECT_EQ(rank.Finish().code(), Code::kUnavailable);
  connection->Send(Reply(1));
  connection->End(absl::AbortedError("too late"));
}

TEST_F(RankSocketTest, TakesThePlaceOfASocketAlone) {
  Listen();
  // A killed agent leaves the socket like this.
  std::filesystem::create_hard_link(path_, folder_ + "/kept");
  socket_.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
  std::filesystem::rename(folder_ + "/kept", path_);
  Listen();
  EXPECT_TRUE(RankSide(path_).connected());
  socket_.reset();
  std::ofstream(path_) << "a file";
  EXPECT_EQ(RankSocket::Listen(path_, {}).status().code(), Code::kUnavailable);
  EXPECT_TRUE(std::filesystem::is_regular_file(path_));
}

}  // namespace
}  // namespace rollcall
