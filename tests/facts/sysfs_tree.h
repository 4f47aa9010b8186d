// Makes a machine's sysfs from a text; README.md has its grammar.
#ifndef ROLLCALL_TESTS_FACTS_SYSFS_TREE_H_
#define ROLLCALL_TESTS_FACTS_SYSFS_TREE_H_

#include <string>

namespace rollcall {

// Below `root`, which is made. False: a line is not understood, or a file
// cannot be made.
bool MakeSysfsTree(const std::string& text, const std::string& root);

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_FACTS_SYSFS_TREE_H_
