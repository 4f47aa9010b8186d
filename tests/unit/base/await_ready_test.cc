#include "daemon/base/files/await_ready.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/time.h>

#include <thread>

#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/files/fd.h"
#include "gtest/gtest.h"

namespace rollcall {
namespace {

TEST(AwaitReady, ReturnsWhetherTheEventCame) {
  const Fd fd(eventfd(0, EFD_CLOEXEC));
  EXPECT_TRUE(AwaitReady(fd.get(), POLLOUT, absl::InfiniteFuture()));
  EXPECT_FALSE(
      AwaitReady(fd.get(), POLLIN, MonotonicNow() + absl::Milliseconds(1)));
  EXPECT_FALSE(AwaitReady(fd.get(), POLLOUT, MonotonicNow()));
  std::thread writer([&] { eventfd_write(fd.get(), 1); });
  EXPECT_TRUE(AwaitReady(fd.get(), POLLIN, absl::InfiniteFuture()));
  writer.join();
}

TEST(AwaitReady, SignalsDoNotExtendTheLimit) {
  struct sigaction nothing = {};
  struct sigaction before = {};
  nothing.sa_handler = [](int) {};
  sigaction(SIGALRM, &nothing, &before);
  const itimerval every_millisecond = {{0, 1000}, {0, 1000}};
  const itimerval never = {};
  setitimer(ITIMER_REAL, &every_millisecond, nullptr);
  const Fd fd(eventfd(0, EFD_CLOEXEC));
  EXPECT_FALSE(
      AwaitReady(fd.get(), POLLIN, MonotonicNow() + absl::Milliseconds(100)));
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
}

}  // namespace
}  // namespace rollcall
