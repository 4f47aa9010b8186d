// Adds facts that are not known, each with its reason.
#ifndef ROLLCALL_CLIENT_FACTS_SYSTEM_MISSING_H_
#define ROLLCALL_CLIENT_FACTS_SYSTEM_MISSING_H_

#include <string>

#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Adds a MissingFact, unless there is already one for the same fact. Characters
// that a Hello may not carry are replaced, and long texts are cut. Adds nothing
// if there are already FactsLimits::missing_max entries.
void AddMissing(v1::Facts& facts, absl::string_view fact,
                absl::string_view reason, absl::string_view remedy);
void AddMissing(v1::Facts& facts, const v1::MissingFact& wanted);

// `text` in the form that facts allow: printable ASCII, each other byte
// replaced by '?', at most `bytes_max` bytes. Pure.
std::string PlainText(absl::string_view text, size_t bytes_max = 256);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_SYSTEM_MISSING_H_
