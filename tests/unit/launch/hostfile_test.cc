// Tests the hosts of --hostfile.
#include "client/launch/spawn/hostfile.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// Returns `TARGET NAME SLOTS` for each host, separated by `;`.
std::string Describe(const absl::StatusOr<std::vector<Host>>& hosts) {
  if (!hosts.ok()) return std::string(hosts.status().message());
  return absl::StrJoin(*hosts, "; ", [](std::string* to, const Host& host) {
    absl::StrAppend(to, host.target, " ", host.name, " ", host.slots);
  });
}

TEST(Hostfile, AsMpirunAndDeepSpeedWriteIt) {
  const struct {
    const char* text;
    const char* expect;
  } rows[] = {
      {"a", "a a 0"},
      {"# all\n\na slots=8\r\n  b\tslots=4  # spare\n", "a a 8; b b 4"},
      {"me@node-1.lan slots=2\n10.0.0.7",
       "me@node-1.lan node-1.lan 2; "
       "10.0.0.7 10.0.0.7 0"},
      {"gateway name=n1 slots=64", "gateway n1 64"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Describe(ParseHostfile(row.text)), row.expect) << row.text;
  }
}

TEST(Hostfile, AMistakeIsNamedWithItsLine) {
  const struct {
    const char* text;
    const char* expect;
  } rows[] = {
      {"", "names no host"},
      {"# nothing\n \n", "names no host"},
      {"a\nb slots=0", "line 2: expected slots=1 to slots=64"},
      {"a slots=65", "got 'slots=65'"},
      {"a slots=x", "got 'slots=x'"},
      {"a max_slots=2", "got 'max_slots=2'"},
      {"a b", "line 1: expected `[USER@]HOST"},
      {"a slots=2 slots=4",
       "line 1: expected slots= once, got 'slots=4' as well"},
      {"a name=b slots=2 name=b", "line 1: expected name= once, got 'name=b'"},
      {"a\n\na", "line 3: a is there twice"},
      {"a\nx@a", "line 2: a is there twice"},
      {"a name=n\nb name=n", "n is there twice"},
      {"a name=a/b", "line 1: "},
      {"fd00::1", "name=NODE"},
      // ssh would take this for a flag.
      {"-oProxyCommand=x", "expected a host"},
  };
  for (const auto& row : rows) {
    const auto hosts = ParseHostfile(row.text);
    EXPECT_EQ(hosts.status().code(), absl::StatusCode::kInvalidArgument)
        << row.text;
    EXPECT_TRUE(absl::StrContains(hosts.status().message(), row.expect))
        << row.text << ": " << hosts.status();
  }
}

TEST(Hostfile, HasAsManyHostsAsAJobMayHaveNodes) {
  std::string text;
  for (uint32_t i = 0; i < Limits::nodes_max; ++i) {
    absl::StrAppend(&text, "n", i, "\n");
  }
  EXPECT_TRUE(ParseHostfile(text).ok());
  EXPECT_FALSE(ParseHostfile(text + "more").ok());
}

TEST(Hostfile, ALineIsWrittenAsItWasRead) {
  for (const char* line :
       {"a", "me@a slots=8", "a slots=8 name=n", "10.0.0.1 name=n"}) {
    const auto hosts = ParseHostfile(line);
    ASSERT_TRUE(hosts.ok()) << line;
    EXPECT_EQ(FormatHost(hosts->front()), line);
  }
}

TEST(Hostfile, ThisMachineIsFoundByItsName) {
  const struct {
    const char* line;
    bool expect;
  } rows[] = {
      {"localhost", true}, {"127.0.0.1", true}, {"n1.lan", true},
      {"me@n1", true},     {"n1 name=x", true}, {"n2", false},
      {"n1.other", false}, {"n", false},        {"x name=n1", false},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(IsThisMachine(ParseHostfile(row.line)->front(), "n1.lan"),
              row.expect)
        << row.line;
  }
  EXPECT_FALSE(IsThisMachine(ParseHostfile("n1")->front(), ""));
}

}  // namespace
}  // namespace rollcall
