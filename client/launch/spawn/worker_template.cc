#include "client/launch/spawn/worker_template.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

constexpr absl::string_view kNames[] = {"GPUS_PER_NODE", "JOIN",
                                        "MASTER_ADDR",   "NODE_RANK",
                                        "NUM_NODES",     "RDZV_ID"};
constexpr absl::string_view kBegin = "<<";
constexpr absl::string_view kEnd = ">>";

absl::Status At(absl::string_view text, size_t at, absl::string_view what) {
  const absl::string_view before = text.substr(0, at);
  const size_t line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t start = before.rfind('\n') + 1;  // npos + 1 is 0.
  return absl::InvalidArgumentError(
      absl::StrCat("line ", line, ", column ", at - start + 1, ": ", what));
}

// Calls `text_part` and `name` for the parts of `text`, in their order.
absl::Status Walk(
    absl::string_view text,
    const std::function<void(absl::string_view)>& text_part,
    const std::function<absl::Status(absl::string_view, size_t)>& name) {
  size_t at = 0;
  for (;;) {
    const size_t begin = text.find(kBegin, at);
    text_part(text.substr(at, begin - at));
    if (begin == absl::string_view::npos) return absl::OkStatus();
    const size_t end = text.find(kEnd, begin);
    const size_t line_end = text.find('\n', begin);
    if (end == absl::string_view::npos || line_end < end) {
      return At(text, begin, "a placeholder begins with << and has no >>");
    }
    const absl::string_view found =
        text.substr(begin + kBegin.size(), end - begin - kBegin.size());
    if (std::find(std::begin(kNames), std::end(kNames), found) ==
        std::end(kNames)) {
      return At(text, begin,
                absl::StrCat("unknown placeholder <<", found,
                             ">>; known are <<MASTER_ADDR>>, <<NODE_RANK>>, "
                             "<<NUM_NODES>>, <<GPUS_PER_NODE>>, <<RDZV_ID>> "
                             "and <<JOIN>>"));
    }
    if (absl::Status taken = name(found, begin); !taken.ok()) return taken;
    at = end + kEnd.size();
  }
}

}  // namespace

absl::StatusOr<std::set<std::string>> PlaceholdersOf(absl::string_view text) {
  std::set<std::string> names;
  absl::Status walked = Walk(
      text, [](absl::string_view) {},
      [&names](absl::string_view name, size_t) {
        names.insert(std::string(name));
        return absl::OkStatus();
      });
  if (!walked.ok()) return walked;
  return names;
}

absl::StatusOr<std::string> RenderTemplate(absl::string_view text,
                                           const TemplateValues& values) {
  std::string out;
  absl::Status walked = Walk(
      text, [&out](absl::string_view part) { absl::StrAppend(&out, part); },
      [&](absl::string_view name, size_t at) {
        const auto value = values.find(std::string(name));
        if (value == values.end() || value->second.empty()) {
          return At(text, at, absl::StrCat("<<", name, ">> has no value"));
        }
        absl::StrAppend(&out, value->second);
        return absl::OkStatus();
      });
  if (!walked.ok()) return walked;
  return out;
}

}  // namespace rollcall
