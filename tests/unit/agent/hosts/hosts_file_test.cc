#include "client/agent/hosts/hosts_file.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/agent/hosts/hosts_text.h"

namespace rollcall {
namespace {

const OwnerLives kAllLive = [](const HostsOwner&) { return true; };
const OwnerLives kNoneLives = [](const HostsOwner&) { return false; };

HostsOwner Owner(const std::string& node, int64_t pid = 100) {
  return {pid, 5, "boot", 7, node};
}

struct Row {
  std::string node;
  std::string address;
};

v1::World MakeWorld(const std::vector<Row>& rows, uint64_t generation = 1,
                    const std::string& job = "train",
                    const std::string& run = "r1") {
  v1::World world;
  world.set_job(job);
  world.set_run(run);
  world.set_generation(generation);
  for (const Row& row : rows) {
    auto& member = *world.add_members();
    member.set_node_rank(world.members_size() - 1);
    member.set_node(row.node);
    member.set_address(row.address);
    member.set_ranks(1);
  }
  world.set_world_size(world.members_size());
  return world;
}

// A resolver that knows none of the world's names.
HostsNames NoneFound(const v1::World& world) {
  HostsNames names;
  for (const std::string& name : NamesToAsk(world, {})) {
    names.answers[name] = {NameAnswer::Kind::kNotFound, {}};
  }
  return names;
}

// The lines of the first block that name members.
std::string Entries(const std::string& text) {
  const HostsText hosts = ParseHosts(text);
  return hosts.blocks.empty() ? "no block" : hosts.blocks.front().entries;
}

std::string Put(const std::string& text, const v1::World& world,
                const HostsOwner& owner = Owner("a"),
                const OwnerLives& lives = kAllLive,
                const std::string& hostname = "a") {
  return WriteHostsBlock(text, false, world, 0, hostname, NoneFound(world),
                         owner, lives)
      .text;
}

std::string Take(const std::string& text, const HostsOwner& owner = Owner("a"),
                 const OwnerLives& lives = kAllLive,
                 const std::string& run = "r1") {
  return RemoveHostsBlock(text, "train", run, owner, lives).text;
}

// --- The text ---------------------------------------------------------------

TEST(HostsText, TheBlockStandsFirstAndReadsAsDocumented) {
  EXPECT_EQ(Put("127.0.0.1 localhost\n",
                MakeWorld({{"a", "10.0.0.1"}, {"b", "fd00::2"}}, 3)),
            "# rollcall begin job=train run=r1 generation=3 size=123\n"
            "# rollcall owner pid=100 start=5 boot=boot pidns=7 node=a\n"
            "10.0.0.1 a node-0.train.rollcall\n"
            "fd00::2 b node-1.train.rollcall\n"
            "# rollcall end job=train run=r1\n"
            "127.0.0.1 localhost\n");
}

TEST(HostsText, EveryOtherByteIsKept) {
  const v1::World world = MakeWorld({{"a", "10.0.0.1"}, {"b", "10.0.0.2"}});
  const std::string kRests[] = {
      "",
      "\n",
      "127.0.0.1 localhost\n",
      "127.0.0.1 localhost",  // No newline at the end.
      "127.0.0.1 localhost\r\n10.9.9.9 x\r\n",
      "# a comment\n\n\n   \t\n::1 localhost ip6-localhost # why\n\n",
      std::string("127.0.0.1\0localhost\n\0\0", 22),
      "\xef\xbb\xbf"
      "127.0.0.1 localhost\n\xff\xfe",
      "# rollcall is nice\n# rollcall beginner\n#rollcall end\n",
      "# rollcall begin\n# rollcall owner pid=x\n",
      std::string(100000, 'x'),
  };
  for (const std::string& rest : kRests) {
    const std::string written = Put(rest, world);
    EXPECT_EQ(written.substr(written.size() - rest.size()), rest);
    EXPECT_EQ(ParseHosts(written).rest, rest);
    EXPECT_EQ(Put(written, world), written) << "a second write changes nothing";
    EXPECT_EQ(Take(written), rest);
    EXPECT_EQ(Take(rest), rest) << "taking out what is not there";
  }
}

TEST(HostsText, ALineThatSomebodyPutIntoTheBlockIsKept) {
  // The block stands first, so "insert after line 1" lands within it.
  const v1::World world = MakeWorld({{"a", "10.0.0.1"}, {"b", "10.0.0.2"}});
  const std::string rest = "127.0.0.1 localhost\n";
  std::string edited = Put(rest, world);
  edited.insert(edited.find('\n') + 1, "10.0.0.5 storage\n# mine\n");
  const std::string kept = "10.0.0.5 storage\n# mine\n" + rest;
  EXPECT_EQ(ParseHosts(edited).rest, kept);
  EXPECT_EQ(Put(edited, world), Put(kept, world));
  EXPECT_EQ(Take(edited), kept);
}

TEST(HostsText, WhichNamesGoIn) {
  struct {
    const char* name;
    const char* rest;
    Row row;
    bool in;
    const char* hostname;
  } const kRows[] = {
      {"new name", "127.0.0.1 localhost\n", {"b", "10.0.0.2"}, true, "a"},
      {"the same meaning", "10.0.0.2 b\n", {"b", "10.0.0.2"}, true, "a"},
      {"the same, spelled otherwise",
       "FD00:0::2 b\n",
       {"b", "fd00::2"},
       true,
       "a"},
      {"one of its meanings",
       "10.0.0.9 b\n10.0.0.2 b\n",
       {"b", "10.0.0.2"},
       true,
       "a"},
      {"another meaning", "10.0.0.9 b\n", {"b", "10.0.0.2"}, false, "a"},
      {"another meaning, as an alias",
       "10.0.0.9 z y b\n",
       {"b", "10.0.0.2"},
       false,
       "a"},
      {"another meaning, other case",
       "10.0.0.9 B\n",
       {"b", "10.0.0.2"},
       false,
       "a"},
      {"only in a comment", "10.0.0.9 z # b\n", {"b", "10.0.0.2"}, true, "a"},
      {"no address before it", "what b\n", {"b", "10.0.0.2"}, true, "a"},
      {"a peer's name on loopback",
       "127.0.1.1 b\n",
       {"b", "10.0.0.2"},
       false,
       "a"},
      // A peer chooses its name itself, and has no claim to this machine's.
      {"this machine's hostname",
       "127.0.0.1 localhost\n",
       {"b", "10.0.0.2"},
       false,
       "b"},
      {"this machine's hostname without its domain",
       "127.0.0.1 localhost\n",
       {"B", "10.0.0.2"},
       false,
       "b.x"},
      {"this machine's hostname, on 127.0.1.1",
       "127.0.1.1 b.x b\n",
       {"b", "10.0.0.2"},
       false,
       "b"},
      {"this machine's hostname, on 127.0.0.1 and ::1",
       "127.0.0.1 b\n::1 b\n",
       {"b", "10.0.0.2"},
       false,
       "b"},
      {"this machine's hostname, on a real address",
       "10.0.0.9 b\n",
       {"b", "10.0.0.2"},
       false,
       "b"},
      {"localhost", "", {"localhost", "10.0.0.2"}, false, "localhost"},
      {"localhost in capitals", "", {"LocalHost", "10.0.0.2"}, false, "a"},
      {"several labels", "", {"b.example.com", "10.0.0.2"}, false, "a"},
      {"localhost.localdomain",
       "",
       {"localhost.localdomain", "10.0.0.2"},
       false,
       "a"},
      {"x.localhost", "", {"x.localhost", "10.0.0.2"}, false, "a"},
      {"ip6-localhost", "", {"ip6-localhost", "10.0.0.2"}, false, "a"},
      {"an address as a name", "", {"10.0.0.7", "10.0.0.2"}, false, "a"},
      {"another row's alias",
       "",
       {"node-0.train.rollcall", "10.0.0.2"},
       false,
       "a"},
  };
  for (const auto& row : kRows) {
    const v1::World world = MakeWorld({{"a", "10.0.0.1"}, row.row});
    const HostsChange change =
        WriteHostsBlock(row.rest, false, world, 0, row.hostname,
                        NoneFound(world), Owner("a"), kAllLive);
    const std::string with =
        absl::StrCat("10.0.0.1 a node-0.train.rollcall\n", row.row.address, " ",
                     row.row.node, " node-1.train.rollcall\n");
    const std::string without =
        absl::StrCat("10.0.0.1 a node-0.train.rollcall\n", row.row.address,
                     " node-1.train.rollcall\n");
    EXPECT_EQ(Entries(change.text), row.in ? with : without) << row.name;
    EXPECT_EQ(change.warnings.size(), row.in ? 0 : 1) << row.name;
  }
}

// A hosts file knows no case: the second node could be there to take the name.
TEST(HostsText, NeitherOfTwoNamesThatDifferByCaseAloneIsWritten) {
  const v1::World world = MakeWorld({{"a", "10.0.0.1"}, {"A", "10.0.0.2"}});
  HostsNames names = NoneFound(world);
  names.listed = {"a"};
  const HostsChange change = WriteHostsBlock("", false, world, 0, "other",
                                             names, Owner("a"), kAllLive);
  EXPECT_EQ(Entries(change.text),
            "10.0.0.1 node-0.train.rollcall\n"
            "10.0.0.2 node-1.train.rollcall\n");
  EXPECT_EQ(change.warnings.size(), 2u);
}

// The system's parser stops at the zero byte and would take it for 10.0.0.2.
TEST(HostsText, AnAddressWithAZeroByteIsNone) {
  const std::string odd("10.0.0.2\0\n6.6.6.6 evil", 22);
  const v1::World world = MakeWorld({{"a", "10.0.0.1"}, {"b", odd}});
  const HostsChange change = WriteHostsBlock(
      "x\n", false, world, 0, "a", NoneFound(world), Owner("a"), kAllLive);
  EXPECT_EQ(Entries(change.text), "10.0.0.1 a node-0.train.rollcall\n");
  EXPECT_EQ(change.warnings.size(), 1u);
}

TEST(HostsText, AWarningNamesThisMachinesAddressAndTheNodes) {
  const v1::World world = MakeWorld({{"w1", "10.0.0.1"}, {"lab2", "10.0.0.2"}});
  for (const char* rest : {"127.0.0.1 localhost\n", "10.0.0.1 lab2\n"}) {
    const HostsChange change =
        WriteHostsBlock(rest, false, world, 0, "lab2.example", NoneFound(world),
                        Owner("w1"), kAllLive);
    ASSERT_EQ(change.warnings.size(), 1u);
    for (const char* part : {" lab2 ", "10.0.0.1", "10.0.0.2"}) {
      EXPECT_TRUE(absl::StrContains(change.warnings[0], part))
          << change.warnings[0];
    }
  }
}

TEST(HostsText, LoopbackIsNoOtherAddressInThisMachinesRow) {
  struct {
    const char* rest;
    bool in;
  } const kRows[] = {
      {"", true},
      {"127.0.1.1 b.x b\n", true},
      {"127.0.0.1 b\n::1 b\n", true},
      {"10.0.0.2 b\n", true},
      {"10.0.0.9 b\n", false},
      {"127.0.1.1 b\n10.0.0.9 b\n", false},
  };
  const v1::World world = MakeWorld({{"a", "10.0.0.1"}, {"b", "10.0.0.2"}});
  for (const auto& row : kRows) {
    const HostsChange change = WriteHostsBlock(
        row.rest, false, world, 1, "b", NoneFound(world), Owner("b"), kAllLive);
    EXPECT_EQ(absl::StrContains(Entries(change.text), "10.0.0.2 b "), row.in)
        << row.rest;
    EXPECT_EQ(change.warnings.size(), row.in ? 0 : 1) << row.rest;
  }
}

TEST(HostsText, OwnNamesAreThoseOfThisMachine) {
  const std::string rest = "127.0.1.1 b c\n";
  v1::World world =
      MakeWorld({{"a", "10.0.0.1"}, {"b", "10.0.0.1"}, {"c", "10.0.0.3"}});
  EXPECT_EQ(Entries(Put(rest, world)),
            "10.0.0.1 a node-0.train.rollcall\n"
            "10.0.0.1 b node-1.train.rollcall\n"
            "10.0.0.3 node-2.train.rollcall\n");
  world.set_one_machine(true);
  EXPECT_TRUE(absl::StrContains(Entries(Put(rest, world)), "10.0.0.3 c "));
}

TEST(HostsText, RowsThatBreakTheGrammarAreLeftOut) {
  for (const Row& row :
       {Row{"b c", "10.0.0.2"}, Row{"b\n6.6.6.6 bank.example", "10.0.0.2"},
        Row{"", "10.0.0.2"}, Row{"b", ""}, Row{"b", "10.0.0.2 x"},
        Row{"b", "fe80::1%eth0"}, Row{"b#", "10.0.0.2"}}) {
    const v1::World world = MakeWorld({{"a", "10.0.0.1"}, row});
    const HostsChange change = WriteHostsBlock(
        "", false, world, 0, "a", NoneFound(world), Owner("a"), kAllLive);
    EXPECT_EQ(Entries(change.text), "10.0.0.1 a node-0.train.rollcall\n");
    EXPECT_EQ(change.warnings.size(), 1u);
  }
}

TEST(HostsText, WarningsAreBounded) {
  std::vector<Row> rows;
  for (int i = 0; i < 500; ++i) {
    rows.push_back({"localhost", "10.0.0.2"});
    rows.push_back({absl::StrCat("n", i), "10.0.0.2"});
    rows.push_back({absl::StrCat("n", i, ".example.com"), "10.0.0.2"});
  }
  EXPECT_LE(WriteHostsBlock("", false, MakeWorld(rows), 0, "a", {}, Owner("a"),
                            kAllLive)
                .warnings.size(),
            12u);
}

TEST(HostsText, ANewGenerationReplacesAnOlderOneNever) {
  const std::string rest = "127.0.0.1 localhost\n";
  const std::string g2 = Put(rest, MakeWorld({{"a", "10.0.0.1"}}, 2));
  const std::string g3 = Put(g2, MakeWorld({{"b", "10.0.0.2"}}, 3));
  EXPECT_EQ(Entries(g3), "10.0.0.2 b node-0.train.rollcall\n");
  EXPECT_EQ(ParseHosts(g3).blocks.size(), 1u);
  EXPECT_EQ(ParseHosts(g3).rest, rest);
  const std::string late =
      Put(g3, MakeWorld({{"a", "10.0.0.1"}}, 2), Owner("late"));
  EXPECT_EQ(Entries(late), Entries(g3));
  EXPECT_EQ(ParseHosts(late).blocks[0].generation, 3u);
  EXPECT_EQ(ParseHosts(late).blocks[0].owners.size(), 2u);
}

TEST(HostsText, TheLastLivingOwnerTakesTheBlockOut) {
  const std::string rest = "127.0.0.1 localhost";
  const v1::World world = MakeWorld({{"a", "10.0.0.1"}, {"b", "10.0.0.1"}});
  const std::string both = Put(Put(rest, world), world, Owner("b", 200));
  EXPECT_EQ(ParseHosts(both).blocks.at(0).owners.size(), 2u);
  const std::string one = Take(both);
  EXPECT_EQ(ParseHosts(one).blocks.at(0).owners.size(), 1u);
  EXPECT_EQ(Take(one), one) << "a second removal by the same";
  EXPECT_EQ(Take(one, Owner("b", 200)), rest);
  EXPECT_EQ(Take(both, Owner("a"), kNoneLives), rest)
      << "the other one is dead";
  EXPECT_EQ(Take(both, Owner("c", 300)), both) << "not an owner";
  EXPECT_EQ(Take(both, Owner("a"), kAllLive, "r2"), both) << "another run";
}

TEST(HostsText, BlocksOfDeadOwnersAreSwept) {
  const std::string rest = "127.0.0.1 localhost\n";
  const std::string old =
      Put(rest, MakeWorld({{"z", "10.0.0.9"}}, 1, "old"), Owner("z", 900));
  const OwnerLives lives = [](const HostsOwner& o) { return o.pid != 900; };
  const std::string now =
      Put(old, MakeWorld({{"z", "10.0.0.1"}}), Owner("a"), lives);
  EXPECT_EQ(ParseHosts(now).blocks.size(), 1u);
  EXPECT_EQ(Entries(now), "10.0.0.1 z node-0.train.rollcall\n");
  EXPECT_EQ(Take(now), rest);
  EXPECT_EQ(Take(old, Owner("a"), lives), rest) << "by a removal too";
}

TEST(HostsText, JobsStandSideBySideAndKeepTheirNames) {
  const std::string rest = "127.0.0.1 localhost\n";
  const std::string other =
      Put(rest, MakeWorld({{"b", "10.0.0.9"}, {"c", "10.0.0.3"}}, 1, "other"),
          Owner("z", 900));
  const v1::World world = MakeWorld({{"b", "10.0.0.2"}, {"c", "10.0.0.3"}});
  const HostsChange change = WriteHostsBlock(
      other, false, world, 0, "a", NoneFound(world), Owner("a"), kAllLive);
  EXPECT_EQ(Entries(change.text),
            "10.0.0.2 node-0.train.rollcall\n"
            "10.0.0.3 c node-1.train.rollcall\n");
  EXPECT_EQ(change.warnings.size(), 1u);
  EXPECT_EQ(ParseHosts(change.text).blocks.size(), 2u);
  EXPECT_EQ(Take(change.text), other);
  EXPECT_EQ(ParseHosts(change.text).rest, rest);
}

TEST(HostsText, AnotherRunTakesTheBlockOver) {
  const std::string first = Put("x\n", MakeWorld({{"a", "10.0.0.1"}}, 9));
  const v1::World world = MakeWorld({{"a", "10.0.0.2"}}, 1, "train", "r2");
  const HostsChange change = WriteHostsBlock(
      first, false, world, 0, "a", NoneFound(world), Owner("a", 200), kAllLive);
  EXPECT_EQ(Entries(change.text), "10.0.0.2 a node-0.train.rollcall\n");
  EXPECT_EQ(ParseHosts(change.text).blocks.size(), 1u);
  EXPECT_EQ(ParseHosts(change.text).blocks[0].owners.size(), 1u);
  EXPECT_EQ(change.warnings.size(), 1u);
  EXPECT_EQ(Take(change.text), change.text) << "the old run's owner leaves";
}

TEST(HostsText, AFileThatRollcallMadeGoesAgain) {
  const v1::World world = MakeWorld({{"a", "10.0.0.1"}});
  const std::string made =
      WriteHostsBlock("", true, world, 0, "a", NoneFound(world), Owner("a"),
                      kAllLive)
          .text;
  EXPECT_TRUE(
      RemoveHostsBlock(made, "train", "r1", Owner("a"), kAllLive).remove_file);
  // A later generation remembers; lines that somebody added stay.
  const std::string later = Put(made, MakeWorld({{"a", "10.0.0.1"}}, 2));
  EXPECT_TRUE(
      RemoveHostsBlock(later, "train", "r1", Owner("a"), kAllLive).remove_file);
  const HostsChange change =
      RemoveHostsBlock(later + "x\n", "train", "r1", Owner("a"), kAllLive);
  EXPECT_FALSE(change.remove_file);
  EXPECT_EQ(change.text, "x\n");
  // And so does another job's block, when it is the last to go.
  const std::string two =
      Put(made, MakeWorld({{"b", "10.0.0.2"}}, 1, "other"), Owner("b", 2));
  const std::string left = Take(two);
  EXPECT_TRUE(RemoveHostsBlock(left, "other", "r1", Owner("b", 2), kAllLive)
                  .remove_file);
  EXPECT_FALSE(
      RemoveHostsBlock(Put("", world), "train", "r1", Owner("a"), kAllLive)
          .remove_file);
}

// A cut block at any byte: nothing of it is left over, and what it may cost of
// the rest is what the cut itself has cost.
TEST(HostsText, ABlockThatWasCutOffIsRepaired) {
  const std::string rest = "127.0.0.1 localhost\n10.9.9.9 mine\n";
  const std::string whole =
      Put(rest, MakeWorld({{"a", "10.0.0.1"}, {"b", "10.0.0.2"}}));
  const size_t block = whole.size() - rest.size();
  const std::string marker = "# rollcall begin ";
  for (size_t size = marker.size(); size <= whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);
    const std::string left = size > block ? cut.substr(block) : "";
    EXPECT_EQ(Take(cut), left) << "cut at " << size;
    const std::string again = Put(cut, MakeWorld({{"a", "10.0.0.1"}}, 2));
    EXPECT_EQ(ParseHosts(again).rest, left) << "cut at " << size;
    EXPECT_EQ(ParseHosts(again).blocks.size(), 1u);
  }
  // Somebody deleted the end marker: lines that are not rollcall's stay.
  std::string headless = whole;
  const size_t end = headless.find("# rollcall end");
  headless.erase(end, headless.find('\n', end) + 1 - end);
  EXPECT_EQ(Take(headless), rest);
  EXPECT_EQ(Take("x\n# rollcall end job=train run=r1\ny\n"), "x\ny\n");
}

TEST(HostsText, ABlockThatAnEditorTurnedToCrLfIsFound) {
  std::string text =
      Put("127.0.0.1 localhost\n", MakeWorld({{"a", "1.2.3.4"}}));
  std::string crlf;
  for (const char c : text) {
    if (c == '\n') crlf += '\r';
    crlf += c;
  }
  EXPECT_EQ(Take(crlf), "127.0.0.1 localhost\r\n");
}

// One name of each kind that is left out; the aliases are always there.
TEST(HostsText, WhatIsLeftOutIsNamedWithBothAddresses) {
  const v1::World world =
      MakeWorld({{"a", "10.0.0.1"},
                 {"archive.internal.example.com", "203.0.113.66"},
                 {"storage", "203.0.113.66"},
                 {"slow", "10.0.0.4"},
                 {"mail", "203.0.113.66"}});
  HostsNames names = NoneFound(world);
  names.answers["storage"] = {NameAnswer::Kind::kFound, {"10.0.0.9"}};
  names.answers["slow"] = {NameAnswer::Kind::kUnclear, {}};
  const HostsChange change = WriteHostsBlock("10.0.0.8 mail\n", false, world, 0,
                                             "a", names, Owner("a"), kAllLive);
  EXPECT_EQ(Entries(change.text),
            "10.0.0.1 a node-0.train.rollcall\n"
            "203.0.113.66 node-1.train.rollcall\n"
            "203.0.113.66 node-2.train.rollcall\n"
            "10.0.0.4 node-3.train.rollcall\n"
            "203.0.113.66 node-4.train.rollcall\n");
  const std::vector<std::vector<std::string>> kNamed = {
      {"storage", "10.0.0.9", "203.0.113.66", "node-2.train.rollcall"},
      {"mail", "10.0.0.8", "203.0.113.66", "node-4.train.rollcall"},
      {"archive.internal.example.com", "203.0.113.66"},
      {"slow", "10.0.0.4"}};
  ASSERT_EQ(change.warnings.size(), kNamed.size());
  for (size_t i = 0; i < kNamed.size(); ++i) {
    for (const std::string& part : kNamed[i]) {
      EXPECT_TRUE(absl::StrContains(change.warnings[i], part))
          << part << " in: " << change.warnings[i];
    }
  }
  // What the operator listed is written.
  names.listed = {"archive.internal.example.com", "storage", "slow", "mail"};
  const HostsChange listed = WriteHostsBlock("10.0.0.8 mail\n", false, world, 0,
                                             "a", names, Owner("a"), kAllLive);
  EXPECT_TRUE(absl::StrContains(
      Entries(listed.text),
      "203.0.113.66 archive.internal.example.com node-1.train.rollcall\n"));
  EXPECT_TRUE(listed.warnings.empty());
  EXPECT_EQ(NamesInBlock(listed.text, "train"),
            (std::set<std::string>{"a", "archive.internal.example.com", "mail",
                                   "slow", "storage"}));
  EXPECT_TRUE(NamesInBlock(listed.text, "other").empty());
}

// --- Torn writes ------------------------------------------------------------

TEST(EditFile, KnowsATornWriteFromAnEdit) {
  const std::string kTexts[] = {"",          "a",          "abcdef",
                                "abXdefghi", "0123456789", "abcdefabcdef"};
  for (const std::string& before : kTexts) {
    for (const std::string& after : kTexts) {
      for (size_t k = 0; k <= after.size(); ++k) {
        std::string torn = before;
        if (torn.size() < k) torn.resize(k);
        torn.replace(0, k, after.substr(0, k));
        EXPECT_TRUE(IsTornWrite(torn, before, after))
            << before << " " << after << " " << k;
      }
    }
  }
  EXPECT_FALSE(IsTornWrite("something else", "abcdef", "0123456789"));
  EXPECT_FALSE(IsTornWrite("0123zz", "abcdef", "0123456789"));
  EXPECT_FALSE(IsTornWrite("0123efg", "abcdef", "0123456789"));
}

TEST(EditFile, ReadsOnlyWholeUndoNotes) {
  const UndoNote note{"before\n", std::string("af\0ter", 6)};
  const std::string text = FormatUndoNote(note);
  const auto read = ReadUndoNote(text);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->before, note.before);
  EXPECT_EQ(read->after, note.after);
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(ReadUndoNote(text.substr(0, size)).ok());
  }
  EXPECT_FALSE(ReadUndoNote(text + "x").ok());
  EXPECT_FALSE(
      ReadUndoNote("rollcall undo note 9 18446744073709551615\nx").ok());
}

// --- The file ---------------------------------------------------------------

class HostsFileTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/rollcall-hosts-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    path_ = folder_ + "/hosts";
    options_.lock_folders = {folder_};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& text) { std::ofstream(path_) << text; }
  std::string Read() {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  HostsFile File() { return HostsFile(path_, options_); }
  std::string NotePath() { return folder_ + "/" + UndoNoteName(path_); }

  // Names in the folder apart from the hosts file and its lock.
  std::vector<std::string> Leftovers() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      const std::string name = entry.path().filename();
      if (name != "hosts" && name != LockName(path_)) names.push_back(name);
    }
    return names;
  }

  std::string folder_;
  std::string path_;
  EditFileOptions options_;
  std::vector<std::string> warnings_;
  const v1::World world_ = MakeWorld({{"a", "10.0.0.1"}, {"b", "10.0.0.2"}});
};

TEST_F(HostsFileTest, WritesAndRestoresToTheByte) {
  const std::string before = "127.0.0.1 localhost\n# mine, no newline";
  Write(before);
  ASSERT_EQ(chmod(path_.c_str(), 0640), 0);
  const HostsOwner owner = ThisOwner("a");
  ASSERT_TRUE(
      File().Write(world_, 0, NoneFound(world_), owner, &warnings_).ok());
  EXPECT_EQ(Entries(Read()),
            "10.0.0.1 a node-0.train.rollcall\n"
            "10.0.0.2 b node-1.train.rollcall\n");
  EXPECT_EQ(ParseHosts(Read()).rest, before);
  ASSERT_TRUE(File().Remove("train", "r1", owner, &warnings_).ok());
  EXPECT_EQ(Read(), before);
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  EXPECT_TRUE(Leftovers().empty());
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(HostsFileTest, MakesAFileAndTakesItAway) {
  const HostsOwner owner = ThisOwner("a");
  ASSERT_TRUE(
      File().Write(world_, 0, NoneFound(world_), owner, &warnings_).ok());
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0644u);
  ASSERT_TRUE(File().Remove("train", "r1", owner, &warnings_).ok());
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST_F(HostsFileTest, WritesInPlaceWhereAnotherNameShowsTheSameFile) {
  Write("127.0.0.1 localhost\n");
  const std::string twin = folder_ + "/twin";
  ASSERT_EQ(link(path_.c_str(), twin.c_str()), 0);
  const HostsOwner owner = ThisOwner("a");
  ASSERT_TRUE(
      File().Write(world_, 0, NoneFound(world_), owner, &warnings_).ok());
  EXPECT_EQ(ParseHosts(Read()).blocks.size(), 1u);
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_nlink, 2u);
  ASSERT_TRUE(File().Remove("train", "r1", owner, &warnings_).ok());
  EXPECT_EQ(Read(), "127.0.0.1 localhost\n");
  EXPECT_EQ(Leftovers(), std::vector<std::string>{"twin"});
}

TEST_F(HostsFileTest, FollowsASymbolicLink) {
  const std::string real = folder_ + "/real";
  std::ofstream(real) << "127.0.0.1 localhost\n";
  ASSERT_EQ(symlink("real", path_.c_str()), 0);
  ASSERT_TRUE(
      File()
          .Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings_)
          .ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(ParseHosts(Read()).blocks.size(), 1u);
}

TEST_F(HostsFileTest, UndoesAnInPlaceWriteThatWasCutOff) {
  const std::string before = "127.0.0.1 localhost\n10.9.9.9 mine\n";
  const std::string after = Put(before, world_, Owner("dead", 1));
  for (size_t k = 1; k < after.size(); k += 7) {
    std::string torn = before;
    if (torn.size() < k) torn.resize(k);
    torn.replace(0, k, after.substr(0, k));
    Write(torn);
    std::ofstream(NotePath()) << FormatUndoNote({before, after});
    ASSERT_EQ(chmod(NotePath().c_str(), 0600), 0);
    const HostsOwner owner = ThisOwner("a");
    ASSERT_TRUE(
        File().Write(world_, 0, NoneFound(world_), owner, &warnings_).ok());
    EXPECT_EQ(ParseHosts(Read()).rest, before) << k;
    ASSERT_TRUE(File().Remove("train", "r1", owner, &warnings_).ok());
    EXPECT_EQ(Read(), before) << k;
    EXPECT_NE(access(NotePath().c_str(), F_OK), 0);
  }
}

TEST_F(HostsFileTest, AnUndoNoteThatDoesNotFitOrIsNotOursIsPassedOver) {
  const std::string now = "10.9.9.9 edited since\n";
  Write(now);
  std::ofstream(NotePath()) << FormatUndoNote({"old\n", "new\n"});
  ASSERT_EQ(chmod(NotePath().c_str(), 0600), 0);
  ASSERT_TRUE(File().Remove("train", "r1", Owner("a"), &warnings_).ok());
  EXPECT_EQ(Read(), now);
  // One that anybody could have written, over what looks torn.
  Write("ne");
  std::ofstream(NotePath()) << FormatUndoNote({"", "new\n"});
  ASSERT_EQ(chmod(NotePath().c_str(), 0666), 0);
  ASSERT_TRUE(File().Remove("train", "r1", Owner("a"), &warnings_).ok());
  EXPECT_EQ(Read(), "ne");
}

// A child whose file size is limited dies by SIGXFSZ in the middle of its
// in-place write: a crash as real as any.
TEST_F(HostsFileTest, AWriterThatIsKilledInTheMiddleCostsNothing) {
  const std::string before = "127.0.0.1 localhost\n10.9.9.9 mine\n";
  Write(before);
  ASSERT_EQ(link(path_.c_str(), (folder_ + "/twin").c_str()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string after = Put(before, world_, ThisOwner("a"));
    // The note first, as EditFile has it; then the write, which is cut off.
    std::ofstream(NotePath()) << FormatUndoNote({before, after});
    chmod(NotePath().c_str(), 0600);
    const rlimit limit{100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    const int fd = open(path_.c_str(), O_WRONLY);
    for (size_t at = 0; at < after.size();) {
      at += pwrite(fd, after.data() + at, after.size() - at, at);
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the write was not cut off";
  EXPECT_EQ(Read().size(), 100u);
  ASSERT_TRUE(File().Remove("other", "r1", Owner("a"), &warnings_).ok());
  EXPECT_EQ(Read(), before);
}

TEST_F(HostsFileTest, SaysWhyItCannot) {
  struct {
    const char* path;
    absl::StatusCode code;
  } const kRows[] = {
      {"/tmp", absl::StatusCode::kFailedPrecondition},
      {"/dev/null", absl::StatusCode::kFailedPrecondition},
      {"/nonexistent-folder/hosts", absl::StatusCode::kFailedPrecondition},
  };
  for (const auto& row : kRows) {
    HostsFile file(row.path, options_);
    EXPECT_EQ(
        file.Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings_)
            .code(),
        row.code)
        << row.path;
  }
  // Lock folders that cannot be used: one that cannot be made, and one to which
  // others may write, as to the file's own.
  Write("x\n");
  options_.lock_folders = {"/nonexistent-folder/below", "/tmp"};
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  EXPECT_EQ(File()
                .Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings_)
                .code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Read(), "x\n");
  // The next one is taken, and the file's own folder at last.
  options_.lock_folders.push_back(folder_ + "/locks");
  EXPECT_TRUE(
      File()
          .Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings_)
          .ok());
  EXPECT_EQ(access((folder_ + "/locks/" + LockName(path_)).c_str(), F_OK), 0);
  options_.lock_folders.pop_back();
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  EXPECT_TRUE(
      File()
          .Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings_)
          .ok());
}

TEST_F(HostsFileTest, BadNamesOfJobRunAndNodeAreRefused) {
  Write("x\n");
  const HostsOwner owner = ThisOwner("a");
  v1::World world = world_;
  world.set_job("Not A Job");
  EXPECT_EQ(File().Write(world, 0, NoneFound(world), owner, &warnings_).code(),
            absl::StatusCode::kInvalidArgument);
  world = world_;
  world.set_run("r1\n6.6.6.6 evil");
  EXPECT_EQ(File().Write(world, 0, NoneFound(world), owner, &warnings_).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      File()
          .Write(world_, 0, NoneFound(world_), ThisOwner("a b"), &warnings_)
          .code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Read(), "x\n");
}

TEST_F(HostsFileTest, ALockFileThatIsALinkIsNotFollowed) {
  Write("x\n");
  const std::string lock = folder_ + "/" + LockName(path_);
  ASSERT_EQ(symlink(path_.c_str(), lock.c_str()), 0);
  EXPECT_EQ(File()
                .Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings_)
                .code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Read(), "x\n");
}

// Another user makes beforehand whatever a lock could be called.
TEST_F(HostsFileTest, LocksThatOthersMadeBeforehandDoNotSwitchTheBlockOff) {
  Write("x\n");
  if (geteuid() != 0) {
    GTEST_SKIP() << "NOTICE: only root can make files of another user; not "
                    "tried";
  }
  const std::string shared = folder_ + "/shared";
  const std::string theirs = folder_ + "/theirs";
  const std::string link = folder_ + "/link";
  ASSERT_EQ(mkdir(shared.c_str(), 0777), 0);
  ASSERT_EQ(chmod(shared.c_str(), 01777), 0);
  ASSERT_EQ(mkdir(theirs.c_str(), 0755), 0);
  ASSERT_EQ(chown(theirs.c_str(), 65534, 65534), 0);
  ASSERT_EQ(symlink(theirs.c_str(), link.c_str()), 0);
  const std::string lock = shared + "/" + LockName(path_);
  std::ofstream(lock).flush();
  ASSERT_EQ(chown(lock.c_str(), 65534, 65534), 0);
  options_.lock_folders = {shared, theirs, link};
  ASSERT_TRUE(
      File()
          .Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings_)
          .ok());
  EXPECT_EQ(ParseHosts(Read()).blocks.size(), 1u);
  EXPECT_EQ(access((theirs + "/" + LockName(path_)).c_str(), F_OK), -1);
}

// What its owner alone may write has no lock in a folder that everybody may
// write to.
TEST(FileLock, LiesInTheFolderOfWhoMayWrite) {
  using Folders = std::vector<std::string>;
  EXPECT_EQ(
      LockFolders({0, false}),
      (Folders{"/run/rollcall", "/run/lock/rollcall-0", "/tmp/rollcall-0"}));
  EXPECT_EQ(LockFolders({1000, false}),
            (Folders{"/run/lock/rollcall-1000", "/tmp/rollcall-1000"}));
  EXPECT_EQ(LockFolders({1000, true}), (Folders{"/run/lock", "/tmp"}));
}

// An edit in a process of its own, as another user.
pid_t BeginEditAs(uid_t user, const std::string& path, const EditText& edit) {
  const pid_t child = fork();
  if (child != 0) return child;
  if (setgroups(0, nullptr) != 0 || setgid(user) != 0 || setuid(user) != 0) {
    _exit(99);
  }
  EditFileOptions options;
  options.lock_timeout = absl::Milliseconds(30);
  _exit(static_cast<int>(EditFile(path, options, edit).code()));
}

absl::StatusCode EndOf(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return static_cast<absl::StatusCode>(WEXITSTATUS(status));
}

TEST(EditFile, AgentsOfDifferentUsersTakeTheSameLock) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "NOTICE: only root can be other users; not tried";
  }
  constexpr uid_t kNobody = 65534;
  constexpr uid_t kDaemon = 1;
  struct {
    uid_t owner;
    mode_t mode;
    uid_t first;
    uid_t second;
  } const kRows[] = {
      {kNobody, 0644, 0, kNobody},
      {kNobody, 0644, kNobody, 0},
      {0, 0666, 0, kNobody},
      {0, 0666, kNobody, 0},
      {kDaemon, 0666, kNobody, kDaemon},
      {kDaemon, 0666, kDaemon, kNobody},
  };
  for (const auto& row : kRows) {
    const std::string what = absl::StrCat("of ", row.owner, ", first ",
                                          row.first, ", second ", row.second);
    std::string folder = testing::TempDir() + "rollcall-lock-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    const std::string path = folder + "/hosts";
    std::ofstream(path) << "x\n";
    ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
    ASSERT_EQ(chmod(path.c_str(), row.mode), 0);
    ASSERT_EQ(chown(folder.c_str(), row.owner, row.owner), 0);
    ASSERT_EQ(chown(path.c_str(), row.owner, row.owner), 0);
    int locked[2];
    int go_on[2];
    ASSERT_EQ(pipe2(locked, O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(go_on, O_CLOEXEC), 0);
    char byte = 0;
    const pid_t first =
        BeginEditAs(row.first, path, [&](const std::string& text, bool) {
          if (write(locked[1], "x", 1) != 1 || read(go_on[0], &byte, 1) != 1) {
            _exit(98);
          }
          return EditedText{text, false};
        });
    close(locked[1]);
    const auto second = [&] {
      return EndOf(
          BeginEditAs(row.second, path, [](const std::string& text, bool) {
            return EditedText{text + "y\n", false};
          }));
    };
    EXPECT_EQ(read(locked[0], &byte, 1), 1) << what;
    EXPECT_EQ(second(), absl::StatusCode::kUnavailable) << what;
    EXPECT_EQ(write(go_on[1], "x", 1), 1);
    EXPECT_EQ(EndOf(first), absl::StatusCode::kOk) << what;
    EXPECT_EQ(second(), absl::StatusCode::kOk) << what;
    for (const int fd : {locked[0], go_on[0], go_on[1]}) close(fd);
    const LockUsers users{row.owner, (row.mode & 022) != 0};
    for (const std::string& locks : LockFolders(users)) {
      unlink((locks + "/" + LockName(path)).c_str());
    }
    std::filesystem::remove_all(folder);
  }
}

TEST_F(HostsFileTest, AHeldLockCostsATimeoutAndNoMore) {
  Write("x\n");
  ASSERT_TRUE(
      File()
          .Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings_)
          .ok());
  const std::string lock = folder_ + "/" + LockName(path_);
  const int fd = open(lock.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  options_.lock_timeout = absl::Milliseconds(30);
  EXPECT_EQ(File().Remove("train", "r1", ThisOwner("a"), &warnings_).code(),
            absl::StatusCode::kUnavailable);
  close(fd);
  options_.lock_timeout = absl::Seconds(10);
  EXPECT_TRUE(File().Remove("train", "r1", ThisOwner("a"), &warnings_).ok());
  EXPECT_EQ(Read(), "x\n");
}

TEST_F(HostsFileTest, WithoutPermissionThereIsAStatusAndNothingElse) {
  Write("127.0.0.1 localhost\n");
  ASSERT_EQ(chmod(path_.c_str(), 0444), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  if (geteuid() != 0) {
    ASSERT_EQ(chmod(folder_.c_str(), 0555), 0);
  }
  const std::string locks = folder_ + "-locks";
  const pid_t child = fork();
  if (child == 0) {
    // As root nothing is forbidden, so be nobody.
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(9);
    options_.lock_folders = {locks};
    std::vector<std::string> warnings;
    const auto status =
        HostsFile(path_, options_)
            .Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings);
    std::filesystem::remove_all(locks);
    _exit(static_cast<int>(status.code()));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status),
            static_cast<int>(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(Read(), "127.0.0.1 localhost\n");
  chmod(folder_.c_str(), 0755);
}

// Each writer joins, checks that it is there, and leaves, again and again; at
// the end the file is as it was.
void Hammer(const HostsFile& shared, const std::string& node, int rounds,
            int* failures) {
  HostsFile file = shared;
  const HostsOwner owner = ThisOwner(node);
  std::vector<std::string> warnings;
  for (int i = 0; i < rounds; ++i) {
    v1::World world = MakeWorld({{"a", "10.0.0.1"}, {"b", "10.0.0.2"}}, i + 1);
    // Odd writers belong to a job of their own.
    if (node.back() % 2 == 1) world.set_job("job-" + node);
    if (!file.Write(world, 0, NoneFound(world), owner, &warnings).ok())
      ++*failures;
    if (!file.Remove(world.job(), "r1", owner, &warnings).ok()) ++*failures;
  }
}

TEST_F(HostsFileTest, ThreadsAndProcessesMayHammerOneFile) {
  const std::string before = "127.0.0.1 localhost\n10.9.9.9 mine";
  Write(before);
  for (const bool in_place : {false, true}) {
    if (in_place) {
      ASSERT_EQ(link(path_.c_str(), (folder_ + "/twin").c_str()), 0);
    }
    std::vector<pid_t> children;
    for (int i = 0; i < 2; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        int failures = 0;
        Hammer(File(), absl::StrCat("p", i), 20, &failures);
        _exit(failures == 0 ? 0 : 1);
      }
      children.push_back(child);
    }
    int failures[2] = {0, 0};
    std::thread one(Hammer, File(), "t0", 20, &failures[0]);
    std::thread two(Hammer, File(), "t1", 20, &failures[1]);
    one.join();
    two.join();
    for (const pid_t child : children) {
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(failures[0], 0);
    EXPECT_EQ(failures[1], 0);
    EXPECT_EQ(Read(), before) << (in_place ? "in place" : "by rename");
  }
}

TEST_F(HostsFileTest, ABlockOfAKilledAgentIsSweptByTheNext) {
  Write("x\n");
  const pid_t child = fork();
  if (child == 0) {
    std::vector<std::string> warnings;
    _exit(File().Write(world_, 0, NoneFound(world_), ThisOwner("a"), &warnings)
                  .ok()
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(ParseHosts(Read()).blocks.size(), 1u);
  ASSERT_TRUE(File().Remove("other", "r9", ThisOwner("b"), &warnings_).ok());
  EXPECT_EQ(Read(), "x\n");
}

TEST(HostsText, AnOwnerIsTakenOffAllItsBlocks) {
  const HostsOwner a = Owner("a"), b = Owner("b", 101);
  const v1::World world = MakeWorld({{"a", "10.0.0.1"}});
  const std::string shared = Put(Put("x\n", world, a), world, b);
  const std::string both =
      Put(shared, MakeWorld({{"a", "10.0.0.1"}}, 1, "own"), a);
  ASSERT_EQ(ParseHosts(both).blocks.size(), 2u);
  // It is dead by then, and `lives` need not know that yet.
  for (const OwnerLives& lives :
       {kAllLive, OwnerLives([&](const HostsOwner& o) { return o == b; })}) {
    const HostsText left = ParseHosts(RemoveHostsOwner(both, a, lives).text);
    ASSERT_EQ(left.blocks.size(), 1u);
    EXPECT_EQ(left.blocks[0].job, "train");
    EXPECT_EQ(left.blocks[0].owners, std::vector<HostsOwner>{b});
    EXPECT_EQ(left.rest, "x\n");
  }
  // No owner of anything: nothing changes.
  EXPECT_EQ(RemoveHostsOwner(both, Owner("c"), kAllLive).text, both);
}

TEST(HostsOwner, ReadsBackAsItIsWritten) {
  HostsOwner owner = Owner("a-1.b");
  EXPECT_EQ(ParseHostsOwner(FormatHostsOwner(owner)), owner);
  owner.boot_id.clear();
  owner.node.clear();
  EXPECT_EQ(ParseHostsOwner(FormatHostsOwner(owner)), owner);
  for (const char* text : {"", "pid=1", "pid=x start=1 pidns=1", "pid"}) {
    EXPECT_EQ(ParseHostsOwner(text), std::nullopt) << text;
  }
}

// As a power cut leaves it, on a node that is a spare from then on.
TEST_F(HostsFileTest, DeadBlocksGoWithoutABlockOfOnesOwn) {
  const std::string rest = "127.0.0.1 localhost\n";
  HostsOwner dead = ThisOwner("z");
  dead.boot_id = "an-earlier-boot";
  const std::string living =
      Put(rest, MakeWorld({{"a", "10.0.0.1"}}, 1, "lives"), ThisOwner("a"));
  Write(Put(living, world_, dead));
  const std::vector<HostsBlock> found = File().DeadBlocks();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].job, "train");
  ASSERT_TRUE(File().RemoveDead(&warnings_).ok());
  EXPECT_EQ(Read(), living);
  EXPECT_TRUE(File().DeadBlocks().empty());
  // Nothing is locked or written for nothing.
  options_.lock_folders = {folder_ + "/none"};
  EXPECT_TRUE(File().RemoveDead(&warnings_).ok());
  EXPECT_TRUE(warnings_.empty());
}

// What every container has: a hosts file that is a mount point.
TEST_F(HostsFileTest, WritesInPlaceOverABindMount) {
  Write("127.0.0.1 localhost\n");
  const std::string source = folder_ + "/source";
  std::ofstream(source) << "127.0.0.1 localhost\n";
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount(source.c_str(), path_.c_str(), nullptr, MS_BIND, nullptr) != 0) {
      _exit(77);
    }
    const HostsOwner owner = ThisOwner("a");
    std::vector<std::string> warnings;
    if (rename(source.c_str(), path_.c_str()) == 0 || errno != EBUSY) _exit(2);
    if (!File().Write(world_, 0, NoneFound(world_), owner, &warnings).ok())
      _exit(3);
    if (ParseHosts(Read()).blocks.size() != 1) _exit(4);
    if (!File().Remove("train", "r1", owner, &warnings).ok()) _exit(5);
    if (Read() != "127.0.0.1 localhost\n") _exit(6);
    // Made by us and a mount point: it cannot go, so it is left empty.
    std::ofstream(path_, std::ios::trunc).flush();
    EXPECT_TRUE(EditFile(path_, options_, [](const std::string&, bool) {
                  return EditedText{"", true};
                }).ok());
    _exit(access(path_.c_str(), F_OK) == 0 ? 0 : 7);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "NOTICE: this user may not make a mount namespace; the "
                    "bind mount was not tried";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(Leftovers(), std::vector<std::string>{"source"});
}

TEST(HostsOwner, LivesAsLongAsItsProcess) {
  const HostsOwner self = ThisOwner("a");
  EXPECT_TRUE(HostsOwnerLives(self));
  HostsOwner owner = self;
  owner.start_ticks += 1;
  EXPECT_FALSE(HostsOwnerLives(owner)) << "its pid was given to another";
  owner = self;
  owner.boot_id = "another boot";
  EXPECT_FALSE(HostsOwnerLives(owner));
  owner = self;
  owner.pid_namespace += 1;
  owner.pid = 1 << 30;
  EXPECT_TRUE(HostsOwnerLives(owner)) << "another container: cannot be judged";
  owner = self;
  owner.pid = 1 << 30;
  EXPECT_FALSE(HostsOwnerLives(owner));
  owner.pid = -1;
  EXPECT_FALSE(HostsOwnerLives(owner)) << "never a process group";
}

}  // namespace
}  // namespace rollcall
