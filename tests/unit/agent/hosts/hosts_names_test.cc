#include "client/agent/hosts/hosts_names.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/hosts/hosts_resolver.h"
#include "daemon/base/mutex.h"

namespace rollcall {
namespace {

using Kind = NameAnswer::Kind;
using V = NameVerdict;

const NameAnswer kNone = {Kind::kNotFound, {}};
const NameAnswer kUnknown = {Kind::kUnclear, {}};
NameAnswer At(std::set<std::string> addresses) {
  return {Kind::kFound, std::move(addresses)};
}

TEST(HostsNames, WhichBareNamesAreWritten) {
  struct Row {
    const char* what;
    NameCase one;
    NameVerdict expect;
  };
  const auto one = [](const std::string& name, NameAnswer answer,
                      std::set<std::string> in_file = {}) {
    NameCase made;
    made.name = name;
    made.address = "10.0.0.2";
    made.answer = std::move(answer);
    made.in_file = std::move(in_file);
    return made;
  };
  const auto own = [](NameCase made) {
    made.own = true;
    return made;
  };
  const auto ours = [](NameCase made) {
    made.our_hostname = true;
    return made;
  };
  const auto listed = [](NameCase made) {
    made.listed = true;
    return made;
  };
  const auto taken = [](NameCase made) {
    made.taken = true;
    return made;
  };
  const auto of = [](NameCase made, size_t nodes) {
    made.nodes = nodes;
    return made;
  };
  const Row kRows[] = {
      {"nobody knows it", one("b", kNone), V::kWrite},
      {"the resolver agrees", one("b", At({"10.0.0.2"})), V::kWrite},
      {"among others", one("b", At({"10.0.0.2", "fd00::2"})), V::kWrite},
      {"the resolver does not", one("b", At({"10.0.0.9"})),
       V::kResolverElsewhere},
      {"found without an address", one("b", At({})), V::kUnclear},
      {"no clear answer", one("b", kUnknown), V::kUnclear},
      {"the file agrees", one("b", kNone, {"10.0.0.2"}), V::kWrite},
      {"the file does not", one("b", kNone, {"10.0.0.9"}), V::kFileElsewhere},
      {"a peer on loopback", one("b", kNone, {"127.0.1.1"}), V::kFileElsewhere},
      {"a peer that resolves to loopback", one("b", At({"127.0.0.1"})),
       V::kResolverElsewhere},
      {"own, on loopback in the file", own(one("b", kNone, {"127.0.1.1"})),
       V::kWrite},
      {"own, resolved to loopback", own(one("b", At({"127.0.1.1", "::1"}))),
       V::kWrite},
      {"own, resolved elsewhere", own(one("b", At({"10.0.0.9"}))),
       V::kResolverElsewhere},
      {"own, elsewhere and on loopback",
       own(one("b", kNone, {"127.0.1.1", "10.0.0.9"})), V::kFileElsewhere},
      {"our hostname, nobody knows it", ours(one("b", kNone)), V::kOurHostname},
      {"our hostname, on loopback in the file",
       ours(one("b", kNone, {"127.0.1.1"})), V::kFileElsewhere},
      {"our hostname, the resolver agrees", ours(one("b", At({"10.0.0.2"}))),
       V::kOurHostname},
      {"our hostname, listed", listed(ours(one("b", kNone))), V::kWrite},
      {"several labels", one("archive.internal.example.com", kNone),
       V::kDotted},
      {"several labels, the resolver agrees",
       one("b.example.com", At({"10.0.0.2"})), V::kDotted},
      {"own, several labels", own(one("b.example.com", kNone)), V::kDotted},
      {"listed, several labels", listed(one("b.example.com", kUnknown)),
       V::kWrite},
      {"listed, the resolver does not", listed(one("b", At({"10.0.0.9"}))),
       V::kWrite},
      {"listed, the file does not", listed(one("b", kNone, {"10.0.0.9"})),
       V::kWrite},
      {"listed, in a large world", listed(of(one("b", kUnknown), 1000)),
       V::kWrite},
      {"listed, and still localhost", listed(one("localhost", kNone)),
       V::kLocalhost},
      {"listed, and still an address", listed(one("10.0.0.7", kNone)),
       V::kIsAddress},
      {"listed, and taken", listed(taken(one("b", kNone))), V::kTaken},
      {"taken", taken(one("b", kNone)), V::kTaken},
      {"localhost", one("x.localhost", kNone), V::kLocalhost},
      {"64 nodes", of(one("b", kNone), 64), V::kWrite},
      {"65 nodes", of(one("b", kNone), 65), V::kLargeWorld},
      {"65 nodes, the file does not", of(one("b", kNone, {"10.0.0.9"}), 65),
       V::kFileElsewhere},
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(DecideName(row.one), row.expect) << row.what;
  }
}

TEST(HostsNames, AsksForNamesOfOneLabelInWorldsOfUpTo64Nodes) {
  v1::World world;
  for (const char* name :
       {"A", "b.example.com", "localhost", "c", "a", "b c", "listed"}) {
    world.add_members()->set_node(name);
  }
  EXPECT_EQ(NamesToAsk(world, {"listed"}),
            (std::vector<std::string>{"a", "c"}));
  while (world.members_size() < 65) world.add_members()->set_node("n");
  EXPECT_TRUE(NamesToAsk(world, {}).empty());
}

// --- The resolver ------------------------------------------------------------

// Lookups that block until the test releases them.
class Hanging {
 public:
  NameAnswer LookUp(const NameQuestion&) {
    MutexLock lock(mutex_);
    ++begun_;
    changed_.NotifyAll();
    while (!open_) changed_.Wait(mutex_);
    ++ended_;
    changed_.NotifyAll();
    return kNone;
  }
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
    while (ended_ < begun_) changed_.Wait(mutex_);
  }
  size_t begun() {
    MutexLock lock(mutex_);
    return begun_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  size_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(SystemResolver, OneThatHangsHoldsNobodyUpAndTakesNoMoreThreads) {
  const auto hanging = std::make_shared<Hanging>();
  SystemResolver resolver([hanging](const NameQuestion& question) {
    return hanging->LookUp(question);
  });
  for (int round = 0; round < 4; ++round) {
    std::vector<NameQuestion> questions;
    for (int i = 0; i < 40; ++i) {
      questions.push_back({absl::StrCat("n", round, "-", i)});
    }
    const auto answers = resolver.Ask(questions, absl::Milliseconds(1));
    ASSERT_EQ(answers.size(), questions.size());
    for (const auto& [name, answer] : answers) {
      EXPECT_EQ(answer, kUnknown) << name;
    }
    EXPECT_LE(resolver.running(), SystemResolver::kLookupsMax);
  }
  EXPECT_EQ(resolver.running(), SystemResolver::kLookupsMax);
  hanging->Open();
  EXPECT_LE(hanging->begun(), SystemResolver::kLookupsMax);
}

TEST(SystemResolver, AsksDnsWhereTheSystemDoes) {
  EXPECT_TRUE(AsksDns(""));
  EXPECT_TRUE(AsksDns("passwd: files\nhosts:\tfiles dns\n"));
  EXPECT_TRUE(AsksDns("hosts: files resolve [!UNAVAIL=return] dns"));
  EXPECT_FALSE(AsksDns("hosts: files # dns\nnetworks: dns"));
  EXPECT_FALSE(AsksDns("hosts: files myhostname\n"));
}

TEST(SystemResolver, AsksAgainOnlyWhereTheAnswerMayChange) {
  std::atomic<int> asked = 0;
  SystemResolver resolver([&asked](const NameQuestion& question) {
    ++asked;
    return question.name == "here" ? At({"10.0.0.2"}) : kNone;
  });
  for (int round = 0; round < 2; ++round) {
    const auto answers = resolver.Ask({{"here"}, {"gone"}}, absl::Seconds(60));
    EXPECT_EQ(answers.at("here"), At({"10.0.0.2"}));
    EXPECT_EQ(answers.at("gone"), kNone);
  }
  EXPECT_EQ(asked, 3);
}

TEST(SystemResolver, ReadsADnsReply) {
  // b.example has an alias record that points to the name in the question, and
  // then its addresses.
  std::string reply("\x12\x34\x81\x80\0\1\0\3\0\0\0\0", 12);
  reply += std::string("\1b\7example\0\0\1\0\1", 15);
  reply += std::string("\xc0\x0c\0\5\0\1\0\0\0\1\0\2\xc0\x0c", 14);
  reply += std::string("\xc0\x0c\0\1\0\1\0\0\0\1\0\4\x0a\0\0\2", 16);
  reply += std::string("\1b\0\0\x1c\0\1\0\0\0\1\0\x10", 13) +
           std::string("\xfd", 1) + std::string(14, '\0') + "\2";
  NameAnswer answer;
  EXPECT_TRUE(ReadDnsReply(reply, answer));
  EXPECT_EQ(answer, At({"10.0.0.2", "fd00::2"}));
  for (size_t size = 0; size < reply.size(); ++size) {
    NameAnswer cut;
    EXPECT_FALSE(ReadDnsReply(reply.substr(0, size), cut)) << size;
  }
}

TEST(SystemResolver, FindsWhatTheFileSays) {
  const NameAnswer answer = LookUpName({"localhost"});
  EXPECT_EQ(answer.kind, Kind::kFound);
  EXPECT_TRUE(answer.addresses.contains("127.0.0.1") ||
              answer.addresses.contains("::1"));
}

}  // namespace
}  // namespace rollcall
