// What a notice asks of this node, and until when: a table.
#include "client/agent/core/agent/state/node_notices.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

// The end of the plain ranks' time, what is left of 10 s for those that were
// signalled, and whether NoticeSeen is owed.
std::string NoticesText(const NodeNotices& notices, double now) {
  const auto left = notices.GraceLeft(absl::Seconds(10), At(now));
  return absl::StrCat(
      notices.due() == absl::InfiniteFuture()
          ? "-"
          : absl::StrCat(absl::ToDoubleSeconds(notices.due() - At(0))),
      " ", left.has_value() ? absl::StrCat(absl::ToDoubleSeconds(*left)) : "-",
      notices.owes_seen() ? " owed" : "");
}

TEST(NodeNotices, Table) {
  const auto take = [](uint64_t number) {
    return [=](NodeNotices& notices, double) { return notices.Take(number); };
  };
  const auto limit = [](double until) {
    return [=](NodeNotices& notices, double) {
      notices.LimitTo(At(until));
      return true;
    };
  };
  const auto seen = [](uint64_t number) {
    return
        [=](NodeNotices& notices, double) { return notices.Seen() == number; };
  };
  const auto stream = [](NodeNotices& notices, double) {
    notices.NewStream();
    return true;
  };
  const auto end = [](NodeNotices& notices, double) {
    notices.End();
    return true;
  };
  const auto due = [](NodeNotices& notices, double at) {
    return notices.TakeDue(At(at));
  };
  const struct {
    double at;
    std::function<bool(NodeNotices&, double)> event;
    bool answer;
    std::string expect;
  } kRows[] = {
      {0, stream, true, "- -"},
      {0, due, false, "- -"},
      {1, take(4), true, "- 10 owed"},
      {1, limit(30), true, "30 10 owed"},
      {2, seen(4), true, "30 10"},
      {3, take(3), false, "30 10"},       // An older one.
      {3, take(4), false, "30 10 owed"},  // The daemon asks again.
      {3, seen(4), true, "30 10"},
      {4, stream, true, "30 10 owed"},
      {25, due, false, "30 5 owed"},
      {26, take(5), true, "- 10 owed"},  // A newer one: without a plain rank.
      {27, seen(5), true, "- 10"},
      {28, take(6), true, "- 10 owed"},
      {28, limit(29), true, "29 1 owed"},
      {29, due, true, "- 0 owed"},
      {30, due, false, "- 0 owed"},  // Once.
      {31, take(6), false, "- 0 owed"},
      {31, end, true, "- -"},
      {32, due, false, "- -"},
      {33, take(6), true, "- 10 owed"},  // Of the next generation.
  };
  NodeNotices notices;
  for (const auto& row : kRows) {
    SCOPED_TRACE(absl::StrCat("at ", row.at, ", then ", row.expect));
    EXPECT_EQ(row.event(notices, row.at), row.answer);
    EXPECT_EQ(NoticesText(notices, row.at), row.expect);
  }
}

TEST(NodeNotices, ADrainedNodeStaysSo) {
  NodeNotices notices;
  EXPECT_FALSE(notices.drained());
  notices.Drain();
  notices.End();
  EXPECT_TRUE(notices.drained());
}

}  // namespace
}  // namespace rollcall
