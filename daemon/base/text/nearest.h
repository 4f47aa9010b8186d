// Nearest: the word that a person probably meant.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_BASE_TEXT_NEAREST_H_
#define ROLLCALL_DAEMON_BASE_TEXT_NEAREST_H_

#include <optional>
#include <string>
#include <vector>

namespace rollcall {

// The known word most similar to `word`; nullopt: none is similar enough. Of
// several equally similar ones, the first.
std::optional<std::string> Nearest(const std::string& word,
                                   const std::vector<std::string>& known);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_TEXT_NEAREST_H_
