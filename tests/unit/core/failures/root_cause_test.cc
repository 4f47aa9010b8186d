#include "daemon/core/failures/root_cause.h"

#include <gtest/gtest.h>

#include <csignal>

namespace rollcall {
namespace {

TEST(RootCause, ClassifiesWeighsAndGivesTheExitCode) {
  struct Row {
    const char* what;
    int code;
    int signal;
    const char* stderr_tail;
    v1::ReasonCode reason;
    int weight;
    int exit_code;
  };
  const Row kRows[] = {
      {"plain exit", 3, 0, "", v1::REASON_CODE_RANK_EXIT, 2, 3},
      {"killed", 0, SIGKILL, "", v1::REASON_CODE_RANK_SIGNAL, 3, 137},
      {"segv", 0, SIGSEGV, "", v1::REASON_CODE_RANK_SIGNAL, 3, 139},
      {"bus", 0, SIGBUS, "", v1::REASON_CODE_RANK_SIGNAL, 3, 135},
      {"terminated", 0, SIGTERM, "", v1::REASON_CODE_RANK_SIGNAL, 2, 143},
      {"killed while it spoke of NCCL", 0, SIGKILL, "NCCL error",
       v1::REASON_CODE_RANK_SIGNAL, 3, 137},
      {"a peer went", 1, 0, "RuntimeError: Connection reset by peer",
       v1::REASON_CODE_RANK_COMMUNICATION, 1, 1},
      {"gloo", 1, 0, "[gloo/transport/tcp/pair.cc:598] Connection closed by",
       v1::REASON_CODE_RANK_COMMUNICATION, 1, 1},
      {"watchdog abort", 0, SIGABRT, "torch.distributed.DistBackendError",
       v1::REASON_CODE_RANK_COMMUNICATION, 1, 134},
      {"gpu", 1, 0, "CUDA error: an illegal memory access",
       v1::REASON_CODE_GPU_ERROR, 3, 1},
      {"not found", 127, 0, "", v1::REASON_CODE_NOT_STARTED, 2, 127},
  };
  for (const Row& row : kRows) {
    v1::RankExited exited;
    exited.set_code(row.code);
    exited.set_signal(row.signal);
    exited.set_stderr_tail(row.stderr_tail);
    EXPECT_EQ(Classify(exited), row.reason) << row.what;
    const v1::RootCause cause = CauseOfRank("n", 5, exited);
    EXPECT_EQ(Weight(cause), row.weight) << row.what;
    EXPECT_EQ(ExitCodeOf(cause), row.exit_code) << row.what;
    EXPECT_EQ(cause.rank(), 5);
  }
}

TEST(RootCause, OfASetUpCommand) {
  const struct {
    int code;
    int signal;
    bool timed_out;
    uint32_t tries;
    int exit_code;
    const char* text;
  } kRows[] = {
      {7, 0, false, 1, 7, "the set-up command on n exited with code 7"},
      {7, 0, false, 3, 7,
       "the set-up command on n exited with code 7 (3 tries)"},
      {0, SIGKILL, false, 1, 137,
       "the set-up command on n was ended by signal 9"},
      {124, 0, true, 2, 124,
       "the set-up command on n was ended because its time was over (2 tries); "
       "raise --setup-timeout if it needs longer"},
  };
  for (const auto& row : kRows) {
    v1::SetupEnded ended;
    ended.set_code(row.code);
    ended.set_signal(row.signal);
    ended.set_timed_out(row.timed_out);
    ended.set_tries(row.tries);
    const v1::RootCause cause = CauseOfSetup("n", ended);
    EXPECT_EQ(ExitCodeOf(ended), row.exit_code) << row.text;
    EXPECT_EQ(ExitCodeOf(cause), row.exit_code) << row.text;
    EXPECT_EQ(Describe(cause), row.text);
    EXPECT_FALSE(IsLostNode(cause)) << row.text;
    EXPECT_EQ(cause.rank(), -1) << row.text;
  }
}

TEST(RootCause, ARankThatIsGoneIsNoExit) {
  v1::RankExited exited;
  exited.set_code(1);
  exited.set_gone(true);
  exited.set_stderr_tail("NCCL error");
  EXPECT_EQ(Classify(exited), v1::REASON_CODE_RANK_GONE);
  const v1::RootCause cause = CauseOfRank("n", 5, exited);
  EXPECT_EQ(Weight(cause), 3);
  EXPECT_EQ(ExitCodeOf(cause), 1);
  EXPECT_EQ(Describe(cause),
            "rank 5 on n is gone: its connection to its agent ended");
  exited.set_error_file("the agent ended it");
  EXPECT_EQ(Describe(CauseOfRank("n", 5, exited)),
            "rank 5 on n is gone: the agent ended it");
}

TEST(RootCause, TheOomKillerOutranksWhatTheRankSays) {
  struct Row {
    int code;
    int signal;
  };
  for (const Row& row : {Row{0, SIGKILL}, Row{137, 0}}) {
    v1::RankExited exited;
    exited.set_code(row.code);
    exited.set_signal(row.signal);
    exited.set_stderr_tail("CUDA error");
    exited.set_error_file("killed");
    exited.set_out_of_memory("peak 2 MiB, limit 2 MiB (cgroup /c)");
    const v1::RootCause cause = CauseOfRank("n", 5, exited);
    EXPECT_EQ(cause.code(), v1::REASON_CODE_OUT_OF_MEMORY);
    EXPECT_EQ(Weight(cause), 3);
    EXPECT_EQ(ExitCodeOf(cause), 137);
    EXPECT_EQ(Describe(cause),
              "rank 5 on n was killed by the kernel for memory (OOM killer): "
              "peak 2 MiB, limit 2 MiB (cgroup /c)");
  }
}

TEST(RootCause, ALostNodeIsHeaviest) {
  const v1::RootCause cause =
      CauseOfLostNode("n", v1::REASON_CODE_LOST_LEASE, "silent", 1);
  EXPECT_EQ(Weight(cause), 4);
  EXPECT_EQ(ExitCodeOf(cause), 69);
}

TEST(RootCause, AHangHasACodeToExitWith) {
  EXPECT_EQ(ExitCodeOf(CauseOfHang("n", 0, "it is stopped", 1)), 1);
}

TEST(RootCause, AHangOfNobodyIsNoLostNode) {
  const v1::RootCause somebodys = CauseOfHang("n", 3, "it is stopped", 4);
  EXPECT_EQ(Describe(somebodys), "rank 3 on n made no progress: it is stopped");
  const v1::RootCause nobodys = CauseOfHang("", -1, "all wait", 4);
  EXPECT_EQ(Describe(nobodys), "no rank made progress: all wait");
  EXPECT_FALSE(IsLostNode(nobodys));
  EXPECT_EQ(ExitCodeOf(nobodys), 1);
  EXPECT_EQ(Weight(nobodys), 3);
  EXPECT_TRUE(IsLostNode(
      CauseOfLostNode("n", v1::REASON_CODE_LOST_LEASE, "silent", 1)));
}

}  // namespace
}  // namespace rollcall
