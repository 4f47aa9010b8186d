// Which connection is closed when agents or viewers have too many.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/server/connections/agent_places.h"
#include "daemon/server/connections/viewer_places.h"

namespace rollcall {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();

std::string Text(std::optional<uint64_t> id) {
  return id.has_value() ? absl::StrCat(*id) : "none";
}

// "a" was admitted by token a. "A" returned, and token a had admitted it
// before. "-" has an admin's token.
AgentRight RightOf(char who) {
  if (who == '-') return {"", true};
  const bool returns = who >= 'A' && who <= 'Z';
  return {std::string(1, returns ? static_cast<char>(who - 'A' + 'a') : who),
          returns};
}

struct AgentRow {
  const char* why;
  // Connections 1 to 4, which take all places.
  const char* attend;
  // Connections whose streams end, in this order.
  std::vector<uint64_t> idle;
  char who;
  const char* gives_way;
};

TEST(AgentPlaces, SelectsTheConnectionThatGivesWay) {
  const AgentRow kRows[] = {
      {"without a stream first", "aabb", {3, 2}, 'c', "3"},
      {"also for its own token", "aaaa", {2}, 'a', "2"},
      {"no token has over half", "aabb", {}, 'c', "none"},
      {"the newest of the token with over half", "aaab", {}, 'c', "3"},
      {"not for its own token", "aaab", {}, 'a', "none"},
      {"its own token, but it returns", "aaab", {}, 'A', "3"},
      {"it returns: no token needs over half", "abcd", {}, 'E', "1"},
      {"those that returned go after those that came", "AAaA", {}, 'c', "3"},
      {"of those the oldest", "AAAA", {}, 'c', "1"},
      {"an admin's never", "----", {}, 'A', "none"},
      {"an admin's do not count as a token", "---a", {}, 'A', "4"},
  };
  for (const AgentRow& row : kRows) {
    SCOPED_TRACE(row.why);
    AgentPlaces places(4);
    for (uint64_t id = 1; id <= 4; ++id) {
      EXPECT_FALSE(places.IsFull());
      EXPECT_TRUE(places.Attend(id, RightOf(row.attend[id - 1])));
    }
    EXPECT_TRUE(places.IsFull());
    absl::Time expires = kStart;
    for (const uint64_t id : row.idle) {
      places.StreamEnded(id, expires += absl::Seconds(1));
    }
    EXPECT_EQ(Text(places.GivesWayTo(RightOf(row.who))), row.gives_way);
  }
}

TEST(AgentPlaces, AConnectionHasOneStreamAtATime) {
  AgentPlaces places(4);
  EXPECT_TRUE(places.Attend(1, RightOf('a')));
  EXPECT_FALSE(places.Attend(1, RightOf('a')));
  EXPECT_FALSE(places.NextExpiry().has_value());
  places.StreamEnded(1, kStart);
  EXPECT_EQ(places.NextExpiry(), std::pair(kStart, uint64_t{1}));
  EXPECT_TRUE(places.Attend(1, RightOf('a')));
  EXPECT_FALSE(places.NextExpiry().has_value());
  EXPECT_EQ(places.size(), 1u);
  places.Remove(1);
  EXPECT_EQ(places.size(), 0u);
  EXPECT_EQ(Text(places.GivesWayTo(RightOf('A'))), "none");
}

TEST(AgentPlaces, AConnectionThatIsGoneLeavesNothing) {
  AgentPlaces places(4);
  EXPECT_TRUE(places.Attend(1, RightOf('a')));
  places.StreamEnded(1, kStart);
  places.Remove(1);
  places.StreamEnded(1, kStart);
  places.Remove(1);
  EXPECT_FALSE(places.NextExpiry().has_value());
  EXPECT_EQ(places.size(), 0u);
}

// A token has at most 2 places, and all tokens together have 4. The selected
// connection is removed, as UnauthenticatedConnections does.
TEST(ViewerPlaces, SelectsTheConnectionThatHasToGo) {
  const struct {
    const char* added;
    const char* gone;
  } kRows[] = {
      {"aa", ""},     {"aaa", "3"},   {"aaab", "3"},
      {"aabb", ""},   {"aabc", ""},   {"aabcd", "2"},
      {"abbcd", "3"}, {"abcde", "1"}, {"aaabbc", "3 2"},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.added);
    ViewerPlaces places(2, 4);
    const std::string added = row.added;
    std::string gone;
    for (uint64_t id = 1; id <= added.size(); ++id) {
      const std::optional<uint64_t> goes =
          places.Add(added.substr(id - 1, 1), id);
      if (!goes.has_value()) continue;
      places.Remove(added.substr(*goes - 1, 1), *goes);
      absl::StrAppend(&gone, gone.empty() ? "" : " ", *goes);
    }
    EXPECT_EQ(gone, row.gone);
  }
}

}  // namespace
}  // namespace rollcall
