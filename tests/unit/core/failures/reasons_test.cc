#include "daemon/core/failures/reasons.h"

#include <gtest/gtest.h>

#include <string>

#include "daemon/core/failures/root_cause.h"

namespace rollcall {
namespace {

v1::RootCause ExitOn(const std::string& node, uint64_t generation) {
  v1::RankExited exited;
  exited.set_generation(generation);
  exited.set_code(3);
  return CauseOfRank(node, 0, exited);
}

TEST(Reasons, TheReasonForAnEndIsThatOfTheNextGeneration) {
  Reasons reasons(v1::REASON_CODE_FIRST, "the first world");
  EXPECT_EQ(reasons.next().code(), v1::REASON_CODE_FIRST);
  EXPECT_EQ(reasons.current().generation(), 0u);
  reasons.Proposed(1);
  EXPECT_EQ(reasons.current().generation(), 1u);
  EXPECT_EQ(reasons.current().code(), v1::REASON_CODE_FIRST);
  EXPECT_EQ(reasons.current().reason(), "the first world");

  reasons.Ended(1, v1::REASON_CODE_LOST_LEASE, "b was lost", "b", 2);
  EXPECT_EQ(reasons.next().generation(), 1u);
  EXPECT_EQ(reasons.next().code(), v1::REASON_CODE_LOST_LEASE);
  EXPECT_EQ(reasons.next().reason(), "b was lost");
  EXPECT_EQ(reasons.next().node(), "b");
  EXPECT_EQ(reasons.next().restarts_charged(), 2u);
  EXPECT_EQ(reasons.current().code(), v1::REASON_CODE_FIRST);

  reasons.Proposed(2, "; more");
  EXPECT_EQ(reasons.current().generation(), 2u);
  EXPECT_EQ(reasons.current().reason(), "b was lost; more");
  EXPECT_EQ(reasons.current().node(), "b");
  EXPECT_EQ(reasons.current().restarts_charged(), 2u);
  EXPECT_EQ(reasons.next().reason(), "b was lost; more");
  // The generation that this reason ended.
  EXPECT_EQ(reasons.next().generation(), 1u);

  reasons.Ended(2, v1::REASON_CODE_GROW, "to take in c", "", 0);
  EXPECT_EQ(reasons.next().node(), "");
  EXPECT_EQ(reasons.next().restarts_charged(), 0u);
}

TEST(Reasons, ALaterCauseChangesTheEndOfItsOwnGeneration) {
  struct {
    const char* what;
    uint64_t ended;
    uint64_t proposed;  // 0: the next generation is not proposed yet.
    uint64_t current;
    uint64_t cause;  // The generation of the cause.
    bool changes_next;
    bool changes_current;
  } const kRows[] = {
      {"the next one is not proposed", 3, 0, 3, 3, true, false},
      {"the next one is proposed", 3, 4, 4, 3, true, true},
      {"another generation ended last", 4, 0, 4, 3, false, false},
      {"another one ended last, and the next is proposed", 4, 5, 5, 3, false,
       false},
      {"a number was left out", 3, 5, 5, 3, true, false},
      {"the current one is another", 3, 4, 5, 3, true, false},
  };
  for (const auto& row : kRows) {
    Reasons reasons(v1::REASON_CODE_FIRST, "the first world");
    reasons.Ended(row.ended, v1::REASON_CODE_RANK_COMMUNICATION, "of a", "a",
                  1);
    if (row.proposed != 0) reasons.Proposed(row.proposed, "; more");
    const v1::Reform next = reasons.next();
    const v1::Reform current = reasons.current();
    const v1::RootCause cause = ExitOn("b", row.cause);
    EXPECT_EQ(reasons.Blame(cause, 7, row.current), row.changes_next)
        << row.what;
    if (row.changes_next) {
      EXPECT_EQ(reasons.next().node(), "b") << row.what;
      EXPECT_EQ(reasons.next().code(), v1::REASON_CODE_RANK_EXIT) << row.what;
      EXPECT_EQ(reasons.next().reason(), Describe(cause)) << row.what;
      EXPECT_EQ(reasons.next().restarts_charged(), 7u) << row.what;
      EXPECT_EQ(reasons.next().generation(), row.ended) << row.what;
    } else {
      EXPECT_EQ(reasons.next().SerializeAsString(), next.SerializeAsString())
          << row.what;
    }
    if (row.changes_current) {
      EXPECT_EQ(reasons.current().node(), "b") << row.what;
      EXPECT_EQ(reasons.current().reason(), Describe(cause)) << row.what;
      EXPECT_EQ(reasons.current().generation(), row.current) << row.what;
    } else {
      EXPECT_EQ(reasons.current().SerializeAsString(),
                current.SerializeAsString())
          << row.what;
    }
  }
}

}  // namespace
}  // namespace rollcall
