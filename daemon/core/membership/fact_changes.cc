#include "daemon/core/membership/fact_changes.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/status_words.h"

namespace rollcall {
namespace {

constexpr size_t kNamedMax = 3;

}  // namespace

bool FactChanges::Take(const v1::FactChange& change, absl::Time now) {
  while (left_ < Limits::fact_changes_burst &&
         now >= since_ + Limits::fact_changes_between) {
    ++left_;
    since_ += Limits::fact_changes_between;
  }
  if (left_ == 0) {
    ++dropped_;
    return false;
  }
  if (left_-- == Limits::fact_changes_burst) since_ = now;
  if (latest_.size() == Limits::fact_changes_per_node) latest_.pop_front();
  latest_.push_back({change, now});
  return true;
}

std::string FactChanges::TextAround(absl::Time failure) const {
  std::vector<std::string> texts;
  for (auto at = latest_.rbegin(); at != latest_.rend(); ++at) {
    if (failure - at->at > Limits::fact_changes_window ||
        texts.size() == kNamedMax) {
      break;
    }
    texts.push_back(
        absl::StrCat(ChangeText(at->change), " ",
                     absl::ToInt64Seconds(absl::AbsDuration(failure - at->at)),
                     at->at > failure ? " s after" : " s before"));
  }
  return absl::StrJoin(texts, ", ");
}

}  // namespace rollcall
