// Makes a machine's sysfs tree from a text; README.md describes the format.
#ifndef ROLLCALL_TESTS_FACTS_SYSFS_TREE_H_
#define ROLLCALL_TESTS_FACTS_SYSFS_TREE_H_

#include <string>

namespace rollcall {

// Makes `root` and the files below it. Returns false if a line cannot be parsed
// or a file cannot be made.
bool MakeSysfsTree(const std::string& text, const std::string& root);

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_FACTS_SYSFS_TREE_H_
