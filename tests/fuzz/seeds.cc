// seeds CORPUS: writes the inputs that fuzzing starts from, CORPUS/TARGET/NAME.
//
// Each is something that happens: a world that forms, a journal of a run, a
// block in a hosts file, a command line. What a fuzzer finds from there is
// merged beside them under a name of its own (scripts/fuzz.sh --merge).
#include <sys/stat.h>

#include <cstdio>
#include <initializer_list>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "daemon/core/formation/world.h"
#include "daemon/security/authority.h"
#include "daemon/security/join_string.h"
#include "daemon/security/shared_secret.h"
#include "rollcall/v1/journal.pb.h"
#include "tests/fuzz/job_script.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/train_state.h"

namespace rollcall {
namespace {

constexpr char kSecret[] = "00112233445566778899aabbccddeeff";

// The inverse of Feed.
class Script {
 public:
  Script& Bytes(std::initializer_list<int> bytes) {
    for (const int byte : bytes) text_ += static_cast<char>(byte);
    return *this;
  }
  Script& Text(std::string_view text) {
    text_ += static_cast<char>(text.size() >> 8);
    text_ += static_cast<char>(text.size() & 0xFF);
    text_ += text;
    return *this;
  }
  Script& Do(JobOp op, std::initializer_list<int> bytes = {}) {
    return Bytes({static_cast<int>(op)}).Bytes(bytes);
  }
  Script& Raw(std::string_view text) {
    text_ += text;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Corpus {
 public:
  explicit Corpus(std::string folder) : folder_(std::move(folder)) {}

  void Add(const std::string& target, const std::string& name,
           const std::string& bytes) {
    const std::string folder = absl::StrCat(folder_, "/", target);
    mkdir(folder.c_str(), 0755);
    const std::string path = absl::StrCat(folder, "/", name);
    FILE* file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) {
      std::perror(path.c_str());
      failed_ = true;
      return;
    }
    failed_ |= std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size();
    failed_ |= std::fclose(file) != 0;
  }
  bool failed() const { return failed_; }

 private:
  const std::string folder_;
  bool failed_ = false;
};

// --- Jobs --------------------------------------------------------------------

// Two nodes, both prepared: generation 1 runs.
Script Running() {
  Script script;
  script.Bytes({1, 0, 3});  // 2:2 nodes, 3 restarts.
  script.Do(JobOp::kHello, {0, 0}).Do(JobOp::kHello, {1, 0});
  return script.Do(JobOp::kPreparedAll);
}

// Nodes that try to reach each other before a world is formed.
void Probes(Corpus& corpus) {
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

// What changes a world that runs, and a run that is not known.
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
  // 1:2 nodes: the third is a spare, and takes the seat.
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
  Probes(corpus);
  v1::Hello hello;
  hello.set_job("demo");
  hello.set_node("raw");
  hello.set_incarnation(9);
  hello.set_ranks(1);
  hello.set_generation_seen(4);
  hello.mutable_token()->set_id("abc123");
  hello.mutable_token()->set_secret("0123456789abcdef");
  hello.mutable_facts()->set_hostname("raw");
  hello.mutable_held()->set_proof("proof");
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

// --- Connections between probers --------------------------------------------

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

void Journals(Corpus& corpus) {
  // run's numbers, settings, a world of two rows.
  const auto world = [](int seat, int ranks) {
    Script script;
    script.Bytes({5, 1, 1, 1, 0, 3, 1, 1, 2});
    script.Text("a").Bytes({0, 1, 1});
    script.Text("b").Bytes({seat, ranks, 1});
    return script;
  };
  v1::Seal seal;
  seal.set_generation(5);
  seal.set_master_address("10.7.0.1");
  seal.set_master_port(23456);
  const std::string sealed = seal.SerializeAsString();
  corpus.Add("restore", "runs",
             world(1, 1)
                 .Bytes({1})
                 .Text(sealed)
                 .Bytes({0})
                 .Do(JobOp::kHello, {0, 16 + 32, 0, 0, 0})
                 .Do(JobOp::kHello, {1, 16 + 32, 0, 0, 0})
                 .Do(JobOp::kWait, {0xFF})
                 .Do(JobOp::kWait, {0xFF})
                 .text());
  corpus.Add("restore", "drains",
             world(1, 1)
                 .Bytes({1})
                 .Text(sealed)
                 .Bytes({2, 7, 2})
                 .Text("b")
                 .Text("gone")
                 .Bytes({1, 75})
                 .Text("b leaves")
                 .Do(JobOp::kHello, {0, 16 + 32, 0, 0, 0})
                 .Do(JobOp::kHello, {1, 16 + 32, 0, 0, 0})
                 .Do(JobOp::kNoticeSeenAll)
                 .text());
  corpus.Add("restore", "absurd_notice",
             world(1, 1)
                 .Bytes({1})
                 .Text(sealed)
                 .Bytes({2, 0xFE, 0, 1, 0xFA})
                 .Text("\x1b[31m")
                 .Do(JobOp::kWait, {0xFF})
                 .text());
  corpus.Add("restore", "prepares",
             world(1, 1).Bytes({0, 0}).Do(JobOp::kWait, {0xFF}).text());
  corpus.Add("restore", "seat_beyond",
             world(9, 1)
                 .Bytes({0, 0})
                 .Do(JobOp::kHello, {0, 16})
                 .Do(JobOp::kHello, {1, 16})
                 .text());
  corpus.Add("restore", "same_seat", world(0, 1).Bytes({0, 0}).text());
  corpus.Add("restore", "many_ranks",
             world(1, 0xFA).Bytes({1}).Text(sealed).Bytes({0}).text());
  corpus.Add("restore", "gathers",
             Script()
                 .Bytes({0xFE, 0, 1, 1, 0, 3, 0, 0, 0, 0})
                 .Do(JobOp::kHello, {0, 0})
                 .Do(JobOp::kHello, {1, 0})
                 .text());
}

// --- Agents ------------------------------------------------------------------

void Agents(Corpus& corpus) {
  // Op 19: the whole way to a world that runs; see agent_fuzz.cc.
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
  // Ranks whose sum begins anew at 0.
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

// --- Texts -------------------------------------------------------------------

void Doors(Corpus& corpus) {
  v1::JoinString join;
  join.add_endpoints("node-1.example:29400");
  join.add_endpoints("[fd77::1]:29400");
  join.set_job("demo");
  join.set_ca_pin(std::string(32, 'p'));
  join.mutable_token()->set_id("abc123");
  join.mutable_token()->set_secret("0123456789abcdef");
  const auto add = [&](const std::string& name, int kind,
                       const std::string& text) {
    corpus.Add("join", name, Script().Bytes({kind}).Raw(text).text());
  };
  add("string", 0, EncodeJoinString(join));
  add("older", 0, "rc0.AAAA");
  add("bytes", 1, join.SerializeAsString());
  add("fields", 2, std::string("\1\0\0\0\0", 5));
  add("token", 3, "abc123.00ff10");
  add("endpoint", 4, "[fd77::1]:29400");
  add("name", 5, "node-1.example");
  add("address", 5, "fd77::10.7.0.1");
  v1::Refusal refusal;
  refusal.set_code(v1::REFUSAL_CODE_LOST);
  refusal.set_text("given up");
  add("details", 6, refusal.SerializeAsString());
}

void Secrets(Corpus& corpus) {
  const Authority authority =
      *Authority::FromSecret(*SharedSecret::Parse(kSecret));
  const auto add = [&](const std::string& name, int kind,
                       const std::string& text) {
    corpus.Add("secrets", name, Script().Bytes({kind}).Raw(text).text());
  };
  add("chain", 0, authority.certificate());
  add("issued", 1, std::string(1, '\0'));
  add("changed", 1, std::string("\1\1\0\1x", 5));
  add("key", 2, authority.KeyPem());
  add("secret", 3, kSecret);
  add("secret64", 3, "AAECAwQFBgcICQoLDA0ODw==");
  add("role", 4, "viewer");
  add("ca", 5, authority.certificate());
  add("stolen", 6, std::string(1, '\0'));
  add("credential", 7, std::string("\0\4demo\0\1r\0\1a\7\0\1c", 15));
}

void HostsFiles(Corpus& corpus) {
  // A world of two rows, then who lives, then the file.
  const std::string world("\3\0\2\0\0\0\0\0\1\0", 10);
  corpus.Add("hosts", "plain",
             world + std::string("\0", 1) + "127.0.0.1 localhost\n::1 ip6\n");
  corpus.Add("hosts", "block",
             world + std::string("\0", 1) +
                 "# rollcall begin job=train run=5f0c generation=1 size=9\n"
                 "# rollcall owner pid=1 start=5 boot=boot pidns=6 node=a\n"
                 "10.0.0.1 n1 node-1.train.rollcall\n"
                 "# rollcall end job=train run=5f0c\n10.9.9.9 elsewhere");
  corpus.Add("hosts", "cut",
             world + std::string("\0", 1) +
                 "# rollcall begin job=train run=5f0c generation=9 size=99\n"
                 "10.0.0.1 n1 node-1.train.rollcall\n10.0.0.");
  corpus.Add("hosts", "parts",
             world + std::string("\4\0\1\2\3\0\1\1\2\1\0\3\1", 13));
  corpus.Add("hosts", "zero_byte",
             Script()
                 .Bytes({3, 0, 1, 0, 1})
                 .Text(std::string_view("10.0.0.1\0\n6.6.6.6 evil", 22))
                 .Bytes({0, 0, 0, 0})
                 .text());
  corpus.Add("hosts", "odd_names",
             std::string("\3\1\2\1\0\11localhost\1\0\10fd77::1\n\1\0", 27));
}

void CommandLines(Corpus& corpus) {
  const auto add = [&](const std::string& name, std::string words, int kind) {
    for (char& c : words) {
      if (c == ' ') c = '\0';
    }
    corpus.Add("flags", name, Script().Bytes({kind}).Raw(words).text());
  };
  add("launch", "launch --nodes 2:4 --max-restarts 1 --grow never -- a [1,2]",
      0);
  add("join", "join rc1.AAAA --name n1 --nproc_per_node=2 -- x", 0);
  add("endpoint", "join --endpoint h:1 --job d --join-timeout 1h30m -- x", 0);
  add("status", "status --job demo --json --watch", 0);
  add("stop", "stop --exit-code 3 --now", 0);
  add("daemon", "daemon --job d --ready-fd 3 --settings {}", 0);
  add("wrong", "lanch --nodse 2", 0);
  add("help", "launch --help", 0);
  add("nodes", "2:16384", 0xC0);
  add("too_many_nodes", "1:16385", 0xC0);
  add("duration", "1h30m", 0xC0);
}

void Files(Corpus& corpus) {
  const auto add = [&](const std::string& name, int kind,
                       const std::string& text) {
    corpus.Add("texts", name, Script().Bytes({kind}).Raw(text).text());
  };
  add("error_file", 0, R"({"message": {"message": "out of memory"}})");
  add("permanent", 0, R"({"message": "no IB", "permanent": true})");
  add("thresholds", 0,
      R"({"require-net": "ib", "min-busbw": 20, "max-latency": 9.5})");
  add("long_message", 0,
      absl::StrCat(R"({"message": ")", std::string(4200, 'x'), R"("})"));
  add("minted", 1,
      absl::StrCat("version 22809\n", std::string(256, 'a'), "\nend\n"));
  add("settings", 2, R"({"nodesMin": 2, "nodesMax": 4, "lease": "5s"})");
  // A link, an address and a default route of rtnetlink, and their end.
  add("netlink", 3,
      Script()
          .Text(absl::HexStringToBytes(
              "4400000010000200010000000000000000000100020000004310000000000000"
              "09000300657468300000000008000400dc050000100012800900010076657468"
              "0000000028000000140002000100000000000000021800000200000008000100"
              "0a000001080002000a0000013000000018000200010000000000000002000000"
              "fe0300010000000008000400020000000c000900080000000200000014000000"
              "03000200010000000000000000000000"))
          .Raw("0,1")
          .text());
  add("cgroups", 3,
      Script()
          .Text("30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
          .Raw("0::/user.slice\n")
          .text());
  add("output", 4,
      Script()
          .Bytes({1})
          .Text("10%\r20%\r30%\nTrace")
          .Bytes({200})
          .Text("x")
          .text());
  add("odd_daemon_file", 7,
      R"({"job":1,"endpoint":[],"daemon_pid":1,"join":null})");
  v1::JobStatus status;
  status.set_job("demo");
  status.set_state(v1::JOB_STATE_RUNNING);
  status.add_nodes()->set_node("a");
  status.mutable_last_reform()->set_generation(2);
  status.mutable_root_cause()->set_value(11);
  add("place", 8, "etcd://node-1:2379,[fd77::1]/team-a");
  add("place_bare", 8, "etcd://10.0.0.1");
  v1::RunRecord record;
  record.set_run("0badcafe");
  record.set_generation(3);
  record.mutable_settings()->set_nodes_min(2);
  record.mutable_leaving()->add_nodes("b");
  record.mutable_written_at()->set_seconds(1);
  add("run", 10, record.SerializeAsString());
  v1::PackedRecord packed;
  packed.set_packed("x\x9c\x03");
  packed.set_bytes(9);
  add("damaged_run", 9, packed.SerializeAsString());
  add("launch_record", 7,
      R"({"version":1,"job":"d","settings":{"nodesMin":2},"listen":"h:0",)"
      R"("wire":"tls","node":"a","local_workers":1,"agent_flags":["--x"],)"
      R"("command_sha256":"00","ephemeral":false,"port":1,"boot_id":"b",)"
      R"("daemon":{"pid":1,"start":2},"agents":[{"name":"a","own":true,)"
      R"("process":{"pid":3,"start":4}}]})");
  add("status", 5, status.SerializeAsString());
  add("printable", 6, "caf\xC3\xA9 \x1B[31m\xFF\n");
  add("daemon_file", 7,
      R"({"job":"d","endpoint":"h:1","daemon_pid":1,"join":"rc1.A"})");
}

// A data file's first words, each of 32 bits with the lowest byte first.
std::string ShardHead(std::initializer_list<uint32_t> words, size_t bytes) {
  std::string head;
  for (const uint32_t word : words) {
    for (int i = 0; i < 4; ++i) head += static_cast<char>(word >> (8 * i));
  }
  head.resize(bytes);
  return head;
}

void Checkpoints(Corpus& corpus) {
  const auto add = [&](const std::string& name,
                       std::initializer_list<int> bytes,
                       const std::string& text) {
    corpus.Add("checkpoint", name, Script().Bytes(bytes).Raw(text).text());
  };
  const std::string tensors =
      FormatSafeTensors({{"wte.weight", "F32", {2, 3}, 0, 24},
                         {"empty", "BF16", {0, 7}, 24, 24},
                         {"h.0.ln_1.bias", "F32", {}, 24, 28}});
  add("header", {0, 28}, tensors.substr(8));
  add("header_short", {0, 27}, tensors.substr(8));
  add("header_twice", {0, 8},
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})");
  add("header_huge", {0, 0xFE},
      R"({"a":{"dtype":"U8","shape":[18446744073709551615],)"
      R"("data_offsets":[0,18446744073709551615]}})");
  add("header_overflow", {0, 0},
      R"({"a":{"dtype":"F64","shape":[2305843009213693952],)"
      R"("data_offsets":[0,0]}})");
  add("header_deep", {0, 0}, std::string(64, '['));
  add("tensor_file", {1, 28}, tensors);
  add("tensor_file_cut", {1, 0}, tensors);
  corpus.Add("checkpoint", "tensors",
             Script()
                 .Bytes({2})
                 .Text("h.0.attn.c_attn.weight")
                 .Bytes({0, 2, 4, 12})
                 .Text("none")
                 .Bytes({1, 1, 0})
                 .Text("\"\\caf\xC3\xA9")
                 .Bytes({0, 0})
                 .text());
  Manifest manifest;
  manifest.step = 100;
  for (const char* name : {"model.safetensors", "trainer_state.json"}) {
    manifest.files.push_back({name, 28, std::string(64, 'a')});
  }
  const std::string manifest_text = FormatManifest(manifest);
  add("manifest", {3}, manifest_text);
  add("manifest_newer", {3},
      absl::StrReplaceAll(manifest_text,
                          {{"\"version\": 1", "\"version\": 2"}}));
  add("manifest_elsewhere", {3},
      absl::StrReplaceAll(manifest_text, {{"model", "../model"}}));
  TrainState state;
  state.step = 100;
  state.loss = 1.0 / 3;
  state.backend = "cpu";
  add("state", {4}, FormatTrainState(state));
  add("state_heads", {4},
      absl::StrReplaceAll(FormatTrainState(state),
                          {{"\"heads\": ", "\"heads\": 3"}}));
  add("name", {5}, "step-00000100");
  add("name_partial", {5}, "step-123456789.partial");
  add("shard", {6, 1, 4}, ShardHead({20240520, 1, 2}, 1024));
  add("shard_short", {6, 1, 0}, ShardHead({20240520, 1, 2}, 1000));
  add("shard_negative", {6, 0, 0}, ShardHead({20240520, 1, ~0u}, 1024));
  add("shard_llama", {6, 0, 0}, ShardHead({20240801, 7, 9}, 1024));
  add("bytes", {6, 0, 9}, "To be, or not to be");
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "fuzz_seeds: expected the corpus's folder\n");
    return 2;
  }
  mkdir(argv[1], 0755);
  rollcall::Corpus corpus(argv[1]);
  rollcall::Jobs(corpus);
  rollcall::ProbeCalls(corpus);
  rollcall::Journals(corpus);
  rollcall::Agents(corpus);
  rollcall::Doors(corpus);
  rollcall::Secrets(corpus);
  rollcall::HostsFiles(corpus);
  rollcall::CommandLines(corpus);
  rollcall::Files(corpus);
  rollcall::Checkpoints(corpus);
  return corpus.failed() ? 1 : 0;
}
