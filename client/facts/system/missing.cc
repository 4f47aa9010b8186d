#include "client/facts/system/missing.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {

std::string PlainText(absl::string_view text, size_t bytes_max) {
  std::string plain(text.substr(0, bytes_max));
  for (char& c : plain) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return plain;
}

void AddMissing(v1::Facts& facts, absl::string_view fact,
                absl::string_view reason, absl::string_view remedy) {
  v1::MissingFact wanted;
  wanted.set_fact(std::string(fact));
  wanted.set_reason(std::string(reason));
  wanted.set_remedy(std::string(remedy));
  AddMissing(facts, wanted);
}

void AddMissing(v1::Facts& facts, const v1::MissingFact& wanted) {
  if (static_cast<size_t>(facts.missing_size()) >= FactsLimits::missing_max) {
    return;
  }
  const size_t text_max = FactsLimits::missing_text_bytes_max;
  v1::MissingFact missing = wanted;
  missing.set_fact(PlainText(wanted.fact()));
  missing.set_reason(PlainText(wanted.reason(), text_max));
  missing.set_remedy(PlainText(wanted.remedy(), text_max));
  const bool known = std::any_of(facts.missing().begin(), facts.missing().end(),
                                 [&](const v1::MissingFact& other) {
                                   return other.fact() == missing.fact() &&
                                          other.reason() == missing.reason();
                                 });
  if (!known) *facts.add_missing() = std::move(missing);
}

}  // namespace rollcall
