// Tests run specs of workers with placeholders.
#include "client/launch/spawn/worker_template.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"

namespace rollcall {
namespace {

TEST(WorkerTemplate, ValuesTakeThePlaceOfPlaceholders) {
  const TemplateValues values = {
      {"NODE_RANK", "3"}, {"MASTER_ADDR", "10.0.0.1"}, {"JOIN", "<<JOIN>>"}};
  const struct {
    const char* text;
    const char* expect;
  } rows[] = {
      {"", ""},
      {"name: w", "name: w"},
      {"name: w-<<NODE_RANK>>\na: <<MASTER_ADDR>>:1\n",
       "name: w-3\na: 10.0.0.1:1\n"},
      {"<<NODE_RANK>><<NODE_RANK>>", "33"},
      // A value is not searched for placeholders.
      {"<<JOIN>>", "<<JOIN>>"},
      {"a < b > c >> d", "a < b > c >> d"},
  };
  for (const auto& row : rows) {
    const auto text = RenderTemplate(row.text, values);
    ASSERT_TRUE(text.ok()) << row.text << text.status();
    EXPECT_EQ(*text, row.expect);
  }
}

TEST(WorkerTemplate, AMistakeIsNamedWithLineAndColumn) {
  const struct {
    const char* text;
    const char* expect;
  } rows[] = {
      {"a\nb: <<NODE_RNAK>>",
       "line 2, column 4: unknown placeholder "
       "<<NODE_RNAK>>"},
      {"<<>>", "line 1, column 1: unknown placeholder <<>>"},
      {"<<node_rank>>", "unknown placeholder"},
      {"<< NODE_RANK >>", "unknown placeholder"},
      {"a <<NODE_RANK\n>>", "line 1, column 3: a placeholder begins with <<"},
      {"x\n <<", "line 2, column 2: a placeholder begins with <<"},
      {"cat <<EOF\nEOF", "line 1, column 5"},
      {"a\n\nb: <<NUM_NODES>>", "line 3, column 4: <<NUM_NODES>> has no value"},
      {"<<RDZV_ID>>", "<<RDZV_ID>> has no value"},
  };
  for (const auto& row : rows) {
    const auto text =
        RenderTemplate(row.text, {{"NODE_RANK", "3"}, {"RDZV_ID", ""}});
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument)
        << row.text;
    EXPECT_TRUE(absl::StrContains(text.status().message(), row.expect))
        << row.text << ": " << text.status();
  }
}

TEST(WorkerTemplate, NamesItsPlaceholders) {
  const auto names = PlaceholdersOf("<<JOIN>> <<NODE_RANK>> <<JOIN>>");
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(absl::StrJoin(*names, " "), "JOIN NODE_RANK");
  EXPECT_FALSE(PlaceholdersOf("<<NO>>").ok());
}

}  // namespace
}  // namespace rollcall
