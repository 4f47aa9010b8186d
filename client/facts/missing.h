// Facts that could not be found out, each with its reason.
#ifndef ROLLCALL_CLIENT_FACTS_MISSING_H_
#define ROLLCALL_CLIENT_FACTS_MISSING_H_

#include <string>

#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Adds a MissingFact, unless the same one is there already. What does not fit
// into a Hello is replaced or cut; beyond
// FactsLimits::missing_max of them, nothing is added.
void AddMissing(v1::Facts& facts, absl::string_view fact,
                absl::string_view reason, absl::string_view remedy);
void AddMissing(v1::Facts& facts, const v1::MissingFact& wanted);

// `text` as facts may hold it: printable ASCII, everything else as '?', at most
// `bytes_max` bytes. Pure.
std::string PlainText(absl::string_view text, size_t bytes_max = 256);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_MISSING_H_
