#include "daemon/server/loop/state/logger.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

TEST(Logger, ALineAsJson) {
  struct Row {
    const char* line;
    const char* json;  // After time and level.
  };
  const Row kRows[] = {
      {"event=lost node=a", R"("event":"lost","node":"a")"},
      {R"(event=lost reason="its stream broke")",
       R"("event":"lost","reason":"its stream broke")"},
      // Text from a peer can end neither the value nor the JSON object.
      {R"(reason="a \"b\" c=d \\" x=1)",
       R"("reason":"a \"b\" c=d \\","x":"1")"},
      {R"(text="a=b)", R"("text":"a=b")"},
      {"a=b=c", R"("a":"b=c")"},
      {"plain words", R"("text":"plain words")"},
      {"two  blanks event=x", R"("event":"x","text":"two  blanks")"},
      // The first value of a key is kept, and the logger's own keys are not
      // replaced.
      {"a=1 a=2 time=never level=none", R"("a":"1")"},
      {"", ""},
      {"empty= \"\"", R"("empty":"")"},
  };
  for (const Row& row : kRows) {
    const std::string json =
        *row.json == '\0' ? "" : absl::StrCat(",", row.json);
    EXPECT_EQ(JsonLogLine(absl::UnixEpoch() + absl::Milliseconds(1500),
                          Log::Level::kWarning, row.line),
              absl::StrCat(R"({"time":"1970-01-01T00:00:01.500Z",)",
                           R"("level":"warning")", json, "}"))
        << row.line;
  }
}

}  // namespace
}  // namespace rollcall
