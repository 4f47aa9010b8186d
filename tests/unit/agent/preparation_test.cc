// This binary is its own `mint-nccl-id` child; see main at the end.
#include "client/agent/preparation.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "client/agent/hosts/edit_file.h"
#include "client/agent/hosts/hosts_text.h"
#include "client/agent/nccl/nccl.h"
#include "client/agent/node_files/master_port.h"
#include "daemon/base/clock.h"
#include "daemon/base/inbox.h"

extern char** environ;

namespace rollcall {
namespace {

using Outcome = std::variant<PreparationDone, PreparationFailed>;

v1::World MakeWorld(uint64_t generation, uint32_t ranks = 1) {
  v1::World world;
  world.set_job("train");
  world.set_run("r1");
  world.set_generation(generation);
  for (uint32_t i = 0; i < 2; ++i) {
    auto& member = *world.add_members();
    member.set_node(i == 0 ? "a" : "b");
    member.set_node_rank(i);
    member.set_ranks(ranks);
    member.set_first_rank(i * ranks);
    member.set_address(i == 0 ? "10.0.0.1" : "10.0.0.2");
  }
  world.set_world_size(2 * ranks);
  return world;
}

// Answers with what the test has set, and knows no other name.
class FakeResolver : public HostsResolver {
 public:
  std::map<std::string, NameAnswer> Ask(
      const std::vector<NameQuestion>& questions, absl::Duration) override {
    std::map<std::string, NameAnswer> told;
    for (const NameQuestion& question : questions) {
      const auto at = answers.find(question.name);
      told[question.name] = at != answers.end()
                                ? at->second
                                : NameAnswer{NameAnswer::Kind::kNotFound, {}};
      asked.push_back(
          absl::StrCat(question.name, question.in_own_block ? "@dns" : ""));
    }
    return told;
  }

  std::map<std::string, NameAnswer> answers;
  // Read this only while nothing is being prepared.
  std::vector<std::string> asked;
};

class PreparationTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/rollcall-prepare-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    options_.node = "a";
    options_.hosts_file = folder_ + "/hosts";
    options_.nccl_library = "fake";
    options_.resolver = resolver_;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      options_.environment.emplace_back(*entry);
    }
    std::ofstream(options_.hosts_file) << kHosts;
  }
  void TearDown() override {
    // Agents keep their lock files, but a test needs none.
    for (const bool others : {false, true}) {
      for (const std::string& folder : LockFolders({geteuid(), others})) {
        unlink((folder + "/" + LockName(folder_ + "/hosts")).c_str());
      }
    }
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<Preparation> Start() {
    return std::make_unique<Preparation>(
        options_, [this](Outcome outcome) { inbox_.PostAlways(outcome); });
  }

  // The next outcome. Fails after a minute.
  PreparationDone Next() {
    if (waiting_.empty()) waiting_ = inbox_.Take(absl::Seconds(60));
    if (waiting_.empty()) {
      ADD_FAILURE() << "no answer";
      return {};
    }
    const Outcome outcome = waiting_.front();
    waiting_.erase(waiting_.begin());
    if (const auto* failed = std::get_if<PreparationFailed>(&outcome)) {
      ADD_FAILURE() << failed->reason;
      return {failed->generation};
    }
    return std::get<PreparationDone>(outcome);
  }

  HostsText Hosts() {
    std::ostringstream text;
    text << std::ifstream(options_.hosts_file).rdbuf();
    return ParseHosts(text.str());
  }

  static bool IsFree(uint32_t port) {
    return MasterPort::Hold({{port, port}}, 0).ok();
  }

  static constexpr char kHosts[] = "127.0.0.1 localhost\n127.0.1.1 a";
  std::string folder_;
  PreparationOptions options_;
  const std::shared_ptr<FakeResolver> resolver_ =
      std::make_shared<FakeResolver>();
  Inbox<Outcome> inbox_{100};
  std::vector<Outcome> waiting_;
};

TEST_F(PreparationTest, ANameThatMeansAnotherAddressGetsItsAliasAlone) {
  std::ofstream(options_.hosts_file) << "127.0.0.1 localhost\n";
  resolver_->answers["b"] = {NameAnswer::Kind::kFound, {"10.0.0.9"}};
  auto preparation = Start();
  preparation->Prepare(MakeWorld(1), 1, NetworkOptions());
  PreparationDone done = Next();
  EXPECT_EQ(Hosts().blocks.at(0).entries,
            "10.0.0.1 a node-0.train.rollcall\n"
            "10.0.0.2 node-1.train.rollcall\n");
  EXPECT_EQ(done.warnings.size(), 1u);
  EXPECT_EQ(resolver_->asked, (std::vector<std::string>{"a", "b"}));
  // The warning is given once. What rollcall's own block says about a name does
  // not count as an answer.
  preparation->Prepare(MakeWorld(2), 1, NetworkOptions());
  done = Next();
  EXPECT_EQ(done.warnings.size(), 0u);
  EXPECT_EQ(resolver_->asked,
            (std::vector<std::string>{"a", "b", "a@dns", "b"}));
}

TEST_F(PreparationTest, AListedNameIsWrittenWhateverItMeans) {
  std::ofstream(options_.hosts_file) << "127.0.0.1 localhost\n";
  resolver_->answers["b"] = {NameAnswer::Kind::kFound, {"10.0.0.9"}};
  options_.hosts_names = {"B"};
  auto preparation = Start();
  preparation->Prepare(MakeWorld(1), 1, NetworkOptions());
  EXPECT_TRUE(Next().warnings.empty());
  EXPECT_EQ(Hosts().blocks.at(0).entries,
            "10.0.0.1 a node-0.train.rollcall\n"
            "10.0.0.2 b node-1.train.rollcall\n");
  EXPECT_EQ(resolver_->asked, std::vector<std::string>{"a"});
}

TEST_F(PreparationTest, NodeRankZeroGetsPortIdsAndNames) {
  auto preparation = Start();
  preparation->Prepare(MakeWorld(1, 65), 0, NetworkOptions());
  const PreparationDone done = Next();
  EXPECT_EQ(done.generation, 1u);
  EXPECT_NE(done.master_port, 0u);
  EXPECT_EQ(done.nccl_ids.size(), 2u) << "130 ranks, one id per 128";
  EXPECT_EQ(done.nccl_version, 12345u);
  EXPECT_EQ(done.nccl_absent, "");
  EXPECT_TRUE(done.warnings.empty());
  EXPECT_FALSE(IsFree(done.master_port));
  EXPECT_EQ(Hosts().blocks.at(0).generation, 1u);

  preparation->ReleasePort(9);
  EXPECT_FALSE(IsFree(done.master_port)) << "of another generation";
  preparation->ReleasePort(1);
  EXPECT_TRUE(IsFree(done.master_port));
  EXPECT_TRUE(preparation->RestoreHosts().empty());
  EXPECT_TRUE(Hosts().blocks.empty());
  EXPECT_EQ(Hosts().rest, kHosts);
}

TEST_F(PreparationTest, OtherNodesGetNamesAlone) {
  auto preparation = Start();
  preparation->Prepare(MakeWorld(1), 1, NetworkOptions());
  const PreparationDone done = Next();
  EXPECT_EQ(done.master_port, 0u);
  EXPECT_TRUE(done.nccl_ids.empty());
  EXPECT_EQ(done.nccl_absent, "");
  EXPECT_EQ(Hosts().blocks.size(), 1u);
}

TEST_F(PreparationTest, EachGenerationReplacesTheLast) {
  auto preparation = Start();
  preparation->Prepare(MakeWorld(1), 0, NetworkOptions());
  const PreparationDone first = Next();
  preparation->Prepare(MakeWorld(2), 0, NetworkOptions());
  const PreparationDone second = Next();
  EXPECT_EQ(second.generation, 2u);
  EXPECT_NE(first.nccl_ids, second.nccl_ids);
  EXPECT_FALSE(IsFree(second.master_port));
  if (first.master_port != second.master_port) {
    EXPECT_TRUE(IsFree(first.master_port));
  }
  EXPECT_EQ(Hosts().blocks.size(), 1u);
  EXPECT_EQ(Hosts().blocks[0].generation, 2u);
  preparation->Undo(1);
  EXPECT_FALSE(IsFree(second.master_port)) << "an older one is undone";
  preparation->Undo(2);
  EXPECT_TRUE(IsFree(second.master_port));
  EXPECT_EQ(Hosts().blocks.size(), 1u) << "the block stays";
}

// A child never answers, and the next generation does not wait for it.
TEST_F(PreparationTest, ASupersededGenerationIsDroppedAndNotAnswered) {
  options_.nccl_library = "silent";
  auto preparation = Start();
  const absl::Time start = MonotonicNow();
  preparation->Prepare(MakeWorld(1), 0, NetworkOptions());
  preparation->Prepare(MakeWorld(2), 0, NetworkOptions());
  preparation->Undo(2);
  preparation->Prepare(MakeWorld(3), 1, NetworkOptions());
  EXPECT_EQ(Next().generation, 3u);
  EXPECT_LT(MonotonicNow() - start, absl::Seconds(9));
}

TEST_F(PreparationTest, EndsAtOnceInTheMiddle) {
  options_.nccl_library = "silent";
  const absl::Time start = MonotonicNow();
  auto preparation = Start();
  preparation->Prepare(MakeWorld(1), 0, NetworkOptions());
  preparation.reset();
  EXPECT_LT(MonotonicNow() - start, absl::Seconds(9));
}

TEST_F(PreparationTest, NothingButThePortFailsIt) {
  options_.self = "/nowhere/rollcall";
  options_.hosts_file = "/nowhere/hosts";
  auto preparation = Start();
  preparation->Prepare(MakeWorld(1), 0, NetworkOptions());
  const PreparationDone done = Next();
  EXPECT_NE(done.master_port, 0u);
  EXPECT_TRUE(done.nccl_ids.empty());
  EXPECT_NE(done.nccl_absent, "");
  EXPECT_EQ(done.warnings.size(), 1u);
  EXPECT_TRUE(preparation->RestoreHosts().empty()) << "nothing was written";
}

TEST_F(PreparationTest, NoHostsFileWhereNoneIsWanted) {
  options_.hosts_file = "";
  auto preparation = Start();
  preparation->Prepare(MakeWorld(1), 1, NetworkOptions());
  EXPECT_TRUE(Next().warnings.empty());
  EXPECT_TRUE(preparation->RestoreHosts().empty());
  options_.hosts_file = folder_ + "/hosts";
  EXPECT_EQ(Hosts().rest, kHosts);
}

TEST_F(PreparationTest, AFileThatChangedMeanwhileKeepsItsNewLines) {
  auto preparation = Start();
  preparation->Prepare(MakeWorld(1), 1, NetworkOptions());
  Next();
  std::ofstream(options_.hosts_file, std::ios::app) << "\n10.9.9.9 new\n";
  EXPECT_TRUE(preparation->RestoreHosts().empty());
  EXPECT_EQ(Hosts().rest, std::string(kHosts) + "\n10.9.9.9 new\n");
}

// With the real library, if there is one. Prints how long it takes to get ids.
TEST_F(PreparationTest, MintsWithTheRealLibrary) {
  options_.nccl_library = "";
  const std::string library = FindNcclLibrary("", options_.environment);
  if (access(library.c_str(), R_OK) != 0) {
    GTEST_SKIP() << "NOTICE: no libnccl.so.2 on this machine; not tried";
  }
  auto preparation = Start();
  for (uint64_t generation = 1; generation <= 5; ++generation) {
    const absl::Time start = MonotonicNow();
    preparation->Prepare(MakeWorld(generation), 0, NetworkOptions());
    const PreparationDone done = Next();
    std::cout << "prepared generation " << generation << " with an NCCL id in "
              << absl::Now() - start << "\n";
    EXPECT_EQ(done.nccl_absent, "");
    EXPECT_EQ(done.nccl_ids.size(), 1u);
  }
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "mint-nccl-id") {
    const std::vector<std::string> arguments(argv + 2, argv + argc);
    if (arguments.back() == "fake") {
      // The ids differ between children.
      rollcall::NcclIds ids;
      ids.version = 12345;
      for (int i = 0; i < std::atoi(arguments[1].c_str()); ++i) {
        std::string id = std::to_string(getpid()) + "-" + std::to_string(i);
        id.resize(128);
        ids.ids.push_back(id);
      }
      const std::string text = rollcall::FormatMintedIds(ids);
      if (write(STDOUT_FILENO, text.data(), text.size()) < 0) return 1;
    }
    if (arguments.back() == "fake" || arguments.back() == "silent") {
      char ignored;
      while (read(STDIN_FILENO, &ignored, 1) > 0) {
      }
      return 0;
    }
    return rollcall::MintNcclIdMain(arguments);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
