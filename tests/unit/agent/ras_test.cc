#include "client/agent/nccl/ras.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/files/fd.h"

namespace rollcall {
namespace {

// An answer that lists this process with `begun` collectives, and another
// process with 5.
std::string Answer(uint64_t begun, pid_t pid = getpid()) {
  return absl::StrCat(
      "{\"communicators\": [{\"hash\": \"x\", \"size\": 2, \"ranks\": "
      "[{\"rank\": "
      "0, \"host\": \"127.0.0.1\", \"pid\": ",
      pid, ", \"collective_counts\": {\"AllReduce\": ", begun,
      "}}, {\"rank\": 1, \"host\": \"127.0.0.1\", \"pid\": 1, "
      "\"collective_counts\": {\"AllReduce\": 5}}], \"missing_ranks\": "
      "[]}]}\n");
}

// A service that gives each connection the next of its answers. The last answer
// is repeated.
class Service {
 public:
  struct Script {
    std::string greeting = "SERVER PROTOCOL 2\n";
    std::string format = "OK\n";
    std::string answer;
    bool silent = false;  // It accepts, but sends nothing.
  };

  explicit Service(std::vector<Script> scripts)
      : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        scripts_(std::move(scripts)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address),
                   sizeof address),
              0);
    EXPECT_EQ(listen(listener_.get(), 16), 0);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Run(); });
  }
  ~Service() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

  std::string address() const { return absl::StrCat("localhost:", port_); }
  int connections() const { return connections_; }

 private:
  static std::string Line(int from) {
    std::string line;
    for (char c; read(from, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  static void Say(int to, const std::string& text) {
    (void)!send(to, text.data(), text.size(), MSG_NOSIGNAL);
  }

  void Run() {
    for (;;) {
      const Fd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.open()) return;
      const size_t last = scripts_.size() - 1;
      const Script& script =
          scripts_[std::min<size_t>(static_cast<size_t>(connections_), last)];
      ++connections_;
      if (script.silent) {
        Line(client.get());
        Line(client.get());  // The last line.
        continue;
      }
      EXPECT_EQ(Line(client.get()), "CLIENT PROTOCOL 2");
      Say(client.get(), script.greeting);
      for (std::string line; !(line = Line(client.get())).empty();) {
        if (line == "VERBOSE STATUS") {
          Say(client.get(), script.answer);
          break;
        }
        Say(client.get(), line == "SET FORMAT json" ? script.format : "OK\n");
      }
    }
  }

  const Fd listener_;
  const std::vector<Script> scripts_;
  int port_ = 0;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

v1::NcclPlace PlaceAt(Ras& ras) {
  const absl::StatusOr<RasPlace> place = ras.Find({getpid()}, -1);
  EXPECT_TRUE(place.ok()) << place.status();
  return place.ok() ? place->place : v1::NCCL_PLACE_UNSPECIFIED;
}

TEST(Ras, TellsWhereThisProcessStands) {
  const Service service({{.answer = Answer(4)}});
  Ras ras({"A=b", absl::StrCat("NCCL_RAS_ADDR=", service.address())});
  EXPECT_EQ(PlaceAt(ras), v1::NCCL_PLACE_BEHIND);
  // Callers that ask now get the same answer.
  EXPECT_EQ(PlaceAt(ras), v1::NCCL_PLACE_BEHIND);
  EXPECT_EQ(service.connections(), 1);
}

TEST(Ras, RanksThatAskAtTheSameTimeAskOnce) {
  const Service service({{.answer = Answer(4)}});
  Ras ras({absl::StrCat("NCCL_RAS_ADDR=", service.address())});
  std::vector<std::thread> ranks;
  std::atomic<int> behind = 0;
  for (int i = 0; i < 8; ++i) {
    ranks.emplace_back([&] {
      if (PlaceAt(ras) == v1::NCCL_PLACE_BEHIND) ++behind;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(behind, 8);
  EXPECT_EQ(service.connections(), 1);
}

TEST(Ras, AStoppedProcessAndThoseOfOtherJobsArePassedOver) {
  const Service service({{.silent = true},
                         {.answer = Answer(9, 1 << 30)},
                         {.format = "ERROR: unknown command\n"},
                         {.answer = Answer(6)}});
  Ras ras({absl::StrCat("NCCL_RAS_ADDR=", service.address())},
          absl::Seconds(60));
  EXPECT_EQ(PlaceAt(ras), v1::NCCL_PLACE_WAITS);
  EXPECT_EQ(service.connections(), 4);
}

TEST(Ras, WhyThereIsNoAnswerIsSaid) {
  const struct {
    Service::Script script;
    const char* said;
  } kRows[] = {
      {{.greeting = "220 mail ESMTP\n"}, "expected SERVER PROTOCOL, got \"220"},
      {{.greeting = std::string(5000, 'x')}, "no end of line"},
      {{.format = "ERROR: unknown command\n"}, "NCCL 2.28.7 or newer), got"},
      {{.answer = "NCCL version 2.24\n"}, "got \"NCCL version 2.24"},
  };
  for (const auto& row : kRows) {
    const Service service(std::vector<Service::Script>{row.script});
    const absl::Status status =
        AskRas(service.address(), absl::Seconds(20)).status();
    EXPECT_TRUE(absl::StrContains(status.message(), row.said)) << status;
    EXPECT_FALSE(absl::IsUnavailable(status)) << status;
  }
  for (const std::string& address : std::vector<std::string>{
           "", "28028", "somewhere:28028", "localhost:x", "localhost:",
           "localhost:0", absl::StrCat("[::1]:", 1 << 16), "[::1:28028"}) {
    const absl::Status status = AskRas(address, absl::Seconds(20)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address;
    EXPECT_TRUE(absl::StrContains(
        status.message(),
        absl::StrCat("NCCL_RAS_ADDR: expected localhost:PORT or an IP address "
                     "and a port, got \"",
                     address, "\"")))
        << status;
  }
}

TEST(Ras, WithoutNcclThereIsNone) {
  std::string address;
  { address = Service(std::vector<Service::Script>(1)).address(); }
  Ras ras({absl::StrCat("NCCL_RAS_ADDR=", address)});
  EXPECT_TRUE(absl::IsUnavailable(ras.Find({getpid()}, -1).status()));
  const Service service({{.answer = Answer(4)}});
  Ras off(
      {"NCCL_RAS_ENABLE=0", absl::StrCat("NCCL_RAS_ADDR=", service.address())});
  EXPECT_TRUE(absl::IsUnavailable(off.Find({getpid()}, -1).status()));
  EXPECT_EQ(service.connections(), 0);
}

TEST(Ras, ALaterErrorDoesNotReplaceTheAnswerThatAnotherRankIsIn) {
  // A process that is in no communicator asks first, and then again.
  const Service service({{.answer = Answer(4)}, {.silent = true}});
  Ras ras({absl::StrCat("NCCL_RAS_ADDR=", service.address())},
          absl::Seconds(2));
  const absl::StatusOr<RasPlace> without = ras.Find({1 << 30}, -1);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->place, v1::NCCL_PLACE_UNSPECIFIED);
  const int asked = service.connections();
  EXPECT_GT(asked, 1);
  EXPECT_EQ(PlaceAt(ras), v1::NCCL_PLACE_BEHIND);
  EXPECT_EQ(service.connections(), asked);
}

TEST(Ras, RanksThatAskInVainShareOneDeadline) {
  const Service service(std::vector<Service::Script>{{.silent = true}});
  Ras ras({absl::StrCat("NCCL_RAS_ADDR=", service.address())},
          absl::ZeroDuration());
  EXPECT_TRUE(absl::IsDeadlineExceeded(ras.Find({getpid()}, -1).status()));
  EXPECT_EQ(service.connections(), 0);
}

TEST(Ras, EndsAtOnceWithTheAgent) {
  const Service service(std::vector<Service::Script>{{.silent = true}});
  const Fd quit(eventfd(1, EFD_CLOEXEC));
  Ras ras({absl::StrCat("NCCL_RAS_ADDR=", service.address())});
  EXPECT_TRUE(absl::IsCancelled(ras.Find({getpid()}, quit.get()).status()));
}

}  // namespace
}  // namespace rollcall
