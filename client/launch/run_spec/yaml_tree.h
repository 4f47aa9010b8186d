// YamlTree: a small YAML document as values that know their line and column.
//
// Everything that a run spec does not need is an error: anchors and aliases
// (which could make a small file large), tags, several documents, deep nesting,
// and keys that are not text. Bytes that are not text (control characters,
// invalid UTF-8) are errors too, and so is a NUL byte, which only an escape can
// make.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_YAML_TREE_H_
#define ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_YAML_TREE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rollcall {

inline constexpr size_t kYamlBytesMax = 1 << 20;
inline constexpr size_t kYamlDepthMax = 8;
inline constexpr size_t kYamlNodesMax = 100'000;
// The most errors that are reported for one file. A file of another kind could
// have an error on every line.
inline constexpr size_t kYamlErrorsMax = 20;

// Counted from 1; columns in bytes.
struct TextPlace {
  size_t line = 1;
  size_t column = 1;
};

struct YamlError {
  TextPlace place;
  std::string what;
};

struct YamlNode {
  enum class Kind { kNull, kText, kList, kMap };
  Kind kind = Kind::kNull;
  TextPlace place;
  // Only for kText: the text as written.
  std::string text;
  // Only for kText: the text is in quotes or a block, so it is not a number or
  // bool.
  bool quoted = false;
  // The entries of kList, or the values of kMap.
  std::vector<YamlNode> children;
  // Only for kMap: the keys in their order, one for each value. A key may occur
  // twice.
  std::vector<YamlNode> keys;
};

struct YamlTree {
  YamlNode root;
  // In the order of the text. If there are any, `root` may be incomplete.
  std::vector<YamlError> errors;
};

YamlTree ParseYaml(absl::string_view text);

// `a text`, `a list`, ...: for messages about what was found.
std::string DescribeYaml(const YamlNode& node);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_YAML_TREE_H_
