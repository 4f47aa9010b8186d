#include "daemon/base/processes/proc_stat.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/name_list.h"

namespace rollcall {
namespace {

TEST(ProcStat, ItIsReadWhateverTheName) {
  char before[16] = "";
  prctl(PR_GET_NAME, before);
  for (const char* name : {"plain", "a) Z 1 1", ") X (", "a b"}) {
    prctl(PR_SET_NAME, name);
    const auto stat =
        ReadProcStat(absl::StrCat("/proc/", getpid(), "/task/", gettid()));
    ASSERT_TRUE(stat.has_value()) << name;
    EXPECT_EQ(stat->state, 'R') << name;
    EXPECT_EQ(stat->parent, getppid()) << name;
    EXPECT_EQ(stat->group, getpgrp()) << name;
    EXPECT_EQ(stat->session, getsid(0)) << name;
    EXPECT_GE(stat->threads, 1) << name;
    EXPECT_GT(stat->start_ticks, 0u) << name;
    EXPECT_NE(stat->environment_end, 0u) << name;
    EXPECT_TRUE(stat->Alive());
    EXPECT_FALSE(stat->OfTheKernel());
  }
  prctl(PR_SET_NAME, before);
}

TEST(ProcStat, AStoppedOneAZombieAndNone) {
  const pid_t pid = fork();
  if (pid == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  EXPECT_EQ(ReadProcStat(pid)->state, 'T');
  kill(pid, SIGCONT);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(ReadProcStat(pid)->state, 'Z');
  EXPECT_FALSE(ReadProcStat(pid)->Alive());
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_FALSE(ReadProcStat(pid).has_value());
}

TEST(NameList, ManyAreCut) {
  EXPECT_EQ(NameList({}, 2), "");
  EXPECT_EQ(NameList({"a", "b"}, 2), "a, b");
  EXPECT_EQ(NameList({"a", "b", "c", "d"}, 2), "a, b and 2 more");
}

}  // namespace
}  // namespace rollcall
