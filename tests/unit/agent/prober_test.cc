// Several probers on one machine, over loopback.
#include "client/agent/probe/prober.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/durations.h"
#include "daemon/base/inbox.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

std::string Secret(char letter) {
  return std::string(Limits::probe_bytes, letter);
}

class ProberTest : public testing::Test {
 protected:
  std::unique_ptr<Prober> Start() {
    auto prober = Prober::Start(
        [] {},
        [this](v1::Probed probed) { reports_.PostAlways(std::move(probed)); });
    EXPECT_TRUE(prober.ok()) << prober.status();
    return prober.ok() ? *std::move(prober) : nullptr;
  }

  static v1::Probe Round(char answer, absl::Duration timeout = kPatience) {
    v1::Probe probe;
    probe.set_probe(1);
    probe.set_ask(Secret('q'));
    for (const char* address : {"127.0.0.1", "::1"}) {
      v1::ProbeAnswer& given = *probe.add_answers();
      given.set_address(address);
      given.set_answer(Secret(answer));
    }
    ToProto(timeout, probe.mutable_timeout());
    return probe;
  }

  static void Target(v1::Probe& probe, uint32_t port,
                     const std::string& address = "127.0.0.1") {
    v1::ProbeTarget& target = *probe.add_targets();
    target.set_node("b");
    target.add_addresses(address);
    target.set_port(port);
  }

  v1::Probed Report() {
    std::vector<v1::Probed> reports = reports_.Take(kPatience);
    EXPECT_EQ(reports.size(), 1u);
    return reports.empty() ? v1::Probed() : reports[0];
  }

  Inbox<v1::Probed> reports_{64};
};

// A socket that is bound and does not listen, or listens and never answers.
class Silent {
 public:
  explicit Silent(bool listens) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(name);
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
    EXPECT_EQ(getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&name), &size),
              0);
    if (listens) {
      EXPECT_EQ(listen(fd_.get(), 8), 0);
    }
    port_ = ntohs(name.sin_port);
  }
  uint32_t port() const { return port_; }

 private:
  Fd fd_;
  uint32_t port_ = 0;
};

TEST_F(ProberTest, EachHearsTheOthersAnswer) {
  const auto a = Start();
  const auto b = Start();
  b->Run(Round('b'));
  v1::Probe probe = Round('a');
  Target(probe, b->port());
  Target(probe, b->port(), "::1");
  a->Run(probe);
  const v1::Probed report = Report();
  EXPECT_EQ(report.probe(), 1u);
  ASSERT_EQ(report.results_size(), 2);
  for (const v1::ProbeResult& result : report.results()) {
    EXPECT_EQ(result.answer(), Secret('b')) << result.address();
    EXPECT_GT(FromProto(result.round_trip()), absl::ZeroDuration());
    EXPECT_EQ(result.error(), "");
  }
}

// The daemon tells both nodes at once, but one may receive it later.
TEST_F(ProberTest, OneThatIsAskedTooEarlyAnswersOnceItKnows) {
  const auto a = Start();
  const auto b = Start();
  v1::Probe probe = Round('a');
  Target(probe, b->port());
  a->Run(probe);
  EXPECT_TRUE(reports_.Take(absl::Milliseconds(100)).empty());
  b->Run(Round('b'));
  EXPECT_EQ(Report().results(0).answer(), Secret('b'));
}

TEST_F(ProberTest, SaysWhyAnAddressIsNotReached) {
  const auto a = Start();
  const Silent closed(false);
  const Silent mute(true);
  v1::Probe probe = Round('a', absl::Seconds(1));
  Target(probe, closed.port());
  Target(probe, mute.port());
  Target(probe, 1, "not-an-address");
  a->Run(probe);
  const v1::Probed report = Report();
  std::set<std::string> errors;
  for (const v1::ProbeResult& result : report.results()) {
    EXPECT_EQ(result.answer(), "");
    errors.insert(result.error());
  }
  EXPECT_EQ(errors, (std::set<std::string>{"Connection refused",
                                           "connected, but no answer in time",
                                           "not an address"}));
}

TEST_F(ProberTest, AnswersNobodyWhoDoesNotKnowTheQuestion) {
  const auto a = Start();
  const auto b = Start();
  b->Run(Round('b'));
  v1::Probe stranger = Round('a', absl::Seconds(1));
  stranger.set_ask(Secret('x'));
  Target(stranger, b->port());
  a->Run(stranger);
  EXPECT_EQ(Report().results(0).answer(), "");
}

TEST_F(ProberTest, ANewRoundTakesThePlaceOfOneThatIsUnderWay) {
  const auto a = Start();
  const auto b = Start();
  const Silent mute(true);
  v1::Probe first = Round('a');
  Target(first, mute.port());
  a->Run(first);
  b->Run(Round('b'));
  v1::Probe second = Round('a');
  second.set_probe(2);
  Target(second, b->port());
  a->Run(second);
  const v1::Probed report = Report();
  EXPECT_EQ(report.probe(), 2u);
  EXPECT_EQ(report.results(0).answer(), Secret('b'));
}

TEST_F(ProberTest, ManyTargetsAndCallersAreServed) {
  const auto a = Start();
  const auto b = Start();
  b->Run(Round('b'));
  v1::Probe probe = Round('a');
  for (size_t i = 0; i < Limits::probe_targets_max; ++i) {
    Target(probe, b->port());
    for (size_t j = 1; j < Limits::probe_addresses_max; ++j) {
      probe.mutable_targets(static_cast<int>(i))->add_addresses("127.0.0.1");
    }
  }
  a->Run(probe);
  const v1::Probed report = Report();
  EXPECT_EQ(static_cast<size_t>(report.results_size()),
            Limits::probe_targets_max * Limits::probe_addresses_max);
  for (const v1::ProbeResult& result : report.results()) {
    EXPECT_EQ(result.answer(), Secret('b')) << result.error();
  }
}

// Connects as many probers as a node has when all pairs are probed, before the
// node itself knows of the round.
TEST_F(ProberTest, AllWaitUntilTheNodeHearsOfTheRound) {
  rlimit files;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4096);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  const auto b = Start();
  std::vector<std::unique_ptr<Prober>> callers;
  for (const char name : {'a', 'c'}) {
    callers.push_back(Start());
    v1::Probe probe = Round(name);
    for (int i = 0; i < 31; ++i) {
      Target(probe, b->port());
      for (size_t j = 1; j < Limits::probe_addresses_max; ++j) {
        probe.mutable_targets(i)->add_addresses("127.0.0.1");
      }
    }
    callers.back()->Run(probe);
  }
  EXPECT_TRUE(reports_.Take(absl::Milliseconds(300)).empty());
  b->Run(Round('b'));
  std::vector<v1::Probed> reports;
  while (reports.size() < callers.size()) {
    std::vector<v1::Probed> more = reports_.Take(kPatience);
    ASSERT_FALSE(more.empty());
    reports.insert(reports.end(), more.begin(), more.end());
  }
  for (const v1::Probed& report : reports) {
    EXPECT_EQ(report.results_size(), 31 * 8);
    for (const v1::ProbeResult& result : report.results()) {
      EXPECT_EQ(result.answer(), Secret('b')) << result.error();
    }
  }
}

// Addresses that do not answer must not keep other targets from being tried.
TEST_F(ProberTest, TheFirstAddressOfEachTargetIsTriedFirst) {
  const auto a = Start();
  const auto b = Start();
  b->Run(Round('b'));
  const Silent mute(true);
  v1::Probe probe = Round('a', absl::Seconds(2));
  // There are more targets than are dialled at once.
  const int targets = static_cast<int>(Limits::probe_targets_max);
  for (int i = 0; i < targets; ++i) {
    Target(probe, i % 2 == 0 ? mute.port() : b->port());
    for (size_t j = 1; j < Limits::probe_addresses_max; ++j) {
      probe.mutable_targets(i)->add_addresses("127.0.0.1");
    }
  }
  a->Run(probe);
  const v1::Probed report = Report();
  int answered = 0;
  for (const v1::ProbeResult& result : report.results()) {
    answered += result.answer() == Secret('b');
  }
  EXPECT_GE(answered, targets / 2);
}

// Callers from one address connect faster than they are closed.
TEST_F(ProberTest, AFloodOfCallersKeepsNobodyWaiting) {
  const auto a = Start();
  auto b = Start();
  b->Run(Round('b'));
  std::atomic<bool> ending = false;
  std::vector<std::thread> flood;
  for (int i = 0; i < 3; ++i) {
    flood.emplace_back([&, port = b->port()] {
      while (!ending) {
        const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_addr.s_addr = htonl(0x7f000002);
        to.sin_port = htons(static_cast<uint16_t>(port));
        // Closes with a reset, so that no TIME_WAIT is left.
        const linger off{1, 0};
        setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &off, sizeof(off));
        connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to));
      }
    });
  }
  v1::Probe probe = Round('a');
  Target(probe, b->port());
  a->Run(probe);
  EXPECT_EQ(Report().results(0).answer(), Secret('b'));
  b.reset();
  ending = true;
  for (std::thread& each : flood) each.join();
}

TEST_F(ProberTest, EndsInTheMiddle) {
  const Silent mute(true);
  auto a = Start();
  v1::Probe probe = Round('a');
  Target(probe, mute.port());
  a->Run(probe);
  a.reset();
  EXPECT_TRUE(reports_.Take(absl::ZeroDuration()).empty());
}

}  // namespace
}  // namespace rollcall
