#include "trainer/check/group_link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdlib>
#include <future>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "daemon/base/clock.h"

namespace rollcall {
namespace {

using LinkOr = absl::StatusOr<std::unique_ptr<GroupLink>>;

GroupRequest RequestOf(size_t nodes, size_t place, uint16_t port,
                       char secret = 's') {
  GroupRequest request;
  request.addresses.assign(nodes, "127.0.0.1");
  request.place = place;
  request.port = port;
  request.secret = std::string(GroupRequest::kSecretBytes, secret);
  return request;
}

absl::Time Soon() { return MonotonicNow() + absl::Seconds(30); }

// Connects without the secret, and says `text`.
Fd Unauthenticated(uint16_t port, const std::string& text) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  EXPECT_EQ(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
  return fd;
}

std::future<LinkOr> AcceptAsync(const GroupListener& listener, size_t nodes,
                                absl::Time until) {
  return std::async(std::launch::async, [&listener, nodes, until] {
    return GroupLink::Accept(listener, RequestOf(nodes, 0, 0), until);
  });
}

TEST(GroupLink, ThreeNodesExchangeValues) {
  const absl::StatusOr<GroupListener> listener = GroupListener::Open();
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::vector<std::future<std::vector<std::string>>> nodes;
  for (size_t place = 0; place < 3; ++place) {
    nodes.push_back(std::async(std::launch::async, [&, place] {
      LinkOr link =
          place == 0
              ? GroupLink::Accept(*listener, RequestOf(3, 0, 0), Soon())
              : GroupLink::Dial(RequestOf(3, place, listener->port), Soon());
      if (!link.ok()) return std::vector{link.status().ToString()};
      std::vector<std::string> got;
      for (const std::string key : {"one", "two"}) {
        const auto values =
            (*link)->Exchange(key, key + std::string(place * 1000, 'x'));
        if (!values.ok()) return std::vector{values.status().ToString()};
        got.insert(got.end(), values->begin(), values->end());
      }
      return got;
    }));
  }
  std::vector<std::string> expected;
  for (const std::string key : {"one", "two"}) {
    for (size_t place = 0; place < 3; ++place) {
      expected.push_back(key + std::string(place * 1000, 'x'));
    }
  }
  for (auto& node : nodes) EXPECT_EQ(node.get(), expected);
}

TEST(GroupLink, AWrongSecretIsRefusedAndTheRightNodeStillConnects) {
  const absl::StatusOr<GroupListener> listener = GroupListener::Open();
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::future<LinkOr> first = AcceptAsync(*listener, 2, Soon());
  // It sees that the listener has another secret, before it proves its own.
  const LinkOr wrong =
      GroupLink::Dial(RequestOf(2, 1, listener->port, 'w'), Soon());
  EXPECT_TRUE(absl::IsPermissionDenied(wrong.status())) << wrong.status();
  const LinkOr right = GroupLink::Dial(RequestOf(2, 1, listener->port), Soon());
  EXPECT_TRUE(right.ok()) << right.status();
  const LinkOr link = first.get();
  EXPECT_TRUE(link.ok()) << link.status();
}

// A hello is 8 bytes, the place and 16 bytes; a proof has 32 bytes.
TEST(GroupLink, UnauthenticatedConnectionsDoNotDisturbTheGroup) {
  const absl::StatusOr<GroupListener> listener = GroupListener::Open();
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::future<LinkOr> first = AcceptAsync(*listener, 2, Soon());
  const std::string hello =
      "rcgroup1" + std::string(1, '\1') + std::string(16, 'n');
  std::vector<Fd> unauthenticated;
  unauthenticated.push_back(Unauthenticated(listener->port, ""));
  unauthenticated.push_back(
      Unauthenticated(listener->port, "GET / HTTP/1.1\r\n\r\nHost: x\r\n"));
  unauthenticated.push_back(
      Unauthenticated(listener->port, hello + std::string(32, 'p')));
  // No such place.
  unauthenticated.push_back(Unauthenticated(
      listener->port,
      "rcgroup1" + std::string(1, '\2') + std::string(16, 'n')));
  // More than may wait at a time.
  for (int i = 0; i < 80; ++i) {
    unauthenticated.push_back(Unauthenticated(listener->port, ""));
  }
  const LinkOr right = GroupLink::Dial(RequestOf(2, 1, listener->port), Soon());
  EXPECT_TRUE(right.ok()) << right.status();
  const LinkOr link = first.get();
  EXPECT_TRUE(link.ok()) << link.status();
}

TEST(GroupLink, ANodeThatDoesNotConnectIsNamed) {
  const absl::StatusOr<GroupListener> listener = GroupListener::Open();
  ASSERT_TRUE(listener.ok()) << listener.status();
  GroupRequest request = RequestOf(2, 0, 0);
  request.addresses[1] = "10.9.8.7";
  const LinkOr link = GroupLink::Accept(*listener, request, MonotonicNow());
  EXPECT_TRUE(absl::IsDeadlineExceeded(link.status())) << link.status();
  EXPECT_TRUE(absl::StrContains(link.status().message(), "10.9.8.7"));
}

TEST(GroupLink, ANodeThatLeavesIsNoticed) {
  const absl::StatusOr<GroupListener> listener = GroupListener::Open();
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::future<LinkOr> first = AcceptAsync(*listener, 2, Soon());
  LinkOr other = GroupLink::Dial(RequestOf(2, 1, listener->port), Soon());
  ASSERT_TRUE(other.ok()) << other.status();
  const LinkOr link = first.get();
  ASSERT_TRUE(link.ok()) << link.status();
  other->reset();
  EXPECT_TRUE(absl::IsUnavailable((*link)->Exchange("k", "v").status()));
}

TEST(GroupRequest, Parses) {
  const std::string secret(32, 'a');
  const struct {
    std::string text;
    bool good;
  } kRows[] = {
      {"0 0 20000 " + secret + " 10.0.0.1 10.0.0.2", true},
      {"2 4000 20000 " + secret + " ::1 ::2 ::3", true},
      {"", false},
      {"0 0 20000 " + secret + " 10.0.0.1", true},
      {"0 0 20000 " + secret, false},
      {"0 0 20000 " + secret + " a b c d", false},
      {"2 4000 20000 " + secret + " a b", false},
      {"0 4000 20000 " + secret + " a b", false},
      {"1 0 20000 " + secret + " a b", false},
      {"1 65536 20000 " + secret + " a b", false},
      {"0 0 0 " + secret + " a b", false},
      {"0 0 20000 " + secret + "a a b", false},
      {"0 0 20000 " + std::string(32, 'z') + " a b", false},
      {"0 0 20000 " + secret + " a ", false},
  };
  for (const auto& row : kRows) {
    const absl::StatusOr<GroupRequest> request = GroupRequest::Parse(row.text);
    EXPECT_EQ(request.ok(), row.good) << row.text << ": " << request.status();
    EXPECT_FALSE(absl::StrContains(request.status().message(), secret));
  }
}

TEST(GroupRequest, IsTakenOutOfTheEnvironment) {
  const std::string secret(32, 'a');
  setenv(kGroupCheckVariable, ("0 0 20000 " + secret + " a b").c_str(), 1);
  const char* const before = std::getenv(kGroupCheckVariable);
  EXPECT_TRUE(TakeGroupRequest().ok());
  EXPECT_EQ(std::string(before).find_first_not_of(' '), std::string::npos);
  EXPECT_TRUE(absl::IsFailedPrecondition(TakeGroupRequest().status()));
}

}  // namespace
}  // namespace rollcall
