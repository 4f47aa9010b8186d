// Keeps a test binary alive when it writes to a socket whose other end is gone.
//
// Gloo writes without MSG_NOSIGNAL, so a peer that closes first would end the
// process with SIGPIPE. The programs of this project handle the signal in main;
// a test binary gets the same here, whichever main it has. A handler, and not
// SIG_IGN, since exec resets a handler: child processes inherit nothing.
#include <gtest/gtest.h>
#include <signal.h>

namespace rollcall {
namespace {

class SigpipeIgnored : public testing::Environment {
 public:
  void SetUp() override {
    signal(SIGPIPE, [](int) {});
  }
};

[[maybe_unused]] const testing::Environment* const kSigpipeIgnored =
    testing::AddGlobalTestEnvironment(new SigpipeIgnored);

}  // namespace
}  // namespace rollcall
