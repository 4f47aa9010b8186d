// Tests what rollcall adds to the user's ssh command.
#include "client/launch/spawn/ssh_process.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rollcall {
namespace {

TEST(SshWords, AskNothing) {
  EXPECT_EQ(SshWords("ssh  -p 2"),
            (std::vector<std::string>{"ssh", "-p", "2", "-T", "-o",
                                      "BatchMode=yes"}));
}

TEST(ConnectTimeout, IsSetByAFlag) {
  const struct {
    const char* flag;
    bool expect;
  } rows[] = {
      {"ssh", false},
      {"ssh -p 2 -o ServerAliveInterval=5", false},
      {"ssh -o ConnectTimeout=3", true},
      {"ssh -oconnecttimeout=3", true},
      {"ssh -o \"ConnectTimeout 3\"", true},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(SetsConnectTimeout(SshWords(row.flag)), row.expect) << row.flag;
  }
}

TEST(ConnectTimeout, IsSetByTheConfiguration) {
  const struct {
    const char* printed;
    bool expect;
  } rows[] = {
      {"", false},
      {"host a\nconnecttimeout none\nport 22\n", false},
      {"connecttimeout -1", false},
      {"connecttimeout 0\n", false},
      {"host a\nconnecttimeout 7\n", true},
      // This is another option that has this name as its value, so it does not
      // count.
      {"hostname connecttimeout 7\n", false},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(ConfiguresConnectTimeout(row.printed), row.expect) << row.printed;
  }
}

}  // namespace
}  // namespace rollcall
