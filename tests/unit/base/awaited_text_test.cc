// The text that tells what a job still needs.
#include "daemon/base/text/awaited_text.h"

#include <gtest/gtest.h>

namespace rollcall {
namespace {

TEST(AwaitedText, SaysWhatIsStillNeeded) {
  struct {
    Awaited awaited;
    const char* text;
  } const kRows[] = {
      {{1, 2, 4, {}}, "1 node is here; 1 more to begin, room for 3 more"},
      {{1, 2, 4, {"c"}},
       "1 node is here; 1 more to begin, room for 3 more; missing: c"},
      {{1, 4, 4, {"c", "d"}}, "1 node is here; 3 more to begin; missing: c, d"},
      {{0, 1, 1, {}}, "0 nodes are here; 1 more to begin"},
      {{2, 2, 4, {}}, "2 nodes are here; enough to begin, room for 2 more"},
      {{3, 2, 4, {"d"}},
       "3 nodes are here; enough to begin, room for 1 more; missing: d"},
      {{4, 2, 4, {}}, "4 nodes are here; none is missing"},
      // One of the nodes is a spare.
      {{5, 2, 4, {}}, "5 nodes are here; none is missing"},
      {{1, 10, 10, {"a", "b", "c", "d", "e", "f", "g", "h", "i"}},
       "1 node is here; 9 more to begin; missing: a, b, c, d, e, f, g, h and "
       "1 more"},
  };
  for (const auto& row : kRows) EXPECT_EQ(AwaitedText(row.awaited), row.text);
}

TEST(AwaitedText, WhoStillRuns) {
  EXPECT_EQ(StillRunningText({"a", "b"}), "still running: a, b");
}

}  // namespace
}  // namespace rollcall
