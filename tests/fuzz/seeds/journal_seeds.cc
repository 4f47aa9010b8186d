// Journals that a daemon restores from.
#include <string>

#include "rollcall/v1/membership.pb.h"
#include "tests/fuzz/seeds/seeds.h"

namespace rollcall {

void Journals(Corpus& corpus) {
  // The run's numbers, its settings, and a world of two rows.
  const auto world = [](int seat, int ranks) {
    Script script;
    script.Bytes({5, 1, 1, 1, 0, 3, 1, 1, 2});
    script.Text("a").Bytes({0, 1, 1});
    script.Text("b").Bytes({seat, ranks, 1});
    return script;
  };
  v1::WorldCommit world_commit;
  world_commit.set_generation(5);
  world_commit.set_master_address("10.7.0.1");
  world_commit.set_master_port(23456);
  const std::string sealed = world_commit.SerializeAsString();
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

}  // namespace rollcall
