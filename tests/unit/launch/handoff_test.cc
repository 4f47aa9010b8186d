// Tests what the launcher's side of ssh sends to the host's side.
#include "client/launch/spawn/handoff.h"

#include <gtest/gtest.h>

#include <string>

#include "client/launch/spawn/ssh_process.h"

namespace rollcall {
namespace {

TEST(Handoff, EveryByteArrives) {
  Handoff sent;
  sent.join_string = "rc1.abc";
  sent.folder = "/a b\n/c";
  sent.environment = {"A=b c", "EMPTY=", std::string("B=\xff\0\n", 5)};
  sent.arguments = {"agent", "", "--", "go\n", "'\"$HOME"};
  const auto got = ParseHandoff(FormatHandoff(sent));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->join_string, sent.join_string);
  EXPECT_EQ(got->folder, sent.folder);
  EXPECT_EQ(got->environment, sent.environment);
  EXPECT_EQ(got->arguments, sent.arguments);
}

TEST(Handoff, ShowsNoWordInPlain) {
  Handoff handoff;
  handoff.join_string = "rc1.secret";
  handoff.arguments = {"train"};
  const std::string text = FormatHandoff(handoff);
  EXPECT_EQ(text.find("secret"), std::string::npos);
  // Whatever the words are, the end marker occurs only at the end.
  EXPECT_EQ(text.find("go\n"), text.size() - 3);
}

TEST(Handoff, AnythingElseIsRefused) {
  for (const char* text :
       {"", "go", "join cmMx\n", "join ***\ngo\n", "word cmMx\ngo\n"}) {
    EXPECT_EQ(ParseHandoff(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(SshProcess, WordsForAShell) {
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("a b"), "'a b'");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
}

}  // namespace
}  // namespace rollcall
