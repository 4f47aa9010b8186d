// Tests SpareToDisplace in name_rules.h.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/core/membership/name_rules.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

// A job with the maximum number of spares: `of_one` of them have token t1, the
// others have other tokens.
struct Full {
  explicit Full(uint32_t of_one) {
    for (uint32_t i = 0; i < Limits::spares_max; ++i) {
      const std::string name = absl::StrCat("n", i);
      Node& node = membership.Add(name);
      node.hello.set_node(name);
      node.attended_at = At(i == kNewest ? 5000 : i);
      membership.Connect(node, i + 1);
      epochs.Admit(name, i < of_one ? "t1" : absl::StrCat("u", i));
    }
    hello.set_node("new");
    hello.mutable_token()->set_id("t2");
  }
  std::string Displaces() const {
    const auto displaced = SpareToDisplace(hello, membership, epochs);
    return displaced.has_value() ? displaced->node : "";
  }

  static constexpr uint32_t kNewest = 7;
  Membership membership;
  NodeEpochs epochs;
  v1::Hello hello;
};

TEST(SpareToDisplace, IsTheNewestOfATokenWithOverHalfOfTheSpares) {
  constexpr uint32_t kHalf = Limits::spares_max / 2;
  struct {
    const char* name;
    uint32_t of_one;
    std::function<void(Full&)> change;
    const char* displaced;
  } const kRows[] = {
      {"half", kHalf, [](Full&) {}, ""},
      {"over half", kHalf + 1, [](Full&) {}, "n7"},
      {"an agent of the same token", kHalf + 1,
       [](Full& f) { f.hello.mutable_token()->set_id("t1"); }, ""},
      {"a node that the same token has admitted", kHalf + 1,
       [](Full& f) {
         f.epochs.Admit("new", "t1");
         f.hello.set_node_credential("proof");
       },
       ""},
      {"a node that another token has admitted", kHalf + 1,
       [](Full& f) {
         f.epochs.Admit("new", "t2");
         f.hello.set_node_credential("proof");
       },
       "n7"},
      {"one is a member", kHalf + 1,
       [](Full& f) { f.membership.At("n0").node_rank = 0; }, ""},
      {"one has a seat", kHalf + 1,
       [](Full& f) { f.membership.At("n0").seat = 0; }, ""},
      {"one was in a world", kHalf + 1,
       [](Full& f) { f.membership.At("n0").served_in = 3; }, ""},
      {"one is the launcher's", kHalf + 1,
       [](Full& f) { f.membership.At("n0").hello.set_launcher(true); }, ""},
      {"one has lost its stream", kHalf + 1,
       [](Full& f) { f.membership.Disconnect(f.membership.At("n0")); }, ""},
      {"the newest had a seat", kHalf + 2,
       [](Full& f) { f.membership.At("n7").served_in = 3; }, "n513"},
  };
  for (const auto& row : kRows) {
    Full full(row.of_one);
    row.change(full);
    EXPECT_EQ(full.Displaces(), row.displaced) << row.name;
  }
}

TEST(SpareToDisplace, NodesOfUnknownTokensAreNotCountedTogether) {
  Full full(0);
  full.epochs = NodeEpochs();
  EXPECT_EQ(full.Displaces(), "");
}

}  // namespace
}  // namespace rollcall
