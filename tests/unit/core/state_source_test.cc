#include "daemon/core/formation/state_source.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

// "source 1; not 0 2", by the claims' places.
std::string Choose(const std::vector<StateClaim>& claims) {
  const StateChoice choice = ChooseStateSource(claims);
  std::string text = choice.source.has_value()
                         ? absl::StrCat("source ", *choice.source)
                         : "none";
  for (const size_t at : choice.disbelieved) {
    absl::StrAppend(&text, "; not ", at);
  }
  return text;
}

TEST(StateSource, IsTheHighestStepThatFitsTheOthers) {
  constexpr uint64_t kMost = ~uint64_t{0};
  using enum StateClaim::From;
  struct {
    const char* what;
    std::vector<StateClaim> claims;
    const char* expect;
  } const kRows[] = {
      {"nobody", {}, "none"},
      {"one", {{5, kEnded}}, "source 0"},
      {"the lower seat of equals", {{5, kEnded}, {5, kEnded}}, "source 0"},
      {"two that differ: nobody can say",
       {{5, kEnded}, {900, kEnded}},
       "source 1"},
      {"three, one step apart",
       {{5, kEnded}, {6, kEnded}, {5, kEnded}},
       "source 1"},
      {"three, one far above",
       {{5, kEnded}, {900, kEnded}, {6, kEnded}},
       "source 2; not 1"},
      {"two steps above is too far",
       {{5, kEnded}, {7, kEnded}, {5, kEnded}},
       "source 0; not 1"},
      {"the largest number",
       {{5, kEnded}, {5, kEnded}, {kMost, kEnded}},
       "source 0; not 2"},
      {"all at the largest",
       {{kMost, kEnded}, {kMost, kEnded}, {kMost, kEnded}},
       "source 0"},
      {"one far behind is no harm",
       {{0, kEnded}, {900, kEnded}, {901, kEnded}},
       "source 2"},
      {"four: the lower middle",
       {{5, kEnded}, {5, kEnded}, {7, kEnded}, {7, kEnded}},
       "source 0; not 2; not 3"},
      {"a newcomer beside a member",
       {{5, kEnded}, {900, kNewcomer}},
       "source 0; not 1"},
      {"newcomers make no median",
       {{5, kEnded}, {900, kNewcomer}, {900, kNewcomer}, {900, kNewcomer}},
       "source 0; not 1; not 2; not 3"},
      {"newcomers alone", {{5, kNewcomer}, {900, kNewcomer}}, "source 1"},
      {"one of the ended world, three behind it of earlier ones",
       {{47, kEarlier}, {49, kEnded}, {47, kEarlier}, {47, kEarlier}},
       "source 1"},
      {"one of an earlier world, far above the ended one",
       {{5, kEnded}, {5, kEnded}, {5, kEnded}, {900, kEarlier}},
       "source 0; not 3"},
      {"one of an earlier world, and too few of the ended one",
       {{5, kEnded}, {5, kEnded}, {9, kEarlier}},
       "source 2"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Choose(row.claims), row.expect) << row.what;
  }
}

}  // namespace
}  // namespace rollcall
