// The doctor's output, for people and for programs.
#include "client/doctor/doctor_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

using Lines = std::vector<std::string>;

const std::vector<Finding> kFindings = {
    {"proc", Severity::kOk, "node", "mounted", "", "", ""},
    {"nofile", Severity::kWarning, "node", "1024", "65535 at least",
     "A large world ends.", "Raise it."},
    {"hca-rate", Severity::kWarning, "mlx5_1 port 1", "200 Gb/s", "400 Gb/s",
     "Slow.", "Change the cable."},
    {"hca-rate", Severity::kWarning, "mlx5_2 port 1", "200 Gb/s", "400 Gb/s",
     "Slow.", "Change the cable."},
    {"swap", Severity::kUnknown, "node", "not said", "", "", ""},
    {"gpus", Severity::kNotApplicable, "node", "no NVIDIA GPU here", "", "",
     ""},
    {"hca-lid", Severity::kRetryable, "mlx5_0 port 1", "LID 0", "a LID",
     "No peer finds it.", "Start a subnet manager."},
    {"memlock", Severity::kFatal, "node", "8 MiB", "unlimited",
     "ibv_reg_mr fails.", "Raise that."},
};

TEST(DoctorText, WorstFirstAndMendsOnce) {
  EXPECT_EQ(Lines(absl::StrSplit(DoctorTable(kFindings, false), '\n')),
            (Lines{
                "SEVERITY   CHECK     SUBJECT        FOUND",
                "fatal      memlock   node           8 MiB; expected unlimited",
                "retryable  hca-lid   mlx5_0 port 1  LID 0; expected a LID",
                "warning    nofile    node           1024; expected 65535 at "
                "least",
                "warning    hca-rate  mlx5_1 port 1  200 Gb/s; expected 400 "
                "Gb/s",
                "warning    hca-rate  mlx5_2 port 1  200 Gb/s; expected 400 "
                "Gb/s",
                "unknown    swap      node           not said",
                "",
                "How to fix it:",
                "  memlock: ibv_reg_mr fails.",
                "    Raise that.",
                "  hca-lid: No peer finds it.",
                "    Start a subnet manager.",
                "  nofile: A large world ends.",
                "    Raise it.",
                "  hca-rate: Slow.",
                "    Change the cable.",
                "",
                "1 fatal, 1 retryable, 3 warning, 1 unknown, 1 ok, 1 not "
                "applicable",
                "",
            }));
}

TEST(DoctorText, LongMendsAreWrapped) {
  const std::string word(30, 'w');
  const std::string words = word + " " + word + " " + word;
  const Lines lines = absl::StrSplit(
      DoctorTable({{"a", Severity::kFatal, "n", "f", "e", words, words}},
                  false),
      '\n');
  EXPECT_EQ(Lines(lines.begin() + 4, lines.begin() + 8),
            (Lines{"  a: " + word + " " + word, "  " + word,
                   "    " + word + " " + word, "    " + word}));
}

TEST(DoctorText, AllShowsTheRestBelow) {
  const Lines lines = absl::StrSplit(DoctorTable(kFindings, true), '\n');
  EXPECT_EQ(lines[5],
            "warning         hca-rate  mlx5_2 port 1  200 Gb/s; "
            "expected 400 Gb/s");
  EXPECT_EQ(lines[6], "unknown         swap      node           not said");
  EXPECT_EQ(lines[7], "ok              proc      node           mounted");
  EXPECT_EQ(lines[8],
            "not applicable  gpus      node           no NVIDIA GPU here");
}

TEST(DoctorText, WithoutAnythingWrongOnlyCounts) {
  EXPECT_EQ(DoctorTable({kFindings[0], kFindings[5]}, false),
            "0 fatal, 0 retryable, 0 warning, 0 unknown, 1 ok, 1 not "
            "applicable\n");
}

TEST(DoctorText, Json) {
  const nlohmann::ordered_json json = DoctorJson("node7", kFindings);
  EXPECT_EQ(json["node"], "node7");
  EXPECT_EQ(json["verdict"], "fatal");
  EXPECT_EQ(json["exit_code"], 30);
  EXPECT_EQ(json["counts"].dump(),
            R"({"fatal":1,"retryable":1,"warning":3,"unknown":1,"ok":1,)"
            R"("not applicable":1})");
  ASSERT_EQ(json["findings"].size(), kFindings.size());
  EXPECT_EQ(json["findings"][0].dump(),
            R"({"check":"memlock","severity":"fatal","subject":"node",)"
            R"("found":"8 MiB","expected":"unlimited",)"
            R"("why":"ibv_reg_mr fails.","mend":"Raise that."})");
  EXPECT_EQ(json["findings"][7]["severity"], "not applicable");
}

TEST(DoctorText, ExitCodes) {
  const struct {
    Severity worst;
    int code;
    const char* verdict;
  } kRows[] = {{Severity::kNotApplicable, 0, "ok"},
               {Severity::kOk, 0, "ok"},
               {Severity::kUnknown, 10, "unknown"},
               {Severity::kWarning, 10, "warning"},
               {Severity::kRetryable, 20, "retryable"},
               {Severity::kFatal, 30, "fatal"}};
  for (const auto& row : kRows) {
    const std::vector<Finding> findings = {
        {"a", Severity::kOk, "n", "f", "", "", ""},
        {"b", row.worst, "n", "f", "", "", ""}};
    EXPECT_EQ(ExitCode(Worst(findings)), row.code) << row.verdict;
    EXPECT_EQ(DoctorJson("n", findings)["exit_code"], row.code);
    EXPECT_EQ(DoctorJson("n", findings)["verdict"], row.verdict);
  }
  EXPECT_EQ(ExitCode(Worst({})), 0);
}

// A device or a library may return any text, so it must not reach the terminal
// unchanged.
TEST(DoctorText, IsFitForATerminal) {
  const std::vector<Finding> findings = {{"a", Severity::kFatal, "mlx\x1b[2J",
                                          "two\nlines", "x\r", "y\x07",
                                          "\xff"}};
  EXPECT_EQ(Lines(absl::StrSplit(DoctorTable(findings, false), '\n'))[1],
            "fatal     a      mlx?[2J  two?lines; expected x?");
  EXPECT_EQ(OneLineText(findings[0]), "mlx?[2J: two?lines; expected x?; ?");
  EXPECT_EQ(DoctorJson("a\nb", findings)["node"], "a?b");
  EXPECT_EQ(DoctorJson("a", findings)["findings"][0]["mend"], "?");
}

}  // namespace
}  // namespace rollcall
