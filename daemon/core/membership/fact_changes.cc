#include "daemon/core/membership/fact_changes.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/status_words.h"

namespace rollcall {
namespace {

constexpr size_t kChangesNamedMax = 3;

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
  std::vector<const Kept*> named;
  const Kept* first_xid = nullptr;
  for (auto at = latest_.rbegin(); at != latest_.rend(); ++at) {
    if (failure - at->at > Limits::fact_changes_window) break;
    if (named.size() < kChangesNamedMax) named.push_back(&*at);
    if (at->change.kind() == v1::FACT_KIND_XID) first_xid = &*at;
  }
  if (first_xid != nullptr &&
      std::find(named.begin(), named.end(), first_xid) == named.end()) {
    named.back() = first_xid;
  }
  return absl::StrJoin(named, ", ", [&](std::string* text, const Kept* kept) {
    absl::StrAppend(text, ChangeText(kept->change), " ",
                    absl::ToInt64Seconds(absl::AbsDuration(failure - kept->at)),
                    kept->at > failure ? " s after" : " s before");
  });
}

}  // namespace rollcall
