#include "daemon/base/processes/signal_pipe.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

namespace rollcall {
namespace {

TEST(SignalPipe, GivesEachSignalOnce) {
  SignalPipe pipe({SIGTERM, SIGINT});
  EXPECT_EQ(pipe.Read(), 0);
  raise(SIGTERM);
  raise(SIGINT);
  EXPECT_EQ(pipe.Read(), SIGTERM);
  EXPECT_EQ(pipe.Read(), SIGINT);
  EXPECT_EQ(pipe.Read(), 0);
}

TEST(SignalPipe, SignalsAfterItHaveNoEffect) {
  const auto exit_after_signals = [] {
    { SignalPipe pipe({SIGTERM, SIGINT}); }
    for (const int signal : {SIGTERM, SIGINT, SIGPIPE}) raise(signal);
    exit(3);
  };
  EXPECT_EXIT(exit_after_signals(), testing::ExitedWithCode(3), "");
}

TEST(SignalPipe, LeavesAnIgnoredHangupIgnored) {
  const auto exit_after_hangup = [] {
    signal(SIGHUP, SIG_IGN);
    SignalPipe pipe({SIGHUP});
    raise(SIGHUP);
    exit(pipe.Read());
  };
  EXPECT_EXIT(exit_after_hangup(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace rollcall
