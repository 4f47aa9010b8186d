// Adds facts that could not be found out, each with its reason.
#ifndef ROLLCALL_CLIENT_FACTS_MISSING_H_
#define ROLLCALL_CLIENT_FACTS_MISSING_H_

#include <string>

#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Adds a MissingFact, unless there is one for the same fact. Characters and
// lengths that a Hello may not carry are replaced or cut. Adds nothing if there
// are FactsLimits::missing_max already.
void AddMissing(v1::Facts& facts, absl::string_view fact,
                absl::string_view reason, absl::string_view remedy);
void AddMissing(v1::Facts& facts, const v1::MissingFact& wanted);

// `text` as facts may have it: printable ASCII, all other bytes as '?', at most
// `bytes_max` bytes. Pure.
std::string PlainText(absl::string_view text, size_t bytes_max = 256);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_MISSING_H_
