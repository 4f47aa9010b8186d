#include "daemon/base/text/name_list.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rollcall {

std::string NameList(std::vector<std::string> names, size_t most) {
  const size_t more = names.size() - std::min(names.size(), most);
  names.resize(names.size() - more);
  return absl::StrCat(absl::StrJoin(names, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

}  // namespace rollcall
