// What ranks and their agents send each other, as bytes on the socket.
#include <string>

#include "client/rank/frames.h"
#include "rollcall/v1/rank.pb.h"
#include "tests/fuzz/seeds/seeds.h"

namespace rollcall {
namespace {

// `rank`: the bytes come from a rank, otherwise from its agent. The bound is
// 100 bytes.
Script From(bool rank) { return Script().Bytes({rank ? 1 : 0, 100}); }

std::string Hello() {
  v1::RankMessage message;
  message.mutable_hello()->set_wire_version(kRankWireVersion);
  message.mutable_hello()->set_local_rank(1);
  message.mutable_hello()->set_pid(4711);
  return FrameOf(message);
}

std::string Exchange(size_t bytes) {
  v1::RankMessage message;
  v1::RankExchange& exchange = *message.mutable_exchange();
  exchange.set_request(1);
  exchange.set_generation(1);
  exchange.set_key("k");
  exchange.set_value(std::string(bytes, 'v'));
  return FrameOf(message);
}

std::string World() {
  v1::AgentReply reply;
  v1::RankWorld& world = *reply.mutable_world();
  world.mutable_world()->set_generation(1);
  world.mutable_world()->set_world_size(1);
  world.mutable_world()->add_members()->set_node("a");
  return FrameOf(reply);
}

std::string Exchanged() {
  v1::AgentReply reply;
  reply.mutable_exchanged()->set_request(1);
  reply.mutable_exchanged()->add_values("v");
  reply.mutable_exchanged()->add_values("");
  return FrameOf(reply);
}

std::string End() {
  v1::AgentReply reply;
  reply.mutable_end()->set_code(10);
  reply.mutable_end()->set_message("a newer process has this local rank");
  return FrameOf(reply);
}

}  // namespace

void RankFrames(Corpus& corpus) {
  const std::string hello = Hello();
  corpus.Add("frames", "hello", From(true).Text(hello).text());
  corpus.Add("frames", "hello_in_pieces",
             From(true)
                 .Text(hello.substr(0, 2))
                 .Text(hello.substr(2, 4))
                 .Text(hello.substr(6))
                 .text());
  corpus.Add("frames", "hello_and_exchange",
             From(true).Text(hello + Exchange(9)).text());
  corpus.Add("frames", "half_a_hello",
             From(true).Text(hello.substr(0, hello.size() / 2)).text());
  corpus.Add("frames", "too_large", From(true).Text(Exchange(101)).text());
  corpus.Add("frames", "empty", From(true).Text(std::string(8, '\0')).text());
  corpus.Add("frames", "another_protocol",
             From(true).Text("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").text());
  corpus.Add("frames", "no_message",
             From(true).Text(std::string("\0\0\0\1\xff", 5)).text());
  corpus.Add("frames", "world", From(false).Text(World()).text());
  corpus.Add("frames", "exchanged", From(false).Text(Exchanged()).text());
  corpus.Add("frames", "end", From(false).Text(World() + End()).text());
}

}  // namespace rollcall
