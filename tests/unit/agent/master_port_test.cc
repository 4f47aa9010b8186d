#include "client/agent/node_files/master_port.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>

namespace rollcall {
namespace {

constexpr PortRange kDefault = {32768, 60999};

TEST(MasterPort, ReadsTheEphemeralRange) {
  struct {
    const char* text;
    PortRange expect;
  } const kRows[] = {
      {"32768\t60999\n", {32768, 60999}},
      {"1024 65535\n", {1024, 65535}},
      {"15000\t61000", {15000, 61000}},
      {"", kDefault},
      {"what\n", kDefault},
      {"60999\t32768\n", kDefault},
      {"1 2 3\n", kDefault},
      {"0 60000\n", kDefault},
      {"32768 70000\n", kDefault},
      {"-5 60000\n", kDefault},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(ParseEphemeralRange(row.text), row.expect) << row.text;
  }
}

TEST(MasterPort, LooksOutsideTheEphemeralRange) {
  using Ranges = std::vector<PortRange>;
  struct {
    PortRange ephemeral;
    Ranges expect;
  } const kRows[] = {
      {{32768, 60999}, {{20000, 32767}, {61000, 65535}, {1024, 19999}}},
      {{15000, 61000}, {{61001, 65535}, {1024, 14999}}},
      {{20000, 65535}, {{1024, 19999}}},
      {{20001, 65535}, {{20000, 20000}, {1024, 19999}}},
      {{1024, 65535}, {{20000, 65535}}},
      {{1, 500}, {{1024, 65535}}},
      {{65535, 65535}, {{20000, 65534}, {1024, 19999}}},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(MasterPortRanges(row.ephemeral), row.expect)
        << row.ephemeral.first << "-" << row.ephemeral.last;
  }
}

// Returns whether a plain program could bind the port now.
bool IsFree(int family, uint32_t port) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return true;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in6 any6{};
  sockaddr_in any{};
  const sockaddr* address = reinterpret_cast<sockaddr*>(&any);
  socklen_t size = sizeof(any);
  if (family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    address = reinterpret_cast<sockaddr*>(&any6);
    size = sizeof(any6);
  }
  any.sin_family = AF_INET;
  any.sin_port = htons(static_cast<uint16_t>(port));
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(static_cast<uint16_t>(port));
  const bool free = bind(fd, address, size) == 0 && listen(fd, 1) == 0;
  close(fd);
  return free;
}

TEST(MasterPort, HoldsAPortUntilItIsGivenBack) {
  const PortRange ephemeral = ReadEphemeralRange();
  uint32_t port = 0;
  {
    auto held = MasterPort::Hold(MasterPortRanges(ephemeral), 12345);
    ASSERT_TRUE(held.ok()) << held.status();
    port = held->port();
    EXPECT_TRUE(port < ephemeral.first || port > ephemeral.last) << port;
    MasterPort moved = *std::move(held);
    EXPECT_EQ(moved.port(), port);
    // The port is bound and cannot be shared, though nothing listens on it.
    auto second = MasterPort::Hold({{port, port}}, 0);
    EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_TRUE(IsFree(AF_INET, port));
  EXPECT_TRUE(IsFree(AF_INET6, port));
}

TEST(MasterPort, SkipsTakenPorts) {
  auto first = MasterPort::Hold(MasterPortRanges(ReadEphemeralRange()), 777);
  ASSERT_TRUE(first.ok());
  const uint32_t taken = first->port();
  ASSERT_LT(taken, 65000u);
  // The search starts at the taken port and wraps around.
  auto next = MasterPort::Hold({{taken, taken + 200}}, 0);
  ASSERT_TRUE(next.ok());
  EXPECT_NE(next->port(), taken);
  auto round = MasterPort::Hold({{taken - 200, taken}}, 200);
  ASSERT_TRUE(round.ok());
  EXPECT_LT(round->port(), taken);
}

TEST(MasterPort, ManyDiffer) {
  std::set<uint32_t> ports;
  std::vector<MasterPort> held;
  for (uint32_t i = 0; i < 32; ++i) {
    auto port = MasterPort::Hold(MasterPortRanges(ReadEphemeralRange()), 4242);
    ASSERT_TRUE(port.ok());
    ports.insert(port->port());
    held.push_back(*std::move(port));
  }
  EXPECT_EQ(ports.size(), 32u);
}

}  // namespace
}  // namespace rollcall
