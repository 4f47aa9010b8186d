#include "client/agent/node_checks.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/node_files/rank_folders.h"
#include "daemon/core/limits.h"
#include "tests/unit/living.h"

namespace rollcall {
namespace {

using Severity = v1::CheckFinding::Severity;

// Facts of a healthy node without GPUs.
v1::Facts WellFacts() {
  v1::Facts facts;
  facts.set_boot_id("3f2c");
  facts.set_network_namespace(1);
  return facts;
}

std::map<std::string, Severity> Check(const NodeChecksOptions& options,
                                      const v1::Facts& facts = WellFacts()) {
  std::map<std::string, Severity> severities;
  for (const v1::CheckFinding& finding : CheckNode(options, facts)) {
    severities[finding.check()] = finding.severity();
    EXPECT_EQ(finding.text().empty(),
              finding.severity() == v1::CheckFinding::SEVERITY_OK)
        << finding.text();
  }
  return severities;
}

TEST(NodeChecks, SayWhatMakesANodeUseless) {
  TempFolder folder;
  NodeChecksOptions options;
  options.run_folder = folder / "run";
  options.log_dir = folder / "logs";
  const std::map<std::string, Severity> fine = {
      {"process", v1::CheckFinding::SEVERITY_OK},
      {"run-folder", v1::CheckFinding::SEVERITY_OK},
      {"log-folder", v1::CheckFinding::SEVERITY_OK}};
  EXPECT_EQ(Check(options), fine);
  // The check removes the files that it made.
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));

  std::ofstream(folder / "file") << "in the way";
  options.run_folder = options.log_dir = folder / "file/below";
  options.gpus = 1000;
  auto bad = fine;
  bad["run-folder"] = bad["gpus"] = v1::CheckFinding::SEVERITY_FATAL;
  bad["log-folder"] = v1::CheckFinding::SEVERITY_WARNING;
  EXPECT_EQ(Check(options), bad);
}

// A check that only warns is no reason to exclude a node.
TEST(NodeChecks, ReportWhatIsFatalToTheDoctor) {
  TempFolder folder;
  NodeChecksOptions options;
  options.run_folder = folder.path();
  v1::Facts facts = WellFacts();
  facts.mutable_limits()->set_nofile(64);
  facts.set_gpu_count(8);
  v1::MissingFact& missing = *facts.add_missing();
  missing.set_fact("gpus");
  missing.set_reason("nvmlInit_v2: Driver/library version mismatch");
  const std::map<std::string, Severity> expected = {
      {"process", v1::CheckFinding::SEVERITY_OK},
      {"run-folder", v1::CheckFinding::SEVERITY_OK},
      {"gpu-nvml", v1::CheckFinding::SEVERITY_FATAL}};
  EXPECT_EQ(Check(options, facts), expected);
}

// A rank can write to the run folder, and knows its agent's pid.
TEST(NodeChecks, DoNotWaitAtAPipeThatARankHasMade) {
  TempFolder folder;
  const std::string pipe = absl::StrCat(folder / ".check-", getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  NodeChecksOptions options;
  options.run_folder = folder.path();
  // Without a reader, open() would block until the test's time limit ends the
  // test.
  EXPECT_EQ(Check(options)["run-folder"], v1::CheckFinding::SEVERITY_OK);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST(NodeChecks, AnswersFromAThreadOfItsOwn) {
  TempFolder folder;
  NodeChecksOptions options;
  options.run_folder = folder.path();
  std::promise<ChecksDone> done;
  NodeChecks checks(options, [&](ChecksDone answer) {
    if (answer.report.request() == 8) done.set_value(std::move(answer));
  });
  checks.Run(7);
  checks.Run(8);
  const v1::CheckReport report = done.get_future().get().report;
  // There is no log folder.
  ASSERT_GE(report.findings_size(), 2);
  EXPECT_EQ(report.findings(0).check(), "process");
  EXPECT_EQ(report.findings(1).check(), "run-folder");
  // The facts on which the report is based.
  EXPECT_FALSE(report.facts().interfaces().empty());
  EXPECT_FALSE(report.facts().boot_id().empty());
}

class RankFoldersTest : public testing::Test {
 protected:
  RankFoldersTest() : run_(*RunFolder::Make(folder_.path())), folders_(*run_) {}

  void Begin(uint64_t generation, const std::vector<RankIncarnation>& waiting) {
    const std::string path =
        run_->path() + "/gen-" + std::to_string(generation);
    std::filesystem::create_directory(path);
    RankFiles files;
    files.notice_file = path + "/notice";
    files.progress_files = {path + "/0", path + "/1"};
    folders_.Begin(generation, files, waiting);
  }
  std::string Of(uint64_t generation, const std::string& name) {
    return run_->path() + "/gen-" + std::to_string(generation) + "/" + name;
  }

  TempFolder folder_;
  std::unique_ptr<RunFolder> run_;
  RankFolders folders_;
};

TEST_F(RankFoldersTest, StayWhileSomebodyWhoKnowsThemLives) {
  Begin(1, {});
  Begin(2, {{1, 0}});
  EXPECT_TRUE(std::filesystem::exists(Of(1, "")));
  EXPECT_TRUE(folders_.WriteNotice({{1, 0}}, "stop", absl::Seconds(1)).ok());
  EXPECT_NE(ReadFile(Of(1, "notice")).find("\"stop\""), std::string::npos);
  EXPECT_EQ(ReadFile(Of(2, "notice")), "");
  EXPECT_TRUE(folders_.WriteNotice({}, "drain", absl::Seconds(1)).ok());
  EXPECT_NE(ReadFile(Of(1, "notice")).find("\"drain\""), std::string::npos);
  EXPECT_NE(ReadFile(Of(2, "notice")).find("\"drain\""), std::string::npos);
  Begin(3, {{2, 0}});
  EXPECT_FALSE(std::filesystem::exists(Of(1, "")));
  EXPECT_TRUE(std::filesystem::exists(Of(2, "")));
}

TEST_F(RankFoldersTest, ANoticeIsOverWithItsGeneration) {
  Begin(1, {});
  EXPECT_TRUE(folders_.WriteNotice({}, "grow", absl::Seconds(1)).ok());
  Begin(2, {{1, 0}});
  EXPECT_FALSE(std::filesystem::exists(Of(1, "notice")));
}

TEST_F(RankFoldersTest, ProgressOnlyGrows) {
  // The ranks that have written, with the highest step so far.
  using Told = std::vector<std::pair<uint32_t, uint64_t>>;
  const auto sample = [this] {
    Told told;
    for (const RankProgressed& progressed : folders_.Sample()) {
      EXPECT_EQ(progressed.generation, 1u);
      told.emplace_back(progressed.local_rank, progressed.step);
    }
    return told;
  };
  Begin(1, {});
  EXPECT_EQ(sample(), Told());
  std::ofstream(Of(1, "0")) << "4\n";
  std::ofstream(Of(1, "1")) << "seven";
  EXPECT_EQ(sample(), (Told{{0, 4}, {1, 0}}));
  EXPECT_EQ(sample(), Told());
  std::ofstream(Of(1, "1")) << "7 more";
  EXPECT_EQ(sample(), (Told{{1, 7}}));
  std::ofstream(Of(1, "1")) << "5 once more";
  EXPECT_EQ(sample(), (Told{{1, 7}}));
  // A number above the highest possible step is ignored.
  std::ofstream(Of(1, "1")) << Limits::step_max + 1;
  EXPECT_EQ(sample(), (Told{{1, 7}}));
  std::ofstream(Of(1, "1")) << Limits::step_max;
  EXPECT_EQ(sample(), (Told{{1, Limits::step_max}}));
}

}  // namespace
}  // namespace rollcall
