// sysfs_tree FILE FOLDER: makes the machine that FILE describes below FOLDER.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/facts/sysfs_tree.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: sysfs_tree FILE FOLDER\n");
    return 2;
  }
  std::ifstream file(argv[1]);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file || !rollcall::MakeSysfsTree(text, argv[2])) {
    std::fprintf(stderr,
                 "sysfs_tree: %s does not describe a machine, or %s "
                 "cannot be written\n",
                 argv[1], argv[2]);
    return 1;
  }
  return 0;
}
