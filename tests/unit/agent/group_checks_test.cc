#include "client/agent/group_checks.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "client/agent/processes/process_tree/sweep.h"
#include "daemon/base/durations.h"
#include "tests/unit/living.h"

namespace rollcall {
namespace {

std::string TextOf(const std::optional<v1::AgentMessage>& message) {
  if (!message.has_value()) return "";
  if (message->has_group_listening()) {
    return "listening " + std::to_string(message->group_listening().port());
  }
  const v1::GroupChecked& checked = message->group_checked();
  if (!checked.error().empty()) {
    return (checked.peer() ? "peer: " : "failed: ") + checked.error();
  }
  return absl::FormatDuration(FromProto(checked.product())) + " " +
         absl::FormatDuration(FromProto(checked.all_reduce()));
}

TEST(GroupLine, IsReadWithinBounds) {
  const struct {
    const char* line;
    const char* text;
  } kRows[] = {
      {R"({"listening": 4000})", "listening 4000"},
      {R"({"listening": 0})", ""},
      {R"({"listening": 65536})", ""},
      {R"({"listening": -1})", ""},
      {R"({"listening": "4000"})", ""},
      {R"({"product_s": 0.5, "all_reduce_s": 0.001})", "500ms 1ms"},
      {R"({"product_s": 1, "all_reduce_s": 2})", "1s 2s"},
      {R"({"product_s": 0, "all_reduce_s": 2})", ""},
      {R"({"product_s": -1, "all_reduce_s": 2})", ""},
      {R"({"product_s": 1e9, "all_reduce_s": 2})", ""},
      {R"({"product_s": 1e999, "all_reduce_s": 2})", ""},
      // Checked alone.
      {R"({"product_s": 1})", "1s 0"},
      {R"({"product_s": 1, "all_reduce_s": "2"})", ""},
      {R"({"all_reduce_s": 1})", ""},
      {R"({"error": "no memory", "peer": false})", "failed: no memory"},
      {R"({"error": "b has left", "peer": true})", "peer: b has left"},
      {R"({"error": ""})", "failed: it gave no reason"},
      {R"({"error": "x\u001b[2J", "peer": 1})", "failed: x?[2J"},
      {R"({"error": 1})", ""},
      {"[]", ""},
      {"7", ""},
      {"hello", ""},
      {"", ""},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(TextOf(ReadGroupLine(row.line, 3)), row.text) << row.line;
  }
}

class GroupChecksTest : public testing::Test {
 protected:
  // A program that runs this shell script.
  GroupChecks Checks(const std::string& script) {
    const std::string path = folder_.path() + "/program";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    chmod(path.c_str(), 0755);
    return GroupChecks({path, std::nullopt}, [this](v1::AgentMessage m) {
      std::lock_guard lock(mutex_);
      if (m.has_group_checked()) done_.set_value(m.group_checked());
      said_.push_back(TextOf(m));
    });
  }
  v1::GroupCheck Check(absl::Duration limit = absl::Seconds(60)) {
    v1::GroupCheck check;
    check.set_round(3);
    check.add_addresses("10.0.0.1");
    check.add_addresses("10.0.0.2");
    check.set_place(1);
    check.set_port(4000);
    check.set_secret(std::string(16, '\x01'));
    ToProto(limit, check.mutable_limit());
    return check;
  }
  std::string File(const std::string& name) const {
    std::ifstream file(folder_.path() + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TempFolder folder_;
  std::promise<v1::GroupChecked> done_;
  std::mutex mutex_;
  std::vector<std::string> said_;
};

TEST_F(GroupChecksTest, PassesOnWhatTheProgramReports) {
  GroupChecks checks = Checks("echo \"$1\" > " + folder_.path() + "/argv\n" +
                              "echo \"$ROLLCALL_GROUP_CHECK, $OTHER\" > " +
                              folder_.path() + "/env\n" +
                              R"(echo 'noise'; echo '{"listening": 4001}'
         echo '{"product_s": 0.5, "all_reduce_s": 0.25}'; exec sleep 600)");
  checks.Run(Check(), {"PATH=/usr/bin:/bin", "OTHER=value"});
  EXPECT_EQ(done_.get_future().get().round(), 3u);
  std::lock_guard lock(mutex_);
  EXPECT_EQ(said_.front(), "listening 4001");
  EXPECT_EQ(File("argv"), "--check-group\n");
  EXPECT_EQ(File("env"),
            "1 4000 60000 01010101010101010101010101010101 10.0.0.1 10.0.0.2, "
            "value\n");
}

TEST_F(GroupChecksTest, AProgramThatEndsWithoutAnAnswerHasFailed) {
  GroupChecks checks = Checks("echo 'a line'; echo 'no library' >&2; exit 7");
  checks.Run(Check(), {"PATH=/usr/bin:/bin"});
  const v1::GroupChecked checked = done_.get_future().get();
  EXPECT_FALSE(checked.peer());
  EXPECT_EQ(checked.error(), "rollcall-train ended with code 7: no library");
}

TEST_F(GroupChecksTest, AMissingProgramHasFailed) {
  GroupChecks checks = Checks("");
  unlink((folder_.path() + "/program").c_str());
  checks.Run(Check(), {"PATH=/usr/bin:/bin"});
  EXPECT_TRUE(
      absl::StrContains(done_.get_future().get().error(), "no such file"));
}

// It is stopped, so it does not see a signal other than SIGKILL; its child
// closes no pipe.
TEST_F(GroupChecksTest, AProgramThatHangsIsKilledWithItsChildren) {
  GroupChecks checks =
      Checks("echo $$ > " + folder_.path() + "/pid; sleep 600 & kill -STOP $$");
  checks.Run(Check(absl::Milliseconds(300)), {"PATH=/usr/bin:/bin"});
  EXPECT_EQ(done_.get_future().get().error(),
            "rollcall-train did not end within 300ms");
  EXPECT_EQ(StartTicks(std::stoi(File("pid"))), 0u);
}

TEST_F(GroupChecksTest, ANewerRoundTakesThePlaceOfTheCurrentOne) {
  GroupChecks checks = Checks(
      R"(case "$ROLLCALL_GROUP_CHECK" in *10.0.0.9*)
           echo '{"product_s": 0.5, "all_reduce_s": 0.25}';; esac
         exec sleep 600)");
  checks.Run(Check(), {"PATH=/usr/bin:/bin"});
  checks.End();
  checks.Run(Check(), {"PATH=/usr/bin:/bin"});
  v1::GroupCheck next = Check();
  next.set_round(4);
  next.set_addresses(0, "10.0.0.9");
  checks.Run(next, {"PATH=/usr/bin:/bin"});
  EXPECT_EQ(done_.get_future().get().round(), 4u);
  // The destructor ends the program.
}

}  // namespace
}  // namespace rollcall
