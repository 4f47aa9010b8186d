// Which credential a Hello contains: a table.
#include "client/agent/core/agent/state/own_credential.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

std::function<void(OwnCredential&)> Issued(const std::string& bytes,
                                           uint64_t incarnation) {
  return
      [=](OwnCredential& credential) { credential.Take(bytes, incarnation); };
}

TEST(OwnCredential, Table) {
  const auto forget = [](OwnCredential& credential) { credential.Forget(); };
  const std::string longest(OwnCredential::bytes_max, 'x');
  const struct {
    std::function<void(OwnCredential&)> event;
    // The Hello's incarnation, its credential and previous incarnation.
    uint64_t incarnation;
    std::string expect;
  } kRows[] = {
      {forget, 1, ""},
      {Issued("c1", 1), 1, "c1"},
      {Issued("c2", 1), 1, "c2"},
      {Issued("c2", 1), 7, "c2 after 1"},
      {Issued("c3", 7), 7, "c3"},
      {Issued(longest + "x", 7), 7, "c3"},  // Too long: ignored.
      {Issued(longest, 7), 8, longest + " after 7"},
      {Issued("", 8), 9, ""},
      {Issued("c4", 9), 10, "c4 after 9"},
      {forget, 10, ""},
  };
  OwnCredential credential;
  for (const auto& row : kRows) {
    row.event(credential);
    v1::Hello hello;
    hello.set_incarnation(row.incarnation);
    credential.AddTo(hello);
    EXPECT_EQ(credential.held(), !row.expect.empty()) << row.expect;
    std::string text = hello.node_credential();
    if (hello.previous_incarnation() != 0) {
      absl::StrAppend(&text, " after ", hello.previous_incarnation());
    }
    EXPECT_EQ(text, row.expect);
  }
}

}  // namespace
}  // namespace rollcall
