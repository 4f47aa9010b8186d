#include "daemon/journal/default_state.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/living.h"

namespace rollcall {
namespace {

TEST(RootsOf, Table) {
  const struct {
    StateOrigin origin;
    std::string standard, fallback;
  } kRows[] = {
      {{"/x", "/home/a", "/home/b", "/t", 7},
       "/x/rollcall",
       "/t/rollcall-state-7"},
      {{"", "/home/a", "/home/b", "", 7},
       "/home/a/.local/state/rollcall",
       "/tmp/rollcall-state-7"},
      {{"", "", "/home/b", "/t/", 7},
       "/home/b/.local/state/rollcall",
       "/t/rollcall-state-7"},
      // A relative path depends on the working folder, so it is ignored.
      {{"x", "a", "/home/b", "t", 7},
       "/home/b/.local/state/rollcall",
       "/tmp/rollcall-state-7"},
      // The container runs as a random user.
      {{"", "", "", "", 12345}, "", "/tmp/rollcall-state-12345"},
      {{"", "", "", "/", 12345}, "", "/rollcall-state-12345"},
      {{"", "", "", "", 0},
       "/root/.local/state/rollcall",
       "/tmp/rollcall-state-0"},
  };
  for (const auto& row : kRows) {
    const StateRoots roots = RootsOf(row.origin);
    EXPECT_EQ(roots.standard, row.standard) << row.fallback;
    EXPECT_EQ(roots.fallback, row.fallback) << row.standard;
  }
}

TEST(ChooseRoot, Table) {
  const auto kStandard = RootChoice::kStandard;
  const auto kFallback = RootChoice::kFallback;
  const auto kNone = RootChoice::kNone;
  const struct {
    RootFound standard, fallback;
    RootChoice expect;
  } kRows[] = {
      {{"", false}, {"", false}, kStandard},
      {{"", true}, {"", false}, kStandard},
      {{"", true}, {"", true}, kStandard},
      {{"", false}, {"", true}, kFallback},  // A run continues there.
      {{"", false}, {"not ours", true}, kStandard},
      {{"cannot", false}, {"", false}, kFallback},
      {{"cannot", false}, {"", true}, kFallback},
      {{"cannot", true}, {"", false}, kStandard},  // Opening it gives the
                                                   // reason.
      {{"cannot", false}, {"not ours", false}, kNone},
      {{"cannot", false}, {"not ours", true}, kNone},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(ChooseRoot(row.standard, row.fallback), row.expect)
        << row.standard.trouble << row.standard.known << row.fallback.trouble
        << row.fallback.known;
  }
}

class DefaultStateTest : public testing::Test {
 protected:
  // Puts a file where a folder should be, so that not even root can make a
  // folder below it.
  void TakeHomeAway() {
    std::ofstream(folder_ / "file") << "x";
    roots_.standard = folder_ / "file/rollcall";
  }
  absl::StatusOr<DefaultState> Make() {
    return MakeDefaultState(roots_, "job", {"/daemon.json", "/launch.json"});
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat found = {};
    return lstat(path.c_str(), &found) == 0 ? found.st_mode & 07777 : 0;
  }

  TempFolder folder_;
  StateRoots roots_{folder_ / "home/state/rollcall", folder_ / "tmp-state"};
};

TEST_F(DefaultStateTest, TheStandardFolderIsMadeAndTheOtherIsNot) {
  const auto state = Make();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->folder, roots_.standard + "/job");
  EXPECT_EQ(state->notice, "");
  EXPECT_EQ(ModeOf(roots_.standard), 0700u);
  EXPECT_EQ(ModeOf(roots_.fallback), 0u);
  EXPECT_EQ(RootsToSearch(roots_), std::vector<std::string>{roots_.standard});
}

TEST_F(DefaultStateTest, TheFallbackIsMadeForThisUserAloneAndFoundAgain) {
  TakeHomeAway();
  const auto state = Make();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->folder, roots_.fallback + "/job");
  EXPECT_EQ(ModeOf(roots_.fallback), 0700u);
  // The notice is one line and names both folders.
  EXPECT_NE(state->notice.find(state->folder), std::string::npos);
  EXPECT_NE(state->notice.find(roots_.standard), std::string::npos);
  EXPECT_EQ(state->notice.find('\n'), std::string::npos);
  const auto again = Make();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->folder, state->folder);
  EXPECT_EQ(RootsToSearch(roots_),
            (std::vector<std::string>{roots_.standard, roots_.fallback}));
}

TEST_F(DefaultStateTest, ARunThatWasBegunInTheFallbackIsGoneOnWithThere) {
  std::filesystem::create_directories(roots_.fallback + "/job");
  ASSERT_EQ(chmod(roots_.fallback.c_str(), 0700), 0);
  EXPECT_EQ(Make()->folder, roots_.standard + "/job");
  std::ofstream(roots_.fallback + "/job/launch.json") << "{}";
  const auto state = Make();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->folder, roots_.fallback + "/job");
  EXPECT_NE(state->notice, "");
}

TEST_F(DefaultStateTest, AFallbackThatIsNotThisUsersAloneIsRefused) {
  TakeHomeAway();
  const std::string elsewhere = folder_ / "elsewhere";
  std::filesystem::create_directory(elsewhere);
  ASSERT_EQ(chmod(elsewhere.c_str(), 0700), 0);
  const auto refused = [&](const char* expect) {
    const auto state = Make();
    EXPECT_EQ(state.status().code(), absl::StatusCode::kFailedPrecondition);
    for (const std::string& word :
         {roots_.fallback, roots_.standard, std::string(expect),
          std::string("--state"), std::string("TMPDIR")}) {
      EXPECT_NE(state.status().message().find(word), std::string::npos)
          << word << " in " << state.status();
    }
    EXPECT_EQ(RootsToSearch(roots_), std::vector<std::string>{roots_.standard});
  };
  std::filesystem::create_symlink(elsewhere, roots_.fallback);
  refused("a link");
  std::filesystem::remove(roots_.fallback);

  std::ofstream(roots_.fallback) << "x";
  refused("expected a folder");
  std::filesystem::remove(roots_.fallback);

  std::filesystem::create_directory(roots_.fallback);
  ASSERT_EQ(chmod(roots_.fallback.c_str(), 0770), 0);
  refused("0700");
  EXPECT_EQ(ModeOf(roots_.fallback), 0770u) << "left as it was";

  ASSERT_EQ(chmod(roots_.fallback.c_str(), 0700), 0);
  if (chown(roots_.fallback.c_str(), geteuid() + 1, -1) == 0) {
    refused("got one of user");
  }
}

TEST_F(DefaultStateTest, AFallbackThatOthersMayReplaceIsSaid) {
  TakeHomeAway();
  const std::string shared = folder_ / "shared";
  std::filesystem::create_directory(shared);
  roots_.fallback = shared + "/state";
  ASSERT_EQ(chmod(shared.c_str(), 01777), 0);
  EXPECT_EQ(Make()->notice.find("sticky"), std::string::npos);
  ASSERT_EQ(chmod(shared.c_str(), 0777), 0);
  EXPECT_NE(Make()->notice.find("sticky"), std::string::npos);
}

}  // namespace
}  // namespace rollcall
