// Jobs that agents attend, and what changes them.
#include <string>

#include "rollcall/v1/membership.pb.h"
#include "tests/fuzz/seeds/seeds.h"

namespace rollcall {
namespace {

// Two nodes, both prepared: generation 1 runs.
Script Running() {
  Script script;
  script.Bytes({1, 0, 3});  // 2:2 nodes, 3 restarts.
  script.Do(JobOp::kHello, {0, 0}).Do(JobOp::kHello, {1, 0});
  return script.Do(JobOp::kPreparedAll);
}

// Nodes that try to reach each other before a world is formed.
void ProbedWorlds(Corpus& corpus) {
  const auto probing = [](int nodes) {
    Script script;
    script.Bytes({nodes - 1, 0, 3});
    for (int i = 0; i < nodes; ++i) script.Do(JobOp::kProbedHello, {i, 0});
    return script.Do(JobOp::kWait, {0xFF});
  };
  corpus.Add("job", "probed",
             probing(2).Do(JobOp::kProbedAll).Do(JobOp::kPreparedAll).text());
  // No prober reaches the third node, which then answers late.
  corpus.Add("job", "probed_late",
             probing(3)
                 .Do(JobOp::kProbed, {0, 0, 0, 2})
                 .Text("connection refused")
                 .Do(JobOp::kProbed, {1, 0, 0, 1})
                 .Text("not the answer")
                 .Do(JobOp::kWait, {0xFF})
                 .Do(JobOp::kProbed, {2, 0, 3, 3})
                 .Do(JobOp::kWait, {0xFF})
                 .Do(JobOp::kProbedAll)
                 .Do(JobOp::kWait, {0xFF})
                 .Do(JobOp::kPreparedAll)
                 .text());
  // Reports of another round, of nodes that were not asked for, and of a node
  // that comes back meanwhile.
  corpus.Add("job", "probed_oddly",
             probing(2)
                 .Do(JobOp::kProbed, {0, 3, 0xFE, 0, 1, 1, 0})
                 .Text("10.7.0.300")
                 .Text("x")
                 .Bytes({0xFE})
                 .Do(JobOp::kClosed, {1})
                 .Do(JobOp::kProbedHello, {1, 1})
                 .Do(JobOp::kWait, {0xFF})
                 .Do(JobOp::kProbedAll)
                 .Do(JobOp::kRestart)
                 .Do(JobOp::kProbedHello, {0, 16})
                 .Do(JobOp::kProbedHello, {1, 17})
                 .Do(JobOp::kProbedAll)
                 .Do(JobOp::kPreparedAll)
                 .text());
}

// Events that change a running world, and Hellos of a run that is not known.
void Changes(Corpus& corpus) {
  corpus.Add("job", "drained",
             Running()
                 .Do(JobOp::kDrain, {1, 0xFF})
                 .Text("maintenance")
                 .Do(JobOp::kNoticeSeen, {0, 0, 0})
                 .Do(JobOp::kNoticeSeen, {1, 0, 0})
                 .Do(JobOp::kStopped, {1, 0})
                 .Do(JobOp::kClosed, {1})
                 .text());
  // 1:2 nodes: the third is a spare, and takes the seat of the first.
  corpus.Add("job", "spare_takes_the_seat",
             Script()
                 .Bytes({0, 1, 3})
                 .Do(JobOp::kHello, {0, 0})
                 .Do(JobOp::kHello, {1, 0})
                 .Do(JobOp::kPreparedAll)
                 .Do(JobOp::kHello, {2, 0})
                 .Do(JobOp::kDrain, {0, 20})
                 .Text("")
                 .Do(JobOp::kWait, {0xFF})
                 .Do(JobOp::kPreparedAll)
                 .text());
  corpus.Add("job", "grows",
             Script()
                 .Bytes({0, 2, 3})
                 .Do(JobOp::kHello, {0, 0})
                 .Do(JobOp::kWait, {0xFF})
                 .Do(JobOp::kPreparedAll)
                 .Do(JobOp::kHello, {1, 0})
                 .Do(JobOp::kWait, {0xFF})
                 .Do(JobOp::kNoticeSeenAll)
                 .Do(JobOp::kPreparedStates, {0, 1, 0, 40, 1})
                 .Do(JobOp::kPreparedStates, {1, 0})
                 .text());
  corpus.Add("job", "stops_at_the_boundary",
             Running()
                 .Do(JobOp::kStop, {75, 0})
                 .Text("asked")
                 .Do(JobOp::kExited, {0, 0, 0, 0x41})
                 .Do(JobOp::kRestart)
                 .Do(JobOp::kHello, {0, 16 + 32, 0, 0, 0})
                 .Do(JobOp::kHello, {1, 16 + 32, 0, 0, 0})
                 .Do(JobOp::kNoticeSeenAll)
                 .text());
  // The second node's rank fails between two changes of its facts.
  corpus.Add("job", "facts_change",
             Running()
                 .Do(JobOp::kFactChange, {1, 1, 1})
                 .Text("interface eth1")
                 .Text("up")
                 .Text("down")
                 .Bytes({40})
                 .Do(JobOp::kExited, {1, 0, 0, 0x41})
                 .Do(JobOp::kFactChange, {1, 4, 1})
                 .Text("GPU 3 Xid 79")
                 .Text("")
                 .Text("occurred")
                 .Bytes({0})
                 .Do(JobOp::kPreparedAll)
                 .text());
  corpus.Add("job", "fails_when_stopped",
             Running()
                 .Do(JobOp::kStop, {75, 0})
                 .Text("asked")
                 .Do(JobOp::kExited, {0, 0, 0, 3})
                 .text());
  corpus.Add("job", "claims_are_awaited",
             Script()
                 .Bytes({1, 1, 0})
                 .Do(JobOp::kHello, {3, 0})
                 .Do(JobOp::kHello, {4, 0})
                 .Do(JobOp::kClaim, {0, 1 + 16 + 32})
                 .Do(JobOp::kWait, {12})
                 .Do(JobOp::kTick, {0, 0})
                 .text());
  corpus.Add("job", "checks_fail",
             Running()
                 .Do(JobOp::kExited, {0, 0, 0, 3})
                 .Do(JobOp::kCheckReport, {0, 0, 1, 4})
                 .Text("no space left")
                 .text());
  corpus.Add("job", "lingers",
             Script()
                 .Bytes({3, 0, 0})
                 .Do(JobOp::kHello, {0, 0})
                 .Do(JobOp::kPreparedAll)
                 .Do(JobOp::kExited, {0, 0, 0, 3})
                 .Do(JobOp::kWait, {0xFF})
                 .Do(JobOp::kWait, {0xFF})
                 .text());
  corpus.Add("job", "adopts",
             Script()
                 .Bytes({1, 0, 3})
                 .Do(JobOp::kHello, {3, 0})
                 .Do(JobOp::kClaim, {0, 1 + 16 + 32})
                 .Do(JobOp::kClaim, {1, 1 + 16 + 32})
                 .Do(JobOp::kExited, {0, 0, 0, 3})
                 .Do(JobOp::kRestart)
                 .text());
  corpus.Add("job", "claims_in_vain",
             Script()
                 .Bytes({1, 0, 3})
                 .Do(JobOp::kHello, {3, 0})
                 .Do(JobOp::kClaim, {0, 1 + 16 + 32})
                 .Do(JobOp::kClaim, {2, 1 + 32})
                 .Do(JobOp::kStop, {3, 1})
                 .Text("")
                 .Do(JobOp::kClaim, {1, 1 + 16 + 32})
                 .text());
}

}  // namespace

void Jobs(Corpus& corpus) {
  corpus.Add("job", "finishes",
             Running()
                 .Do(JobOp::kBeat, {0, 5})
                 .Do(JobOp::kExited, {0, 0, 0, 0x42})
                 .Do(JobOp::kExited, {1, 0, 0, 0x42})
                 .Do(JobOp::kEndSeen, {0, 0})
                 .Do(JobOp::kEndSeen, {1, 0})
                 .text());
  corpus.Add("job", "rank_fails",
             Running()
                 .Do(JobOp::kExited, {0, 0, 0, 3})
                 .Do(JobOp::kStopped, {0, 0})
                 .Do(JobOp::kStopped, {1, 0})
                 .Do(JobOp::kPreparedAll)
                 .Do(JobOp::kExited, {1, 0, 0, 0x8B})
                 .text());
  corpus.Add("job", "node_lost",
             Running()
                 .Do(JobOp::kClosed, {1})
                 .Do(JobOp::kWait, {0x81})
                 .Do(JobOp::kHello, {1, 1})
                 .Do(JobOp::kPreparedAll)
                 .text());
  corpus.Add(
      "job", "lease_ends",
      Running().Do(JobOp::kWait, {0x80}).Do(JobOp::kWait, {0xFF}).text());
  corpus.Add("job", "restarts",
             Running()
                 .Do(JobOp::kRestart)
                 .Do(JobOp::kHello, {0, 16 + 32, 0, 0, 0})
                 .Do(JobOp::kHello, {1, 16 + 32, 0, 0, 0})
                 .Do(JobOp::kWait, {0xFF})
                 .text());
  corpus.Add("job", "leaves",
             Running()
                 .Do(JobOp::kLeaving, {1})
                 .Text("signal 15")
                 .Do(JobOp::kStopped, {1, 0})
                 .Do(JobOp::kClosed, {1})
                 .text());
  corpus.Add("job", "exchanges",
             Running()
                 .Do(JobOp::kExchange, {0, 0, 7, 1, 'x'})
                 .Do(JobOp::kExchange, {1, 0, 7, 1, 'y'})
                 .Do(JobOp::kStop, {143, 1})
                 .Text("asked")
                 .text());
  corpus.Add("job", "refuses",
             Running()
                 .Do(JobOp::kHello, {2, 0})
                 .Do(JobOp::kRefused, {0, 0})
                 .Text("no free port")
                 .Do(JobOp::kTick, {200, 10})
                 .text());
  Changes(corpus);
  ProbedWorlds(corpus);
  v1::Hello hello;
  hello.set_job("demo");
  hello.set_node("raw");
  hello.set_incarnation(9);
  hello.set_ranks(1);
  hello.set_generation_seen(4);
  hello.mutable_token()->set_id("abc123");
  hello.mutable_token()->set_secret("0123456789abcdef");
  hello.mutable_facts()->set_hostname("raw");
  hello.mutable_resume_state()->set_proof("proof");
  v1::AgentMessage message;
  v1::ProbeResult& result = *message.mutable_probed()->add_results();
  result.set_node("a");
  result.set_address("10.7.0.1");
  corpus.Add("job", "bytes",
             Running()
                 .Do(JobOp::kHelloBytes)
                 .Text(hello.SerializeAsString())
                 .Do(JobOp::kMessageBytes, {0})
                 .Text(message.SerializeAsString())
                 .text());
}

}  // namespace rollcall
