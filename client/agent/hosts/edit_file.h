// EditFile: changes a text file of the system that other programs change too.
//
// Reads the file, lets the caller make the new text, writes it and verifies it.
// A lock excludes other rollcall processes meanwhile. The file is replaced by
// rename where possible, otherwise it is written in place: a bind mount (as
// /etc/hosts is in every container), a hard link, a folder that is not
// writable. Before an in-place write, a note with the old and the new text is
// stored in the lock folder, so that the next process can undo a write that was
// cut off.
//
// Blocks, so call it from any thread but a loop thread. Concurrent calls are
// allowed.
#ifndef ROLLCALL_CLIENT_AGENT_HOSTS_EDIT_FILE_H_
#define ROLLCALL_CLIENT_AGENT_HOSTS_EDIT_FILE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/base/files/file_lock.h"

namespace rollcall {

struct EditFileOptions {
  // Folders for the lock file, in order of preference; the file's own folder is
  // tried last. Empty: LockFolders of the users that may write the file.
  std::vector<std::string> lock_folders;
  absl::Duration lock_timeout = absl::Seconds(10);
  // A larger file is not edited.
  size_t bytes_max = 32 << 20;
};

struct EditedText {
  std::string text;
  // Remove the file instead. If that is not possible, it is left empty.
  bool remove = false;
};

// Makes the new text from the old one. Called again if another program changed
// the file in between; only the last call counts.
using EditText =
    std::function<EditedText(const std::string& text, bool exists)>;

// Keeps the file's mode, owner and extended attributes. Writes nothing if the
// text does not change. Safe to retry. PERMISSION_DENIED: this user may not
// write the file. FAILED_PRECONDITION: it is not a plain file, too large, or
// the system's reason. UNAVAILABLE: another process holds the lock. ABORTED:
// other programs kept changing the file.
absl::Status EditFile(const std::string& path, const EditFileOptions& options,
                      const EditText& edit);

// The note that precedes an in-place write. ReadUndoNote: INVALID_ARGUMENT if
// the text is incomplete.
struct UndoNote {
  std::string before;
  std::string after;
};
std::string FormatUndoNote(const UndoNote& note);
absl::StatusOr<UndoNote> ReadUndoNote(absl::string_view text);

// Whether `current` is the result of an in-place write of `after` over `before`
// that was cut off: it has the first bytes of `after`, then the bytes of
// `before` that were not overwritten.
bool IsTornWrite(absl::string_view current, absl::string_view before,
                 absl::string_view after);

// Names of the lock file and of the note for the file with this resolved path.
std::string LockName(const std::string& path);
std::string UndoNoteName(const std::string& path);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_HOSTS_EDIT_FILE_H_
