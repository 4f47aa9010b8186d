// YamlTree: a small YAML document as values that know their line and column.
//
// What a run spec does not need is an error: anchors and aliases (which could
// make a small file large), tags, several documents, deep nesting, keys that
// are no text. So is what is no text (control characters, invalid UTF-8), and a
// text with a NUL byte, which only an escape can make.
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
// Reported of one file; a file of another kind would have one on every line.
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
  // Of kText, as written.
  std::string text;
  // Of kText: it is in quotes or a block, so that it is no number or bool.
  bool quoted = false;
  // The entries of kList, or the values of kMap.
  std::vector<YamlNode> children;
  // Of kMap: the keys, one for each value, in their order. A key may be there
  // twice.
  std::vector<YamlNode> keys;
};

struct YamlTree {
  YamlNode root;
  // In the order of the text. Not empty: `root` may be incomplete.
  std::vector<YamlError> errors;
};

YamlTree ParseYaml(absl::string_view text);

// `a text`, `a list`, ...: for messages on what was found.
std::string DescribeYaml(const YamlNode& node);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_YAML_TREE_H_
