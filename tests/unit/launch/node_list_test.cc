// Tests how Slurm's node lists are parsed.
#include "client/launch/platform/node_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

TEST(NodeList, Expands) {
  const struct {
    const char* list;
    const char* expect;
  } rows[] = {
      {"n1", "n1"},
      {"n1,m5", "n1 m5"},
      {"n[1-3,07-10],m5", "n1 n2 n3 n07 n08 n09 n10 m5"},
      {"n[9-11]", "n9 n10 n11"},
      {"n[099-101]-ib", "n099-ib n100-ib n101-ib"},
      {"r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"},
      {"gpu_a.b-[3]", "gpu_a.b-3"},
      {"n[5,3,5]", "n5 n3 n5"},
      {"[1-2]", "1 2"},
  };
  for (const auto& row : rows) {
    const auto names = ExpandNodeList(row.list);
    ASSERT_TRUE(names.ok()) << row.list << ": " << names.status();
    EXPECT_EQ(absl::StrJoin(*names, " "), row.expect) << row.list;
  }
}

TEST(NodeList, AMistakeIsNamedWithItsColumn) {
  const struct {
    const char* list;
    const char* expect;
  } rows[] = {
      {"", "a node name at column 1"},
      {"n1,", "a node name at column 4"},
      {",n1", "a node name at column 1"},
      {"n[1-3", "',', '-' or ']' at column 6"},
      {"n[]", "a number at column 3"},
      {"n[1-]", "a number at column 5"},
      {"n[1,]", "a number at column 5"},
      {"n[a]", "a number at column 3"},
      {"n[3-1]", "a number of at least 3 at column 5"},
      {"n[1]]", "a letter, a digit"},
      {"n1 n2", "at column 3"},
      {"n[1[2]]", "at column 4"},
      {"n[12345678901]", "a number of at most 9 digits at column 3"},
  };
  for (const auto& row : rows) {
    const auto names = ExpandNodeList(row.list);
    EXPECT_EQ(names.status().code(), absl::StatusCode::kInvalidArgument)
        << row.list;
    EXPECT_TRUE(absl::StrContains(names.status().message(), row.expect))
        << row.list << ": " << names.status();
  }
}

TEST(NodeList, HasAsManyNamesAsAJobMayHaveNodes) {
  const auto most =
      ExpandNodeList(absl::StrCat("n[1-", Limits::nodes_max, "]"));
  ASSERT_TRUE(most.ok());
  EXPECT_EQ(most->size(), size_t{Limits::nodes_max});
  for (const std::string& list :
       {absl::StrCat("n[0-", Limits::nodes_max, "]"),
        std::string("n[1-999999999]"), std::string("n[1-999]m[1-999]"),
        absl::StrCat("n[1-", Limits::nodes_max, "],m")}) {
    EXPECT_EQ(ExpandNodeList(list).status().code(),
              absl::StatusCode::kResourceExhausted)
        << list;
  }
}

}  // namespace
}  // namespace rollcall
