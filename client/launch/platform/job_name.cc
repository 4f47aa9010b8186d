#include "client/launch/platform/job_name.h"

#include "absl/strings/ascii.h"
#include "daemon/core/limits.h"

namespace rollcall {

std::string JobIdOf(absl::string_view name) {
  std::string id;
  for (const char c : name) {
    const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
    const bool good = absl::ascii_isalnum(static_cast<unsigned char>(lower));
    if (!good && id.empty()) continue;
    id.push_back(good ? lower : '-');
    if (id.size() == Limits::job_id_bytes_max) break;
  }
  while (!id.empty() && id.back() == '-') id.pop_back();
  return id;
}

}  // namespace rollcall
