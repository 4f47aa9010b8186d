// How an agent ends, and when: a table.
#include "client/agent/core/agent/state/departure.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

using DepartureEvent = std::function<bool(Departure&)>;

Exit ExitOf(int code, v1::ReasonCode end = v1::REASON_CODE_UNSPECIFIED) {
  Exit exit{code, "", std::nullopt};
  if (end != v1::REASON_CODE_UNSPECIFIED) exit.end.emplace().set_code(end);
  return exit;
}

DepartureEvent Leaves(int code,
                      v1::ReasonCode end = v1::REASON_CODE_UNSPECIFIED) {
  return
      [=](Departure& departure) { return departure.Leave(ExitOf(code, end)); };
}

DepartureEvent Lingers(int code, v1::ReasonCode end) {
  return [=](Departure& departure) {
    return departure.Linger(ExitOf(code, end), At(60));
  };
}

DepartureEvent LingerEnds() {
  return [](Departure& departure) { return departure.EndLinger(); };
}

// Nothing is left.
DepartureEvent Empty() {
  return [](Departure& departure) { return departure.TakeExit(); };
}

std::string DepartureText(const Departure& departure) {
  EXPECT_EQ(departure.linger_until(),
            departure.lingers() ? At(60) : absl::InfiniteFuture());
  if (!departure.leaves()) return "stays";
  return absl::StrCat(departure.exited()    ? "exited "
                      : departure.lingers() ? "lingers "
                                            : "leaves ",
                      departure.exit().code,
                      departure.job_ended() ? " by End" : "");
}

TEST(Departure, Table) {
  constexpr v1::ReasonCode kFinished = v1::REASON_CODE_FINISHED;
  constexpr v1::ReasonCode kSetup = v1::REASON_CODE_SETUP;
  struct Step {
    DepartureEvent event;
    bool answer;
    std::string expect;
  };
  const struct {
    std::string name;
    std::vector<Step> steps;
  } kRows[] = {
      {"nothing to leave for",
       {{Empty(), false, "stays"}, {LingerEnds(), false, "stays"}}},
      {"the first reason counts, and it exits once",
       {{Leaves(130), true, "leaves 130"},
        {Leaves(69), false, "leaves 130"},
        {Empty(), true, "exited 130"},
        {Empty(), false, "exited 130"}}},
      {"the first End counts most",
       {{Leaves(130), true, "leaves 130"},
        {Leaves(3, kFinished), true, "leaves 3 by End"},
        {Leaves(4, kFinished), false, "leaves 3 by End"},
        {Lingers(4, kFinished), false, "leaves 3 by End"},
        {Leaves(69), false, "leaves 3 by End"}}},
      {"a linger ends",
       {{Lingers(0, kFinished), true, "lingers 0 by End"},
        {Leaves(130), false, "lingers 0 by End"},
        {LingerEnds(), true, "leaves 0 by End"},
        {LingerEnds(), false, "leaves 0 by End"},
        {Empty(), true, "exited 0 by End"}}},
      {"nothing is left to linger with",
       {{Lingers(0, kFinished), true, "lingers 0 by End"},
        {Empty(), true, "exited 0 by End"}}},
      {"after a failed set-up it lingers with nothing",
       {{Leaves(130), true, "leaves 130"},
        {Lingers(7, kSetup), true, "lingers 7 by End"},
        {Empty(), false, "lingers 7 by End"},
        {LingerEnds(), true, "leaves 7 by End"},
        {Empty(), true, "exited 7 by End"}}},
  };
  for (const auto& row : kRows) {
    Departure departure;
    for (const Step& step : row.steps) {
      SCOPED_TRACE(absl::StrCat(row.name, ": ", step.expect));
      EXPECT_EQ(step.event(departure), step.answer);
      EXPECT_EQ(DepartureText(departure), step.expect);
    }
  }
}

}  // namespace
}  // namespace rollcall
