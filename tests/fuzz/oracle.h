// What must hold of values for any input, for all fuzz targets.
//
// If a check fails, it prints what was found and aborts, so that libFuzzer
// keeps the input.
#ifndef ROLLCALL_TESTS_FUZZ_ORACLE_H_
#define ROLLCALL_TESTS_FUZZ_ORACLE_H_

#include <string>
#include <string_view>

#include "google/protobuf/message.h"

namespace rollcall {

// Aborts with `what` and the escaped `found`.
[[noreturn]] void Broken(const char* what, std::string_view found);

inline void Expect(bool holds, const char* what, std::string_view found = "") {
  if (!holds) Broken(what, found);
}

// Expects valid UTF-8 without control characters. If `multiline`, newlines and
// tabs are allowed.
void ExpectPrintable(const char* what, std::string_view text,
                     bool multiline = false);

// Expects that each string in the message and its submessages is printable. The
// last lines of a rank (stderr_tail, error_file, detail) may have several
// lines. Bytes fields are not checked.
void ExpectPrintable(const google::protobuf::Message& message);

// Expects that the message can be serialized and parsed again.
void ExpectSerializes(const google::protobuf::Message& message);

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_FUZZ_ORACLE_H_
