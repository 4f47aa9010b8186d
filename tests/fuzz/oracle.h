// What must hold of values whatever came in, for all fuzz targets.
//
// A promise that is broken prints what was found and aborts, so that libFuzzer
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

// Valid UTF-8 without control characters; newline and tab may be in it if
// `multiline`.
void ExpectPrintable(const char* what, std::string_view text,
                     bool multiline = false);

// Each string in the message and below it is printable. A rank's last words
// (stderr_tail, error_file, detail) may have several lines; bytes fields are
// passed over.
void ExpectPrintable(const google::protobuf::Message& message);

// Serializes, and parses again.
void ExpectSerializes(const google::protobuf::Message& message);

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_FUZZ_ORACLE_H_
