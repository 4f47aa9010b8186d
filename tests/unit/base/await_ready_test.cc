#include "daemon/base/files/await_ready.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
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
  sigaction(SIGUSR1, &nothing, &before);
  std::atomic<bool> done{false};
  const pthread_t self = pthread_self();
  std::thread sender([&] {
    while (!done) {
      pthread_kill(self, SIGUSR1);
      usleep(1000);
    }
  });
  const Fd fd(eventfd(0, EFD_CLOEXEC));
  EXPECT_FALSE(
      AwaitReady(fd.get(), POLLIN, MonotonicNow() + absl::Milliseconds(100)));
  done = true;
  sender.join();
  sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace rollcall
