#include "client/launch/platform/node_list.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// A longer number is not a node number; this bound prevents an overflow.
constexpr size_t kDigitsMax = 9;

// Reads the list from left to right, and stops at the first error.
class NodeListReader {
 public:
  explicit NodeListReader(absl::string_view list) : list_(list) {}

  absl::StatusOr<std::vector<std::string>> Read() {
    std::vector<std::string> all;
    do {
      std::vector<std::string> names;
      if (absl::Status read = ReadName(names); !read.ok()) return read;
      all.insert(all.end(), names.begin(), names.end());
      if (all.size() > Limits::nodes_max) return TooMany();
    } while (Take(','));
    if (at_ == list_.size()) return all;
    return Expected("a comma or the end");
  }

 private:
  bool AtEnd() const { return at_ == list_.size(); }

  bool Take(char wanted) {
    if (AtEnd() || list_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  absl::Status Expected(absl::string_view what) const {
    const std::string found =
        AtEnd() ? "the end" : absl::StrCat("'", list_.substr(at_, 1), "'");
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", what, " at column ", at_ + 1,
                     " of the node list, found ", found, ": ", list_));
  }

  absl::Status TooMany() const {
    return absl::ResourceExhaustedError(
        absl::StrCat("the node list has more than ", Limits::nodes_max,
                     " names: ", list_.substr(0, 200)));
  }

  // Reads one name. Each bracket multiplies the names that it stands for.
  absl::Status ReadName(std::vector<std::string>& names) {
    names = {""};
    const size_t began = at_;
    while (!AtEnd() && list_[at_] != ',') {
      std::vector<std::string> parts;
      if (Take('[')) {
        if (absl::Status read = ReadBracket(parts); !read.ok()) return read;
      } else if (absl::ascii_isalnum(list_[at_]) || list_[at_] == '-' ||
                 list_[at_] == '.' || list_[at_] == '_') {
        parts.push_back(std::string(1, list_[at_++]));
      } else {
        return Expected("a letter, a digit, '-', '.', '_' or '['");
      }
      if (names.size() * parts.size() > Limits::nodes_max) return TooMany();
      std::vector<std::string> longer;
      for (const std::string& name : names) {
        for (const std::string& part : parts) longer.push_back(name + part);
      }
      names = std::move(longer);
    }
    return at_ == began ? Expected("a node name") : absl::OkStatus();
  }

  // The '[' has been read.
  absl::Status ReadBracket(std::vector<std::string>& parts) {
    do {
      if (absl::Status read = ReadRange(parts); !read.ok()) return read;
    } while (Take(','));
    return Take(']') ? absl::OkStatus() : Expected("',', '-' or ']'");
  }

  absl::Status ReadRange(std::vector<std::string>& parts) {
    absl::string_view first;
    if (absl::Status read = ReadDigits(first); !read.ok()) return read;
    absl::string_view last = first;
    if (Take('-')) {
      if (absl::Status read = ReadDigits(last); !read.ok()) return read;
    }
    const uint32_t from = Number(first), to = Number(last);
    if (to < from) {
      at_ -= last.size();
      return Expected(absl::StrCat("a number of at least ", from));
    }
    if (to - from >= Limits::nodes_max ||
        parts.size() + (to - from) >= Limits::nodes_max) {
      return TooMany();
    }
    for (uint32_t number = from; number <= to; ++number) {
      parts.push_back(
          absl::StrFormat("%0*u", static_cast<int>(first.size()), number));
    }
    return absl::OkStatus();
  }

  absl::Status ReadDigits(absl::string_view& digits) {
    const size_t began = at_;
    while (!AtEnd() && absl::ascii_isdigit(list_[at_])) ++at_;
    digits = list_.substr(began, at_ - began);
    if (digits.empty()) return Expected("a number");
    if (digits.size() <= kDigitsMax) return absl::OkStatus();
    at_ = began;
    return Expected(
        absl::StrCat("a number of at most ", kDigitsMax, " digits"));
  }

  static uint32_t Number(absl::string_view digits) {
    uint32_t number = 0;
    for (const char digit : digits) number = number * 10 + (digit - '0');
    return number;
  }

  const absl::string_view list_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandNodeList(
    absl::string_view list) {
  return NodeListReader(list).Read();
}

}  // namespace rollcall
