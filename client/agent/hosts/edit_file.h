// EditFile: changes a text file of the system that other programs change too.
//
// Reads, lets the caller make the new text, writes and verifies, all under a
// lock among rollcall's own processes. Writes by rename where that works, and
// in place where it does not (a bind mount, as /etc/hosts is in every
// container; a hard link; a folder that is not writable). An in-place write is
// preceded by a note in the lock folder with both texts, so that one that was
// cut off is undone by whoever comes next.
//
// Blocks; not for a loop thread. Any other thread, any number at once.
#ifndef ROLLCALL_CLIENT_AGENT_HOSTS_EDIT_FILE_H_
#define ROLLCALL_CLIENT_AGENT_HOSTS_EDIT_FILE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/base/file_lock.h"

namespace rollcall {

struct EditFileOptions {
  // Where the lock file may lie, in order of preference; at last, beside the
  // file. Empty: in LockFolders of those who may write the file.
  std::vector<std::string> lock_folders;
  absl::Duration lock_timeout = absl::Seconds(10);
  // A file larger than this is not ours to touch.
  size_t bytes_max = 32 << 20;
};

struct EditedText {
  std::string text;
  // Take the file away instead. Where that cannot be done it is left empty.
  bool remove = false;
};

// Makes the new text from the old one. May be called again where another
// program changed the file meanwhile; only the last call counts.
using EditText =
    std::function<EditedText(const std::string& text, bool exists)>;

// Mode, owner and extended attributes stay. Nothing is written where the text
// stays the same. Safe to retry.
//   PERMISSION_DENIED: this user may not. FAILED_PRECONDITION: not a plain
//   file, too large, or the system's reason. UNAVAILABLE: the lock is held.
//   ABORTED: others kept changing the file.
absl::Status EditFile(const std::string& path, const EditFileOptions& options,
                      const EditText& edit);

// The note that precedes an in-place write, as text. ReadUndoNote:
// INVALID_ARGUMENT where it is not whole.
struct UndoNote {
  std::string before;
  std::string after;
};
std::string FormatUndoNote(const UndoNote& note);
absl::StatusOr<UndoNote> ReadUndoNote(absl::string_view text);

// Whether `current` is what an in-place write of `after` over `before` leaves
// when it is cut off: the first bytes of one, the remainder of the other.
bool IsTornWrite(absl::string_view current, absl::string_view before,
                 absl::string_view after);

// Names of the lock file and of the note of the file with this resolved path.
std::string LockName(const std::string& path);
std::string UndoNoteName(const std::string& path);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_HOSTS_EDIT_FILE_H_
