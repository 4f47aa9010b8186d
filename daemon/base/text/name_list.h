// Lists of names in messages.
#ifndef ROLLCALL_DAEMON_BASE_TEXT_NAME_LIST_H_
#define ROLLCALL_DAEMON_BASE_TEXT_NAME_LIST_H_

#include <cstddef>
#include <string>
#include <vector>

namespace rollcall {

// "a, b and 3 more": at most the first `most` names are listed.
std::string NameList(std::vector<std::string> names, size_t most);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_TEXT_NAME_LIST_H_
