#include "client/cli/written_folders.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace rollcall {
namespace {

bool IsTrainer(absl::string_view word) {
  return word == "rollcall-train" || absl::EndsWith(word, "/rollcall-train");
}

// The value of rollcall-train's --checkpoints. The program may come after
// others (`env A=b rollcall-train ...`). nullopt: another command, or no such
// flag.
std::optional<std::string> Checkpoints(
    const std::vector<std::string>& command) {
  auto word = std::find_if(command.begin(), command.end(), IsTrainer);
  for (; word != command.end(); ++word) {
    absl::string_view text = *word;
    if (absl::ConsumePrefix(&text, "--checkpoints=")) return std::string(text);
    if (text == "--checkpoints" && word + 1 != command.end()) return word[1];
  }
  return std::nullopt;
}

std::string Entry(const std::vector<std::string>& environment,
                  absl::string_view name) {
  for (const std::string& entry : environment) {
    absl::string_view text = entry;
    if (absl::ConsumePrefix(&text, name) && absl::ConsumePrefix(&text, "=")) {
      return std::string(text);
    }
  }
  return "";
}

}  // namespace

WrittenFolders FindWrittenFolders(const LocalFlags& local,
                                  const std::vector<std::string>& command,
                                  const std::vector<std::string>& environment,
                                  const std::string& here) {
  WrittenFolders found;
  const auto add = [&](const std::string& path, std::vector<std::string>& to) {
    if (path.empty()) return;
    const std::string whole =
        path[0] == '/' || here.empty() ? path : absl::StrCat(here, "/", path);
    for (const auto* known : {&found.named, &found.others}) {
      if (std::count(known->begin(), known->end(), whole) > 0) return;
    }
    to.push_back(whole);
  };
  add(local.log_dir, found.named);
  for (const std::string& folder : local.folders) add(folder, found.named);
  for (const std::string& folder : local.shared) add(folder, found.named);
  add(Checkpoints(command).value_or(""), found.named);
  add(here, found.others);
  add(Entry(environment, "TMPDIR"), found.others);
  return found;
}

}  // namespace rollcall
