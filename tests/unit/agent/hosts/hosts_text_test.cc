#include "client/agent/hosts/hosts_text.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/unit/agent/hosts/hosts_fixture.h"

namespace rollcall {
namespace {

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
  // The block comes first, so a tool that inserts after line 1 inserts into it.
  const v1::World world = MakeWorld({{"a", "10.0.0.1"}, {"b", "10.0.0.2"}});
  const std::string rest = "127.0.0.1 localhost\n";
  std::string edited = Put(rest, world);
  // The last three have an alias of the job, but rollcall writes none of them.
  const std::string inserted =
      "10.0.0.5 storage\n# mine\n"
      "10.0.0.6 caf\xe9 node-0.train.rollcall\n"
      "10.0.0.6 box node-0.train.rollcall # mine\n"
      "fe80::1%caf\xe9 node-0.train.rollcall\n";
  edited.insert(edited.find('\n') + 1, inserted);
  const std::string kept = inserted + rest;
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
      // A peer chooses its name itself, so it must not take this machine's
      // hostname.
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

// A hosts file ignores case, so the second node could take the first one's
// name.
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

// The system's parser stops at the zero byte and would read this as 10.0.0.2.
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
  // A later generation keeps this mark. If there are other lines, the file
  // stays.
  const std::string later = Put(made, MakeWorld({{"a", "10.0.0.1"}}, 2));
  EXPECT_TRUE(
      RemoveHostsBlock(later, "train", "r1", Owner("a"), kAllLive).remove_file);
  const HostsChange change =
      RemoveHostsBlock(later + "x\n", "train", "r1", Owner("a"), kAllLive);
  EXPECT_FALSE(change.remove_file);
  EXPECT_EQ(change.text, "x\n");
  // The same holds for another job's block if it is removed last.
  const std::string two =
      Put(made, MakeWorld({{"b", "10.0.0.2"}}, 1, "other"), Owner("b", 2));
  const std::string left = Take(two);
  EXPECT_TRUE(RemoveHostsBlock(left, "other", "r1", Owner("b", 2), kAllLive)
                  .remove_file);
  EXPECT_FALSE(
      RemoveHostsBlock(Put("", world), "train", "r1", Owner("a"), kAllLive)
          .remove_file);
}

// Whatever byte the block is cut at, nothing of the block is left, and no other
// line is lost except those that the cut itself removed.
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
  // The end marker was deleted. Lines that are not rollcall's stay.
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

// One name of each kind is left out. The aliases are always written.
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
  // Names that the operator listed are written.
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

TEST(HostsText, AnOwnerIsTakenOffAllItsBlocks) {
  const HostsOwner a = Owner("a"), b = Owner("b", 101);
  const v1::World world = MakeWorld({{"a", "10.0.0.1"}});
  const std::string shared = Put(Put("x\n", world, a), world, b);
  const std::string both =
      Put(shared, MakeWorld({{"a", "10.0.0.1"}}, 1, "own"), a);
  ASSERT_EQ(ParseHosts(both).blocks.size(), 2u);
  // The owner is dead by then, but `lives` may still report it as alive.
  for (const OwnerLives& lives :
       {kAllLive, OwnerLives([&](const HostsOwner& o) { return o == b; })}) {
    const HostsText left = ParseHosts(RemoveHostsOwner(both, a, lives).text);
    ASSERT_EQ(left.blocks.size(), 1u);
    EXPECT_EQ(left.blocks[0].job, "train");
    EXPECT_EQ(left.blocks[0].owners, std::vector<HostsOwner>{b});
    EXPECT_EQ(left.rest, "x\n");
  }
  // This owner has no block, so nothing changes.
  EXPECT_EQ(RemoveHostsOwner(both, Owner("c"), kAllLive).text, both);
}

}  // namespace
}  // namespace rollcall
