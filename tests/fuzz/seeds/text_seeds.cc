// Hosts files, command lines, and other small files.
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/hex.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/journal.pb.h"
#include "tests/fuzz/seeds/seeds.h"

namespace rollcall {

void HostsFiles(Corpus& corpus) {
  // A world of two rows, then which agents are alive, then the file.
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
  add("ras", 2,
      R"({"communicators":[{"hash":"0x1","size":3,"ranks":[{"rank":0,)"
      R"("host":"10.0.0.1","pid":7,"cuda_dev":0,"collective_counts":)"
      R"({"Broadcast":1,"AllReduce":4}},{"rank":1,"host":"::1","pid":8,)"
      R"("collective_counts":{"AllReduce":6}}],"missing_ranks":[{"rank":2,)"
      R"("host":"10.0.0.2","pid":9,"unresponsive":true}]}]})");
  // A link, an address and a default route from rtnetlink, and the end message.
  add("netlink", 3,
      Script()
          .Text(FromHex(
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

}  // namespace rollcall
