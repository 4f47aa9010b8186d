#include "daemon/core/network_plan/probing/slow_paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/durations.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr double kNever = -1;

std::string Draw(uint64_t round, const std::string& word) {
  std::string secret = absl::StrCat(round, "/", word);
  secret.resize(Limits::probe_bytes, 'x');
  return secret;
}

std::string AddressOf(size_t i) { return absl::StrCat("10.0.0.", i + 1); }

// A world of nodes a, b, c... that probe each other in rounds.
class World {
 public:
  explicit World(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      v1::Member& member = *world_.add_members();
      member.set_node(std::string(1, static_cast<char>('a' + i)));
      member.set_address(AddressOf(i));
      nodes_.push_back({member.node(), 1, {AddressOf(i)}, 40000});
    }
  }

  // A path takes the milliseconds of that one of its two nodes that has more;
  // kNever: it is not reached. `silent`: this node does not answer.
  void Round(bool slow, const std::vector<double>& ms, size_t silent = 99) {
    now_ += absl::Seconds(10);
    const auto asked = probing_.Begin(nodes_, Draw, now_, absl::Seconds(2),
                                      Probing::Pairs::kAll);
    std::map<std::string, const v1::Probe*> probes;
    for (const auto& [name, probe] : asked) probes[name] = &probe;
    for (const auto& [name, probe] : asked) {
      const size_t from = name[0] - 'a';
      if (from == silent) continue;
      v1::Probed probed;
      probed.set_probe(probe.probe());
      for (const v1::ProbeTarget& target : probe.targets()) {
        const size_t to = target.node()[0] - 'a';
        v1::ProbeResult& result = *probed.add_results();
        result.set_node(target.node());
        result.set_address(AddressOf(to));
        if (ms[from] == kNever || ms[to] == kNever) continue;
        result.set_answer(AnswerAt(*probes.at(target.node()), AddressOf(to)));
        ToProto(absl::Milliseconds(std::max(ms[from], ms[to])),
                result.mutable_round_trip());
      }
      probing_.Take(name, probed, now_);
    }
    paths_.Take(world_, probing_, slow);
  }

  void TakeAgain(bool slow) { paths_.Take(world_, probing_, slow); }
  void SetOneMachine() { world_.set_one_machine(true); }

  std::string Named() const {
    std::vector<std::string> names;
    for (const auto& [node, text] : paths_.Named()) names.push_back(node);
    return absl::StrJoin(names, ",");
  }
  std::string Text() const { return paths_.Named().at(0).second; }

 private:
  v1::World world_;
  std::vector<ProbeNode> nodes_;
  Probing probing_;
  SlowPaths paths_;
  absl::Time now_ = absl::UnixEpoch();
};

TEST(SlowPaths, ANodeWithEachPathFarSlowerIsNamed) {
  struct Row {
    const char* what;
    std::vector<double> before;
    std::vector<std::vector<double>> slow;
    const char* named;
  };
  const std::vector<Row> rows = {
      {"one of three", {.3, .3, .3}, {{.3, .3, 90}, {.3, .3, 80}}, "c"},
      {"two of six",
       {.3, .3, .3, .3, .3, .3},
       {{9, .3, .3, .3, .3, 9}, {9, .3, .3, .3, .3, 9}},
       "a,f"},
      {"one round is not enough", {.3, .3, .3}, {{.3, .3, 90}}, ""},
      {"nor are half of them",
       {.3, .3, .3},
       {{.3, .3, 90}, {.3, .3, .3}, {.3, .3, .3}, {.3, .3, 90}},
       ""},
      {"more than half",
       {.3, .3, .3},
       {{.3, .3, 90}, {.3, .3, .3}, {.3, .3, 90}},
       "c"},
      {"less than five times", {1, 1, 1}, {{1, 1, 4.9}, {1, 1, 4.9}}, ""},
      {"five times", {1, 1, 1}, {{1, 1, 5}, {1, 1, 5}}, "c"},
      {"less than a millisecond more",
       {.1, .1, .1},
       {{.1, .1, 1}, {.1, .1, 1}},
       ""},
      {"always far away", {.3, .3, 60}, {{.3, .3, 70}, {.3, .3, 70}}, ""},
      {"all became slow", {.3, .3, .3}, {{70, 60, 90}, {80, 90, 70}}, ""},
      {"not reached any more",
       {.3, .3, .3},
       {{.3, .3, kNever}, {.3, .3, kNever}},
       "c"},
      {"nobody is reached",
       {.3, .3, .3},
       {{kNever, kNever, kNever}, {kNever, kNever, kNever}},
       ""},
      {"of two nodes, either could be it", {.3, .3}, {{.3, 90}, {.3, 90}}, ""},
      {"nothing is known from before", {}, {{.3, .3, 90}, {.3, .3, 90}}, "c"},
  };
  for (const Row& row : rows) {
    World world(row.slow.front().size());
    if (!row.before.empty()) world.Round(false, row.before);
    for (const std::vector<double>& ms : row.slow) world.Round(true, ms);
    EXPECT_EQ(world.Named(), row.named) << row.what;
  }
}

TEST(SlowPaths, TheTextHasTheLatestRound) {
  World world(3);
  world.Round(true, {.3, .3, 90});
  world.Round(true, {.2, .3, 120.44});
  EXPECT_EQ(world.Text(),
            "round trips of 120.4 ms or more, median of the other nodes "
            "0.3 ms");
  world.Round(true, {.2, .3, kNever});
  EXPECT_EQ(world.Text(), "not reached by the other nodes");
}

TEST(SlowPaths, ARoundIsTakenOnce) {
  World world(3);
  world.Round(true, {.3, .3, 90});
  world.TakeAgain(true);
  EXPECT_EQ(world.Named(), "");
}

TEST(SlowPaths, APeriodThatHasEndedIsForgotten) {
  World world(3);
  world.Round(true, {.3, .3, 90});
  world.Round(true, {.3, .3, 90});
  world.TakeAgain(false);
  EXPECT_EQ(world.Named(), "");
  world.Round(true, {.3, 90, .3});
  world.Round(true, {.3, 90, .3});
  EXPECT_EQ(world.Named(), "b");
}

// What the others found of it counts.
TEST(SlowPaths, ANodeThatDoesNotAnswerIsNamedByTheOthers) {
  World world(4);
  world.Round(true, {.3, .3, .3, 90}, /*silent=*/3);
  world.Round(true, {.3, .3, .3, 90}, /*silent=*/3);
  EXPECT_EQ(world.Named(), "d");
}

TEST(SlowPaths, OnOneMachineNoPathIsProbed) {
  World world(3);
  world.SetOneMachine();
  world.Round(true, {.3, .3, 90});
  world.Round(true, {.3, .3, 90});
  EXPECT_EQ(world.Named(), "");
}

}  // namespace
}  // namespace rollcall
