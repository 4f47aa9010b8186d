#include "client/cli/flags/argv.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/nearest.h"

namespace rollcall {
namespace {

TEST(Argv, JoinStringIsOverwrittenBeforeTheCommandOnly) {
  std::string a = "rollcall", b = "join", c = "rc1.secret", d = "--",
              e = "rc1.mine";
  char* argv[] = {a.data(), b.data(), c.data(), d.data(), e.data()};
  HideSecrets(5, argv);
  EXPECT_EQ(c, "rc1.xxxxxx");
  EXPECT_EQ(e, "rc1.mine");
  // White space from a paste does not change the secret.
  for (const std::string around : {" ", "\n", "\t \r\n"}) {
    std::string pasted = around + "rc1.secret" + around;
    char* const again[] = {a.data(), b.data(), pasted.data()};
    HideSecrets(3, const_cast<char**>(again));
    EXPECT_EQ(pasted, around + "rc1.xxxxxx" + around);
  }
}

TEST(Argv, TextsAreShownWithoutJoinStrings) {
  const struct {
    const char* text;
    const char* shown;
  } kRows[] = {
      {"", ""},
      {"no join string", "no join string"},
      {"rc1.Ab-_9", "rc1.[hidden]"},
      {"unexpected word 'rc1.Ab9'; as in ` -- rc1.Ab9`",
       "unexpected word 'rc1.[hidden]'; as in ` -- rc1.[hidden]`"},
      {"--endpoint=rc1.Ab9 and rc1. begins it, rc1.Ab9rc1.Ab9",
       "--endpoint=rc1.[hidden] and rc1. begins it, rc1.[hidden]"},
      {"rc1.rc1.Ab9", "rc1.[hidden]"},
      {"rc1", "rc1"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(WithoutJoinStrings(row.text), row.shown) << row.text;
  }
}

TEST(Argv, Nodes) {
  struct {
    const char* text;
    bool good;
    uint32_t min, max;
  } const rows[] = {
      {"4", true, 4, 4},           {"3:4", true, 3, 4},
      {"1:16384", true, 1, 16384}, {"0", false, 0, 0},
      {"4:3", false, 0, 0},        {"", false, 0, 0},
      {"1:2:3", false, 0, 0},      {"16385", false, 0, 0},
      {"-1", false, 0, 0},         {"four", false, 0, 0},
  };
  for (const auto& row : rows) {
    auto nodes = ParseNodes(row.text);
    ASSERT_EQ(nodes.ok(), row.good) << row.text;
    if (!row.good) continue;
    EXPECT_EQ(nodes->min, row.min) << row.text;
    EXPECT_EQ(nodes->max, row.max) << row.text;
  }
}

TEST(Argv, Durations) {
  EXPECT_EQ(*ParseDurationFlag("--t", "90"), absl::Seconds(90));
  EXPECT_EQ(*ParseDurationFlag("--t", "10m"), absl::Minutes(10));
  EXPECT_EQ(*ParseDurationFlag("--t", "1h30m"), absl::Minutes(90));
  for (const char* bad : {"", "0", "-5s", "soon", "nan", "inf", "1e300"}) {
    EXPECT_FALSE(ParseDurationFlag("--t", bad).ok()) << bad;
  }
  EXPECT_TRUE(ParseDurationFlag("--t", "1h", absl::Hours(1)).ok());
  for (const char* bad : {"61m", "3601"}) {
    const absl::Status status =
        ParseDurationFlag("--t", bad, absl::Hours(1)).status();
    EXPECT_EQ(
        status.message(),
        absl::StrCat("--t takes a duration of at most 1h, not '", bad, "'"));
  }
}

TEST(Argv, Signals) {
  for (const char* good : {"TERM", "SIGTERM", "sigterm", "term", "15"}) {
    EXPECT_EQ(*ParseSignalFlag("--s", good), 15) << good;
  }
  EXPECT_EQ(*ParseSignalFlag("--s", "USR1"), 10);
  EXPECT_EQ(*ParseSignalFlag("--s", "40"), 40);
  // No process can handle signals 9 and 19.
  for (const char* bad : {"", "0", "-1", "65", "9", "KILL", "SIGSTOP", "19",
                          "SIG", "TERMINATE", "15s", "99999999999"}) {
    EXPECT_FALSE(ParseSignalFlag("--s", bad).ok()) << bad;
  }
}

TEST(Argv, NearestWord) {
  const std::vector<std::string> known = {"--nodes", "--no-hosts",
                                          "--nproc-per-node", "--job"};
  EXPECT_EQ(Nearest("--nprocs-per-node", known), "--nproc-per-node");
  EXPECT_EQ(Nearest("--ndoes", known), "--nodes");
  EXPECT_EQ(Nearest("--no-host", known), "--no-hosts");
  EXPECT_EQ(Nearest("--zzzzzzzzzzz", known), std::nullopt);
}

}  // namespace
}  // namespace rollcall
