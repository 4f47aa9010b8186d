#include "daemon/core/formation/fence.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace rollcall {
namespace {

absl::Time At(double second) {
  return absl::UnixEpoch() + absl::Seconds(second);
}

// a was heard at 10, b at 12; unheard is 100 s.
Fence OfTwo() { return Fence(3, {{"a", 11, At(10)}, {"b", 22, At(12)}}); }

TEST(Fence, OpensWithAMemberThatIsGoneOrWithTime) {
  struct {
    const char* name;
    std::function<void(Fence&)> event;
    absl::Time opens;
  } const kRows[] = {
      {"nothing is known", [](Fence&) {}, At(110)},
      {"a member is gone",
       [](Fence& f) {
         f.Gone(NodeLife{"a", 11});
       },
       absl::InfinitePast()},
      {"another life of its node",
       [](Fence& f) {
         f.Gone(NodeLife{"a", 12});
       },
       At(110)},
      {"another node",
       [](Fence& f) {
         f.Gone(NodeLife{"c", 11});
       },
       At(110)},
      {"whatever life of the node", [](Fence& f) { f.Gone("b"); },
       absl::InfinitePast()},
      {"a node that was no member", [](Fence& f) { f.Gone("c"); }, At(110)},
      {"the agent goes on by a new number",
       [](Fence& f) {
         f.GoesOn({"a", 11}, 12);
         f.Gone(NodeLife{"a", 12});
       },
       absl::InfinitePast()},
      {"another agent with a new number",
       [](Fence& f) {
         f.GoesOn({"a", 99}, 12);
         f.Gone(NodeLife{"a", 12});
       },
       At(110)},
  };
  for (const auto& row : kRows) {
    Fence fence = OfTwo();
    row.event(fence);
    EXPECT_EQ(fence.Opens(absl::Seconds(100)), row.opens) << row.name;
  }
}

TEST(Fence, HasTheLivesOfItsMembers) {
  Fence fence = OfTwo();
  EXPECT_TRUE(fence.Has({"a", 11}));
  EXPECT_FALSE(fence.Has({"a", 12}));
  EXPECT_FALSE(fence.Has({"b", 11}));
  fence.GoesOn({"a", 11}, 12);
  fence.GoesOn({"a", 12}, 13);
  EXPECT_TRUE(fence.Has({"a", 13}));
  // It has not heard that it was let in as 13.
  fence.GoesOn({"a", 11}, 14);
  EXPECT_TRUE(fence.Has({"a", 14}));
  // A journal of an older daemon has names alone.
  Fence old(1, {{"a", 0, At(0)}});
  EXPECT_TRUE(old.Has({"a", 12}));
  // Any life could be said to be gone.
  EXPECT_FALSE(old.Gone(NodeLife{"a", 12}));
  EXPECT_FALSE(old.open());
}

TEST(Fence, WithoutAWorldNothingWaits) {
  EXPECT_EQ(Fence().Opens(absl::Seconds(100)), absl::InfinitePast());
  EXPECT_FALSE(Fence().Has({"a", 11}));
}

}  // namespace
}  // namespace rollcall
