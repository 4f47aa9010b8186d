#include "daemon/base/processes/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "daemon/base/library.h"

namespace rollcall {
namespace {

absl::StatusOr<ChildProcess> Shell(const std::string& script) {
  return ChildProcess::Spawn("/bin/sh", {"sh", "-c", script}, {"A=b"});
}

constexpr size_t kMany = 1 << 20;

TEST(ChildProcess, AnAnswerIsReadToItsEnd) {
  auto child = Shell("echo $A; exec echo end");
  ASSERT_TRUE(child.ok()) << child.status();
  std::string answer;
  EXPECT_TRUE(child->Read(absl::Seconds(60), kMany, nullptr, -1, answer).ok());
  EXPECT_EQ(answer, "b\nend\n");
  const ChildProcess::Ending ending = child->End(absl::Seconds(60));
  EXPECT_TRUE(ending.reaped);
  EXPECT_EQ(ending.code, 0);
  EXPECT_EQ(ending.signal, 0);
}

TEST(ChildProcess, HowItEndedIsTold) {
  auto fails = Shell("exit 7");
  ASSERT_TRUE(fails.ok());
  EXPECT_EQ(fails->End(absl::Seconds(60)).Text(), "with code 7");
  auto dies = Shell("kill -11 $$");
  ASSERT_TRUE(dies.ok());
  EXPECT_EQ(dies->End(absl::Seconds(60)).Text(), "by signal 11");
  // This child does not end by itself.
  auto waits = Shell("exec cat");
  ASSERT_TRUE(waits.ok());
  EXPECT_EQ(waits->End(absl::Milliseconds(1)).Text(), "by signal 9");
}

// As on a kernel before 5.3.
TEST(ChildProcess, ItIsKilledInTimeWithoutAPidfd) {
  auto waits = Shell("exec sleep 5");
  ASSERT_TRUE(waits.ok());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const ChildProcess::Ending ending = waits->End(absl::Milliseconds(1));
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(ending.Text(), "by signal 9");
}

TEST(ChildProcess, AReadEndsInTime) {
  auto silent = Shell("exec cat");
  ASSERT_TRUE(silent.ok());
  std::string answer;
  EXPECT_EQ(
      silent->Read(absl::Milliseconds(20), kMany, nullptr, -1, answer).code(),
      absl::StatusCode::kDeadlineExceeded);

  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_EQ(
      silent->Read(absl::Seconds(600), kMany, nullptr, ends[0], answer).code(),
      absl::StatusCode::kCancelled);
  close(ends[0]);
  close(ends[1]);

  auto endless = Shell("while :; do echo 0123456789; done");
  ASSERT_TRUE(endless.ok());
  EXPECT_EQ(endless->Read(absl::Seconds(600), 1000, nullptr, -1, answer).code(),
            absl::StatusCode::kResourceExhausted);

  auto half = Shell("echo half");
  ASSERT_TRUE(half.ok());
  answer.clear();
  const auto whole = [](const std::string& text) {
    return absl::EndsWith(text, "whole\n");
  };
  EXPECT_EQ(half->Read(absl::Seconds(60), kMany, whole, -1, answer).code(),
            absl::StatusCode::kAborted);
  EXPECT_EQ(answer, "half\n");
}

TEST(ChildProcess, WhatItHasStartedGoesWithIt) {
  auto child = Shell("tail -f /dev/null & echo $!; wait");
  ASSERT_TRUE(child.ok());
  std::string answer;
  ASSERT_TRUE(child
                  ->Read(
                      absl::Seconds(60), kMany,
                      [](const std::string& text) {
                        return absl::EndsWith(text, "\n");
                      },
                      -1, answer)
                  .ok());
  const pid_t grandchild = static_cast<pid_t>(std::stol(answer));
  child->End();
  // The pipe closes only when every process that held it has ended.
  std::string rest;
  EXPECT_TRUE(child->Read(absl::Seconds(60), kMany, nullptr, -1, rest).ok());
  EXPECT_NE(grandchild, 0);
}

TEST(ChildProcess, WhatCannotBeExecutedIsSaid) {
  EXPECT_EQ(ChildProcess::Spawn("/nowhere", {"x"}, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ChildProcess, ACopyAnswersAndEnds) {
  auto copy = ChildProcess::Fork([](int fd) { (void)!write(fd, "here", 4); });
  ASSERT_TRUE(copy.ok());
  std::string answer;
  EXPECT_TRUE(copy->Read(absl::Seconds(60), kMany, nullptr, -1, answer).ok());
  EXPECT_EQ(answer, "here");
  EXPECT_EQ(copy->End(absl::Seconds(60)).Text(), "with code 0");

  auto hangs = ChildProcess::Fork([](int) {
    while (true) pause();
  });
  ASSERT_TRUE(hangs.ok());
  const pid_t pid = hangs->pid();
  EXPECT_EQ(hangs->End().Text(), "by signal 9");
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH) << "killed and reaped";
  EXPECT_FALSE(hangs->End().reaped) << "only once";
}

TEST(Library, TheLoadersWordOnEachNameIsTold) {
  const auto none = Library::Open({"/nowhere/a.so", "/nowhere/b.so"});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(none.status().message(), "/nowhere/a.so"));
  EXPECT_TRUE(absl::StrContains(none.status().message(), "/nowhere/b.so"));
  const auto libc = Library::Open({"/nowhere/a.so", "libc.so.6"});
  ASSERT_TRUE(libc.ok()) << libc.status();
  int (*getpid_of_it)() = nullptr;
  EXPECT_TRUE(libc->Find("getpid", &getpid_of_it).ok());
  ASSERT_NE(getpid_of_it, nullptr);
  EXPECT_EQ(getpid_of_it(), getpid());
  EXPECT_EQ(libc->Find("no_such_symbol", &getpid_of_it).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(getpid_of_it, nullptr);
}

}  // namespace
}  // namespace rollcall
