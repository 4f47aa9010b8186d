// Many names in a message.
#ifndef ROLLCALL_DAEMON_BASE_NAME_LIST_H_
#define ROLLCALL_DAEMON_BASE_NAME_LIST_H_

#include <cstddef>
#include <string>
#include <vector>

namespace rollcall {

// "a, b and 3 more": the first `most` of them.
std::string NameList(std::vector<std::string> names, size_t most);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_NAME_LIST_H_
