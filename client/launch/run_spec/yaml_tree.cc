#include "client/launch/run_spec/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/text/lines.h"
#include "daemon/base/text/printable.h"

namespace rollcall {
namespace {

// The longest quotation of a text in a message.
constexpr size_t kQuotedBytesMax = 60;

TextPlace PlaceOf(const YAML::Mark& mark) {
  // yaml-cpp counts from 0, and uses -1 for an unknown place.
  return {static_cast<size_t>(std::max(mark.line, 0)) + 1,
          static_cast<size_t>(std::max(mark.column, 0)) + 1};
}

TextPlace PlaceAt(absl::string_view text, size_t at) {
  const absl::string_view before = text.substr(0, at);
  const size_t line = std::count(before.begin(), before.end(), '\n') + 1;
  return {line, at - (before.rfind('\n') + 1) + 1};  // npos + 1 is 0.
}

// Builds the tree from the parser's events. It never throws. After the first
// error, it ignores the contents of the list or map that it refused.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(YamlTree& to) : to_(to) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ != 0) Add(mark, "expected one document, found another");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    CheckAnchor(mark, anchor);
    Put(Make(mark, YamlNode::Kind::kNull));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Add(mark, "expected a value, found an alias (*); write the value itself");
    Put(Make(mark, YamlNode::Kind::kNull));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag,
                YAML::anchor_t anchor, const std::string& value) override {
    CheckAnchor(mark, anchor);
    CheckTag(mark, tag);
    if (absl::StrContains(value, '\0')) {
      Add(mark,
          "expected a text, found one with a NUL byte (\"\\0\"), which no "
          "name, word or variable can hold");
    }
    YamlNode node = Make(mark, YamlNode::Kind::kText);
    node.text = value;
    node.quoted = tag == "!";
    Put(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Begin(mark, tag, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { End(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag,
                  YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    Begin(mark, tag, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { End(); }

 private:
  struct Open {
    YamlNode node;
    // For a map: the key whose value comes next.
    std::optional<YamlNode> key;
  };

  static YamlNode Make(const YAML::Mark& mark, YamlNode::Kind kind) {
    YamlNode node;
    node.kind = kind;
    node.place = PlaceOf(mark);
    return node;
  }

  void Add(const YAML::Mark& mark, std::string what) {
    if (to_.errors.size() < kYamlErrorsMax) {
      to_.errors.push_back({PlaceOf(mark), std::move(what)});
    }
  }

  void CheckAnchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      Add(mark, "expected a value, found an anchor (&); a run spec has none");
    }
  }

  // The parser passes `?` for a plain value without a tag, and `!` for a quoted
  // one.
  void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    Add(mark,
        absl::StrCat("expected a value, found the tag ",
                     Printable(tag, kQuotedBytesMax), "; a run spec has none"));
  }

  void Begin(const YAML::Mark& mark, const std::string& tag,
             YAML::anchor_t anchor, YamlNode::Kind kind) {
    CheckAnchor(mark, anchor);
    CheckTag(mark, tag);
    if (open_.size() == kYamlDepthMax && ignored_ == 0) {
      Add(mark,
          absl::StrCat("expected at most ", kYamlDepthMax,
                       " values within each other, found another in these"));
    }
    if (open_.size() == kYamlDepthMax) {
      ++ignored_;
    } else {
      open_.push_back({Make(mark, kind), std::nullopt});
    }
  }

  void End() {
    if (ignored_ > 0) {
      --ignored_;
      return;
    }
    if (open_.empty()) return;
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    Put(std::move(node));
  }

  void Put(YamlNode node) {
    if (ignored_ > 0) return;
    if (++nodes_ > kYamlNodesMax) {
      if (nodes_ == kYamlNodesMax + 1) {
        to_.errors.push_back(
            {node.place, absl::StrCat("expected at most ", kYamlNodesMax,
                                      " values, found another")});
      }
      return;
    }
    if (open_.empty()) {
      if (documents_ == 1) to_.root = std::move(node);
      return;
    }
    Open& in = open_.back();
    if (in.node.kind == YamlNode::Kind::kList) {
      in.node.children.push_back(std::move(node));
    } else if (!in.key) {
      in.key = std::move(node);
    } else {
      // yaml-cpp gives a missing value the place of the next text, so the key's
      // place is used.
      if (node.kind == YamlNode::Kind::kNull) node.place = in.key->place;
      in.node.keys.push_back(*std::exchange(in.key, std::nullopt));
      in.node.children.push_back(std::move(node));
    }
  }

  YamlTree& to_;
  std::vector<Open> open_;
  size_t documents_ = 0;
  size_t nodes_ = 0;
  // The number of open lists and maps that are not in the tree.
  size_t ignored_ = 0;
};

// An error of the text as a whole (its size or its bytes); nullopt: none.
std::optional<YamlError> CheckText(absl::string_view text) {
  if (text.size() > kYamlBytesMax) {
    return YamlError{
        {},
        absl::StrCat("expected at most ", kYamlBytesMax, " bytes, found more")};
  }
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool space = byte == '\n' || byte == '\t' || byte == '\r';
    if ((byte >= 0x20 && byte != 0x7f) || space) continue;
    return YamlError{PlaceAt(text, at),
                     absl::StrFormat("expected text, found the byte 0x%02x; "
                                     "is this another kind of file?",
                                     byte)};
  }
  const std::string valid = ValidUtf8(text);
  const auto differ = std::mismatch(text.begin(), text.end(), valid.begin());
  if (differ.first == text.end()) return std::nullopt;
  const size_t at = static_cast<size_t>(differ.first - text.begin());
  return YamlError{PlaceAt(text, at),
                   absl::StrFormat("expected UTF-8, found the byte 0x%02x",
                                   static_cast<unsigned>(
                                       static_cast<unsigned char>(text[at])))};
}

}  // namespace

YamlTree ParseYaml(absl::string_view text) {
  YamlTree tree;
  if (auto wrong = CheckText(text)) {
    tree.errors.push_back(*std::move(wrong));
    return tree;
  }
  TreeBuilder builder(tree);
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    // The builder has already reported errors, for example deep nesting; the
    // parser's error would add nothing.
    if (!tree.errors.empty()) return tree;
    tree.errors.push_back(
        {PlaceOf(error.mark),
         absl::StrCat("expected YAML, found: ", Printable(error.msg, 200))});
  } catch (const std::exception& error) {
    tree.errors.push_back(
        {{},
         absl::StrCat("it cannot be read: ", Printable(error.what(), 200))});
  }
  return tree;
}

std::string DescribeYaml(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
    case YamlNode::Kind::kText:
      break;
  }
  return absl::StrCat("'", Printable(node.text, kQuotedBytesMax), "'");
}

}  // namespace rollcall
