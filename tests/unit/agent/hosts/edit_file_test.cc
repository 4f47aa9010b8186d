#include "client/agent/hosts/edit_file.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "daemon/base/files/file_lock.h"

namespace rollcall {
namespace {

// --- Torn writes ------------------------------------------------------------

TEST(EditFile, KnowsATornWriteFromAnEdit) {
  const std::string kTexts[] = {"",          "a",          "abcdef",
                                "abXdefghi", "0123456789", "abcdefabcdef"};
  for (const std::string& before : kTexts) {
    for (const std::string& after : kTexts) {
      for (size_t k = 0; k <= after.size(); ++k) {
        std::string torn = before;
        if (torn.size() < k) torn.resize(k);
        torn.replace(0, k, after.substr(0, k));
        EXPECT_TRUE(IsTornWrite(torn, before, after))
            << before << " " << after << " " << k;
      }
    }
  }
  EXPECT_FALSE(IsTornWrite("something else", "abcdef", "0123456789"));
  EXPECT_FALSE(IsTornWrite("0123zz", "abcdef", "0123456789"));
  EXPECT_FALSE(IsTornWrite("0123efg", "abcdef", "0123456789"));
}

TEST(EditFile, ReadsOnlyWholeUndoNotes) {
  const UndoNote note{"before\n", std::string("af\0ter", 6)};
  const std::string text = FormatUndoNote(note);
  const auto read = ReadUndoNote(text);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->before, note.before);
  EXPECT_EQ(read->after, note.after);
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(ReadUndoNote(text.substr(0, size)).ok());
  }
  EXPECT_FALSE(ReadUndoNote(text + "x").ok());
  EXPECT_FALSE(
      ReadUndoNote("rollcall undo note 9 18446744073709551615\nx").ok());
}

// The lock of a file that only its owner may write is never in a folder that
// all users may write to.
TEST(FileLock, LiesInTheFolderOfWhoMayWrite) {
  using Folders = std::vector<std::string>;
  EXPECT_EQ(
      LockFolders({0, false}),
      (Folders{"/run/rollcall", "/run/lock/rollcall-0", "/tmp/rollcall-0"}));
  EXPECT_EQ(LockFolders({1000, false}),
            (Folders{"/run/lock/rollcall-1000", "/tmp/rollcall-1000"}));
  EXPECT_EQ(LockFolders({1000, true}), (Folders{"/run/lock", "/tmp"}));
}

// Edits the file in a child process that runs as another user.
pid_t BeginEditAs(uid_t user, const std::string& path, const EditText& edit) {
  const pid_t child = fork();
  if (child != 0) return child;
  if (setgroups(0, nullptr) != 0 || setgid(user) != 0 || setuid(user) != 0) {
    _exit(99);
  }
  EditFileOptions options;
  options.lock_timeout = absl::Milliseconds(30);
  _exit(static_cast<int>(EditFile(path, options, edit).code()));
}

absl::StatusCode EndOf(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return static_cast<absl::StatusCode>(WEXITSTATUS(status));
}

TEST(EditFile, AgentsOfDifferentUsersTakeTheSameLock) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "NOTICE: only root can be other users; not tried";
  }
  constexpr uid_t kNobody = 65534;
  constexpr uid_t kDaemon = 1;
  struct {
    uid_t owner;
    mode_t mode;
    uid_t first;
    uid_t second;
  } const kRows[] = {
      {kNobody, 0644, 0, kNobody},
      {kNobody, 0644, kNobody, 0},
      {0, 0666, 0, kNobody},
      {0, 0666, kNobody, 0},
      {kDaemon, 0666, kNobody, kDaemon},
      {kDaemon, 0666, kDaemon, kNobody},
  };
  for (const auto& row : kRows) {
    const std::string what = absl::StrCat("of ", row.owner, ", first ",
                                          row.first, ", second ", row.second);
    std::string folder = testing::TempDir() + "rollcall-lock-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    const std::string path = folder + "/hosts";
    std::ofstream(path) << "x\n";
    ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
    ASSERT_EQ(chmod(path.c_str(), row.mode), 0);
    ASSERT_EQ(chown(folder.c_str(), row.owner, row.owner), 0);
    ASSERT_EQ(chown(path.c_str(), row.owner, row.owner), 0);
    int locked[2];
    int go_on[2];
    ASSERT_EQ(pipe2(locked, O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(go_on, O_CLOEXEC), 0);
    char byte = 0;
    const pid_t first =
        BeginEditAs(row.first, path, [&](const std::string& text, bool) {
          if (write(locked[1], "x", 1) != 1 || read(go_on[0], &byte, 1) != 1) {
            _exit(98);
          }
          return EditedText{text, false};
        });
    close(locked[1]);
    const auto second = [&] {
      return EndOf(
          BeginEditAs(row.second, path, [](const std::string& text, bool) {
            return EditedText{text + "y\n", false};
          }));
    };
    EXPECT_EQ(read(locked[0], &byte, 1), 1) << what;
    EXPECT_EQ(second(), absl::StatusCode::kUnavailable) << what;
    EXPECT_EQ(write(go_on[1], "x", 1), 1);
    EXPECT_EQ(EndOf(first), absl::StatusCode::kOk) << what;
    EXPECT_EQ(second(), absl::StatusCode::kOk) << what;
    for (const int fd : {locked[0], go_on[0], go_on[1]}) close(fd);
    const LockUsers users{row.owner, (row.mode & 022) != 0};
    for (const std::string& locks : LockFolders(users)) {
      unlink((locks + "/" + LockName(path)).c_str());
    }
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace rollcall
