// What a rank said of its own failure in TORCHELASTIC_ERROR_FILE.
//
// Thread rule: any thread.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_ERROR_FILE_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_ERROR_FILE_H_

#include <string>
#include <string_view>

namespace rollcall {

struct ErrorReport {
  // Valid UTF-8 of at most Limits::stderr_tail_bytes, the end kept; empty where
  // there is none.
  std::string message;
  // It would fail again in the same way: starting it anew is in vain.
  bool permanent = false;
};

// Torchelastic's JSON: {"message": "text"} or {"message": {"message": "text",
// ...}}; and, of ours, "permanent": true beside it.
ErrorReport ParseErrorFile(std::string_view json);

// The same of a file. Nothing where it cannot be read, is no regular file, or
// is larger than a mebibyte.
ErrorReport ReadErrorFile(const std::string& path);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_ERROR_FILE_H_
