#include "daemon/server/loop/streams/broadcast.h"

#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rollcall {
namespace {

v1::DaemonMessage LargeMessage() {
  v1::DaemonMessage message;
  message.mutable_exchange()->set_key("k");
  message.mutable_exchange()->add_values(std::string(1 << 20, 'v'));
  return message;
}

const void* BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  EXPECT_EQ(slices.size(), 1u);
  return slices.empty() ? nullptr : slices[0].begin();
}

TEST(Broadcast, CopiesShareTheirBytes) {
  const grpc::ByteBuffer first = Encode(LargeMessage());
  const grpc::ByteBuffer second = first;
  EXPECT_EQ(BytesOf(first), BytesOf(second));
}

TEST(Broadcast, EncodesTheMessage) {
  const v1::DaemonMessage message = LargeMessage();
  const grpc::ByteBuffer bytes = Encode(message);
  grpc::Slice slice;
  ASSERT_TRUE(bytes.DumpToSingleSlice(&slice).ok());
  v1::DaemonMessage read;
  ASSERT_TRUE(read.ParseFromArray(slice.begin(), slice.size()));
  EXPECT_EQ(read.SerializeAsString(), message.SerializeAsString());
}

TEST(Broadcast, DecodesWhatAgentsSay) {
  v1::AgentMessage said;
  said.mutable_heartbeat()->set_step(7);
  const std::string bytes = said.SerializeAsString();
  // The wire may bring the message in pieces.
  const grpc::Slice pieces[] = {grpc::Slice(bytes.substr(0, 1)),
                                grpc::Slice(bytes.substr(1))};
  v1::AgentMessage read;
  ASSERT_TRUE(Decode(grpc::ByteBuffer(pieces, 2), read).ok());
  EXPECT_EQ(read.heartbeat().step(), 7u);
}

TEST(Broadcast, RefusesGarbage) {
  for (const std::string& bytes :
       {std::string("\xff\xff\xff\xff"), std::string("GET / HTTP/1.1\r\n")}) {
    const grpc::Slice slice(bytes);
    v1::AgentMessage read;
    EXPECT_EQ(Decode(grpc::ByteBuffer(&slice, 1), read).code(),
              absl::StatusCode::kInvalidArgument);
  }
  v1::AgentMessage read;
  EXPECT_EQ(Decode(grpc::ByteBuffer(), read).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace rollcall
