#include "daemon/core/admission/admission.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "google/protobuf/message.h"
#include "google/protobuf/unknown_field_set.h"
#include "tests/unit/core/admission/good_hello.h"

namespace rollcall {
namespace {

struct TextRow {
  std::string text;
  bool fits;
};

void ExpectRows(const std::vector<TextRow>& rows,
                absl::Status (*admit)(std::string_view)) {
  for (const TextRow& row : rows) {
    const absl::Status status = admit(row.text);
    EXPECT_EQ(status.ok(), row.fits) << '"' << row.text << "\" " << status;
    EXPECT_EQ(absl::IsInvalidArgument(status), !row.fits);
    EXPECT_LT(status.message().size(), 512u);
  }
}

TEST(Admission, JobIds) {
  ExpectRows({{"a", true},
              {"train-7", true},
              {std::string(63, 'x'), true},
              {"", false},
              {std::string(64, 'x'), false},
              {"-a", false},
              {"a-", false},
              {"A", false},
              {"a_b", false},
              {"a.b", false},
              {"../x", false},
              {std::string("a\0b", 3), false},
              {"\xc3\xa4", false}},
             AdmitJobId);
}

TEST(Admission, NodeNames) {
  ExpectRows({{"a", true},
              {"node-1.cluster.local", true},
              {"ip-10-0-0-1", true},
              {"my_host", true},
              {"10.0.0.1", true},
              {std::string(63, 'n'), true},
              {"", false},
              {".", false},
              {"a.", false},
              {".a", false},
              {"a..b", false},
              {"-a", false},
              {"a-.b", false},
              {std::string(64, 'n'), false},
              {std::string(62, 'n') + "." + std::string(62, 'n') + "." +
                   std::string(62, 'n') + "." + std::string(63, 'n'),
               true},
              {std::string(62, 'n') + "." + std::string(62, 'n') + "." +
                   std::string(62, 'n') + "." + std::string(63, 'n') + ".n",
               false},
              {"a b", false},
              {"a\n10.0.0.1 evil", false},
              {"a#b", false},
              {"a/b", false}},
             AdmitNodeName);
}

TEST(Admission, Addresses) {
  ExpectRows({{"10.0.0.1", true},
              {"255.255.255.255", true},
              {"::", true},
              {"::1", true},
              {"fe80::1", true},
              {"1:2:3:4:5:6:7:8", true},
              {"::ffff:1.2.3.4", true},
              {"1:2:3:4:5:6:1.2.3.4", true},
              {"1::", true},
              {"", false},
              {"10.0.0", false},
              {"10.0.0.256", false},
              {"10.0.0.01", false},
              {"10.0.0.1:80", false},
              {"10.0.0.1/24", false},
              {"fe80::1%eth0", false},
              {"[::1]", false},
              {"1::2::3", false},
              {":::", false},
              {"1:2:3:4:5:6:7", false},
              {"1:2:3:4:5:6:7:8:9", false},
              {"12345::", false},
              {"::1.2.3.4.5", false},
              {"1.2.3.4::", false},
              {":1", false},
              {"localhost", false}},
             AdmitAddress);
}

TEST(Admission, AddressesAsTheSystemReadsThem) {
  std::mt19937 random(1);
  const std::string letters = "0123456789af:.:.";
  for (int i = 0; i < 200'000; ++i) {
    std::string text;
    const size_t size = random() % 20;
    for (size_t k = 0; k < size; ++k) {
      text.push_back(letters[random() % letters.size()]);
    }
    in6_addr parsed;
    const bool system = inet_pton(AF_INET, text.c_str(), &parsed) == 1 ||
                        inet_pton(AF_INET6, text.c_str(), &parsed) == 1;
    ASSERT_EQ(AdmitAddress(text).ok(), system) << text;
  }
}

TEST(Admission, ExchangeKeys) {
  ExpectRows({{"k", true},
              {"gloo/0/1 x", true},
              {std::string(128, 'k'), true},
              {"", false},
              {std::string(129, 'k'), false},
              {"k\n", false},
              {"\xff", false}},
             AdmitExchangeKey);
}

TEST(Clean, KeepsTheEndOfAStderrTail) {
  v1::AgentMessage message;
  message.mutable_rank_stalled()->set_text(std::string(10'000, '\x1b'));
  CleanMessage(message);
  EXPECT_EQ(message.rank_stalled().text(),
            std::string(Limits::stall_text_bytes_max, '?'));
  message.mutable_rank_exited()->set_stderr_tail(std::string(10'000, 'x') +
                                                 "\nlast\x1b line");
  message.mutable_rank_exited()->set_out_of_memory(std::string(10'000, '\n'));
  CleanMessage(message);
  EXPECT_EQ(message.rank_exited().out_of_memory(),
            std::string(Limits::oom_text_bytes_max, '?'));
  const std::string& tail = message.rank_exited().stderr_tail();
  EXPECT_EQ(tail.size(), Limits::stderr_tail_bytes);
  EXPECT_EQ(tail.substr(tail.size() - 11), "\nlast? line");
  message.mutable_setup_ended()->set_stderr_tail(std::string(10'000, 'x') +
                                                 "\nlast\x1b line");
  CleanMessage(message);
  const std::string& setup_tail = message.setup_ended().stderr_tail();
  EXPECT_EQ(setup_tail.size(), Limits::stderr_tail_bytes);
  EXPECT_EQ(setup_tail.substr(setup_tail.size() - 11), "\nlast? line");
}

// Adds a field of this many bytes that no version of the message has.
void AddUnknown(google::protobuf::Message& message, size_t bytes) {
  message.GetReflection()
      ->MutableUnknownFields(&message)
      ->AddLengthDelimited(19'999)
      ->assign(bytes, 'u');
}

TEST(Clean, WhatIsNotKnownIsNotKept) {
  constexpr size_t kMiB = 1 << 20;
  v1::Hello hello = GoodHello();
  AddUnknown(hello, kMiB);
  AddUnknown(*hello.mutable_facts(), kMiB);
  AddUnknown(*hello.mutable_facts()->mutable_interfaces(0), kMiB);
  EXPECT_GT(hello.SpaceUsedLong(), 3 * kMiB);
  CleanHello(hello);
  EXPECT_LT(hello.SpaceUsedLong(), kMiB);
  EXPECT_TRUE(AdmitHello(hello).ok());

  v1::AgentMessage message;
  message.mutable_rank_stalled()->set_generation(1);
  AddUnknown(message, kMiB);
  AddUnknown(*message.mutable_rank_stalled(), kMiB);
  CleanMessage(message);
  EXPECT_LT(message.SpaceUsedLong(), kMiB);
  EXPECT_EQ(message.rank_stalled().generation(), 1u);
}

TEST(Clean, CleansReasons) {
  v1::AgentMessage message;
  message.mutable_refused()->set_reason("no\nroom");
  CleanMessage(message);
  EXPECT_EQ(message.refused().reason(), "no?room");
}

}  // namespace
}  // namespace rollcall
