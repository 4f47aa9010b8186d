#include "daemon/base/text/awaited_text.h"

#include "absl/strings/str_cat.h"
#include "daemon/base/text/name_list.h"

namespace rollcall {
namespace {

// How many names fit in one readable line.
constexpr size_t kNamesShown = 8;

}  // namespace

std::string NeededText(const Awaited& awaited) {
  const auto left = [&](uint64_t wanted) {
    return wanted > awaited.here ? wanted - awaited.here : uint64_t{0};
  };
  const uint64_t needed = left(awaited.nodes_min);
  const uint64_t room = left(awaited.nodes_max);
  if (room == 0) return "none is missing";
  const std::string more = absl::StrCat("room for ", room, " more");
  if (needed == 0) return absl::StrCat("enough to begin, ", more);
  return absl::StrCat(needed, " more to begin",
                      room > needed ? absl::StrCat(", ", more) : "");
}

std::string AwaitedText(const Awaited& awaited) {
  return absl::StrCat(
      awaited.here, awaited.here == 1 ? " node is" : " nodes are", " here; ",
      NeededText(awaited), awaited.missing.empty() ? "" : "; missing: ",
      NameList(awaited.missing, kNamesShown));
}

std::string StillRunningText(const std::vector<std::string>& nodes) {
  return absl::StrCat("still running: ", NameList(nodes, kNamesShown));
}

}  // namespace rollcall
