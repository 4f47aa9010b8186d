// For tests of device facts: a folder with a machine's sysfs, and the settings
// of the fake libraries.
#ifndef ROLLCALL_TESTS_UNIT_FACTS_FACTS_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_FACTS_FACTS_FIXTURE_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "rollcall/v1/membership.pb.h"
#include "tests/facts/sysfs_tree.h"
#include "tests/fakes/without_symbol.h"
#include "tests/unit/living.h"
#include "tests/unit/places.h"

namespace rollcall {

class DeviceTest : public testing::Test {
 protected:
  void SetUp() override { Forget(); }
  void TearDown() override { Forget(); }

  // Clears the settings of the fake libraries.
  static void Forget() {
    unsetenv("FAKE_VERBS");
    unsetenv("FAKE_NVML");
  }

  // Makes a folder with the machine of tests/facts/<name>.txt, one per
  // `number`.
  std::string Machine(const std::string& name, size_t number = 0) {
    std::ifstream file(std::string(kFactsFolder) + "/" + name + ".txt");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::string root = folder_ / (name + std::to_string(number));
    EXPECT_FALSE(text.empty()) << name;
    EXPECT_TRUE(MakeSysfsTree(text, root)) << name;
    return root;
  }

  // A copy of a fake library without one of its symbols.
  std::string Without(const std::string& library, const std::string& symbol) {
    const std::string copy = folder_ / ("without-" + symbol + ".so");
    EXPECT_TRUE(CopyWithoutSymbol(library, symbol, copy)) << symbol;
    return copy;
  }

  static std::string Verbs() {
    return std::string(kFakesFolder) + "/libibverbs.so.1";
  }
  static std::string NvmlLibrary() {
    return std::string(kFakesFolder) + "/libnvidia-ml.so.1";
  }

  TempFolder folder_;
};

// Maps each missing fact to its reason.
inline std::map<std::string, std::string> Missing(const v1::Facts& facts) {
  std::map<std::string, std::string> missing;
  for (const auto& one : facts.missing()) {
    missing[one.fact()] += one.reason() + ";";
  }
  return missing;
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_FACTS_FACTS_FIXTURE_H_
