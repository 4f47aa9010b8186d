// A rank's own report of its failure, from TORCHELASTIC_ERROR_FILE.
//
// Thread rule: any thread.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_OUTPUT_ERROR_FILE_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_OUTPUT_ERROR_FILE_H_

#include <string>
#include <string_view>

namespace rollcall {

struct ErrorReport {
  // Valid UTF-8 of at most Limits::stderr_tail_bytes; the beginning of a longer
  // text is cut off. Empty: there is no message.
  std::string message;
  // A restart would fail in the same way.
  bool permanent = false;
};

// Parses torchelastic's JSON: {"message": "text"} or {"message": {"message":
// "text", ...}}. rollcall adds "permanent": true beside "message".
ErrorReport ParseErrorFile(std::string_view json);

// Does the same for a file. Empty if it cannot be read, is not a regular file,
// or is larger than a mebibyte.
ErrorReport ReadErrorFile(const std::string& path);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_OUTPUT_ERROR_FILE_H_
