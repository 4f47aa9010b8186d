// What agents receive: from a daemon, from ranks, and from other probers.
#include <string_view>

#include "rollcall/v1/membership.pb.h"
#include "tests/fuzz/seeds/seeds.h"

namespace rollcall {

void Agents(Corpus& corpus) {
  // Op 19: all events up to a running world; see agent_fuzz.cc.
  corpus.Add("agent", "runs_and_ends",
             Script()
                 .Bytes({19, 1, 1, 13, 0, 0, 13, 1, 0, 14, 8, 0})
                 .Text("done")
                 .Bytes({0})
                 .Text("a")
                 .Text("last words")
                 .text());
  corpus.Add("agent", "aborts",
             Script()
                 .Bytes({19, 1, 1, 7, 0})
                 .Text("a node was lost")
                 .Bytes({14, 19, 2, 0, 16, 15, 1, 18, 0xFF})
                 .text());
  corpus.Add("agent", "exchanges",
             Script()
                 .Bytes({19, 0, 0, 15, 1, 0, 1, 15, 1, 1, 1, 9, 0, 1, 2, 0})
                 .Text("")
                 .Bytes({15, 1, 0, 1, 1, 3})
                 .Text("gone")
                 .Bytes({0, 18, 0xFF, 19, 0, 0})
                 .text());
  corpus.Add("agent", "odd_address",
             Script()
                 .Bytes({0, 3, 5, 2, 10, 15, 4, 5, 1, 1, 0, 0})
                 .Text("10.7.0.1\nevil")
                 .Bytes({1, 0})
                 .text());
  // The sum of the ranks overflows to 0.
  corpus.Add("agent", "ranks_beyond_counting",
             Script()
                 .Bytes({0, 3, 5, 2, 10, 15, 4, 5, 10, 1, 1, 0, 0xFA, 1, 0})
                 .Bytes({11, 0, 0, 14, 6, 0, 1, 1, 0, 0, 0, 0, 0, 0})
                 .text());
  // Op 20: a notice, with a deadline, a node that leaves and a check request.
  corpus.Add("agent", "drained",
             Script()
                 .Bytes({19, 0, 0, 20, 7, 2, 0})
                 .Text("b leaves")
                 .Bytes({11, 30})
                 .Text("b")
                 .Bytes({9, 14, 18, 0xFF})
                 .text());
  corpus.Add(
      "agent", "lingers",
      Script().Bytes({19, 0, 0, 8, 3}).Text("rank 1").Bytes({2, 60}).text());
  v1::DaemonMessage message;
  message.mutable_proposal()->set_generation(3);
  message.mutable_proposal()->set_compression(v1::COMPRESSION_ZLIB);
  message.mutable_proposal()->set_world_bytes(9);
  message.mutable_proposal()->set_world("x\x9c");
  corpus.Add("agent", "bytes",
             Script()
                 .Bytes({0, 3, 5, 2, 10, 15, 2})
                 .Text(message.SerializeAsString())
                 .text());
}

void ProbeCalls(Corpus& corpus) {
  const auto hears = [](int what) { return Script().Bytes({0, what}); };
  corpus.Add("probe", "asks", hears(0).Text("").Bytes({24}).text());
  corpus.Add(
      "probe", "asks_in_pieces",
      hears(0).Text("rollcall").Text("qqqqqqqq").Text("qqqqqqqq").text());
  corpus.Add("probe", "asks_and_goes_on",
             hears(0).Text("").Bytes({24}).Text("more").text());
  corpus.Add("probe", "asks_something_else",
             hears(0).Text("GET / HTTP/1.1\r\nHost: a\r\n\r\n").text());
  corpus.Add("probe", "closes", hears(0).Text("roll").Text("").text());
  corpus.Add("probe", "no_round", hears(1).Text("").Text("rollcall").text());
  corpus.Add("probe", "answers",
             hears(2).Text("aaaaaaaa").Text("aaaaaaaaa").text());
  const auto names = [](std::string_view text) {
    return Script().Bytes({1, 80}).Raw(text).text();
  };
  corpus.Add("probe", "ipv4", names("10.7.0.1"));
  corpus.Add("probe", "ipv6", names("2001:db8::7"));
  corpus.Add("probe", "ipv6_mapped", names("::ffff:10.7.0.1"));
  corpus.Add("probe", "zone", names("fe80::1%eth0"));
  corpus.Add("probe", "nul", names(std::string_view("10.7.0.1\0x", 10)));
  corpus.Add("probe", "port", Script().Bytes({1, 0xFA}).Raw("10.7.0.1").text());
}

}  // namespace rollcall
