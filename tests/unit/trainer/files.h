// A folder of files that is removed with the test.
#ifndef ROLLCALL_TESTS_UNIT_TRAINER_FILES_H_
#define ROLLCALL_TESTS_UNIT_TRAINER_FILES_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace rollcall {

class Files : public testing::Test {
 protected:
  Files() {
    char folder[] = "/tmp/rollcall-test-XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~Files() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string Path(const std::string& name) const {
    return folder_ + "/" + name;
  }
  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = Path(name);
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_TRAINER_FILES_H_
