#include "trainer/checkpoint/files/json_text.h"

#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

constexpr int kDepthMax = 8;

// Whether brackets outside of strings are nested too deeply. This runs before
// the parser, because the parser's memory grows with every bracket.
bool TooDeep(absl::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kDepthMax) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

std::string Shown(const Json& json) {
  if (json.is_structured()) return json.is_array() ? "a list" : "an object";
  return Excerpt(json.dump(-1, ' ', true, Json::error_handler_t::replace));
}

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view text) {
  if (TooDeep(text)) {
    return absl::DataLossError(absl::StrCat("expected JSON, nested ", kDepthMax,
                                            " deep at most; found deeper"));
  }
  std::vector<std::set<std::string>> keys;
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second && twice.empty()) {
        twice = Excerpt(key);
      }
    }
    return true;
  };
  Json json = Json::parse(text.begin(), text.end(), watch, false);
  if (json.is_discarded()) {
    return absl::DataLossError(
        absl::StrCat("expected JSON, found ",
                     text.empty() ? "nothing" : Excerpt(text.substr(0, 40))));
  }
  if (!twice.empty()) return WrongField(twice, "once", "twice");
  return json;
}

std::string Excerpt(absl::string_view text) {
  constexpr size_t kBytesMax = 80;
  return absl::StrCat(absl::CEscape(text.substr(0, kBytesMax)),
                      text.size() > kBytesMax ? "..." : "");
}

absl::Status WrongField(absl::string_view field, absl::string_view expected,
                        absl::string_view found) {
  return absl::DataLossError(
      absl::StrCat(field, ": expected ", expected, ", found ", found));
}

JsonFields::JsonFields(const Json& json, std::string prefix)
    : json_(json), prefix_(std::move(prefix)) {
  if (json.is_object()) return;
  status_ = WrongField(
      prefix_.empty() ? "the whole" : prefix_.substr(0, prefix_.size() - 1),
      "an object", Shown(json));
}

void JsonFields::Wrong(const char* field, absl::string_view expected,
                       absl::string_view found) {
  status_.Update(WrongField(prefix_ + field, expected, found));
}

const Json* JsonFields::Find(const char* field, const char* expected) {
  if (!status_.ok()) return nullptr;
  const auto found = json_.find(field);
  if (found == json_.end()) {
    Wrong(field, expected, "no such field");
    return nullptr;
  }
  ++taken_;
  return &*found;
}

absl::StatusOr<int> JsonFields::TakeVersion(int newest) {
  int64_t version = 0;
  Take("version", 1, INT64_MAX, version);
  if (!status_.ok()) return status_;
  if (version <= newest) return static_cast<int>(version);
  return absl::FailedPreconditionError(absl::StrCat(
      prefix_, "version: expected ", newest == 1 ? "" : "1 to ", newest,
      ", found ", version, "; a newer rollcall wrote it: go on with that one"));
}

int64_t JsonFields::TakeInteger(const char* field, int64_t min, int64_t max) {
  const std::string expected = absl::StrCat("a number of ", min, " to ", max);
  const Json* json = Find(field, expected.c_str());
  if (json == nullptr) return min;
  if (json->is_number_unsigned()) {
    const uint64_t value = json->get<uint64_t>();
    if (max >= 0 && value <= static_cast<uint64_t>(max) &&
        static_cast<int64_t>(value) >= min) {
      return static_cast<int64_t>(value);
    }
  } else if (json->is_number_integer()) {
    const int64_t value = json->get<int64_t>();
    if (value >= min && value <= max) return value;
  }
  Wrong(field, expected, Shown(*json));
  return min;
}

void JsonFields::Take(const char* field, uint64_t& to) {
  const Json* json = Find(field, "a number of 64 bits");
  if (json == nullptr) return;
  if (json->is_number_unsigned()) {
    to = json->get<uint64_t>();
  } else {
    Wrong(field, "a number of 64 bits", Shown(*json));
  }
}

void JsonFields::Take(const char* field, double& to) {
  const Json* json = Find(field, "a number");
  if (json == nullptr) return;
  if (json->is_number() && std::isfinite(json->get<double>())) {
    to = json->get<double>();
  } else {
    Wrong(field, "a finite number", Shown(*json));
  }
}

void JsonFields::Take(const char* field, float& to) {
  double value = 0;
  Take(field, value);
  if (!status_.ok()) return;
  // Checked because the conversion of a value outside a float's range is
  // undefined behaviour.
  if (std::abs(value) > 3.4028234663852886e38) {
    Wrong(field, "a number that a float holds", absl::StrCat(value));
  } else {
    to = static_cast<float>(value);
  }
}

void JsonFields::Take(const char* field, size_t bytes_max, std::string& to) {
  const Json* json = Find(field, "a text");
  if (json == nullptr) return;
  if (json->is_string() &&
      json->get_ref<const std::string&>().size() <= bytes_max) {
    to = json->get_ref<const std::string&>();
  } else {
    Wrong(field, absl::StrCat("a text of ", bytes_max, " bytes at most"),
          Shown(*json));
  }
}

const Json* JsonFields::TakeObject(const char* field) {
  const Json* json = Find(field, "an object");
  if (json == nullptr || json->is_object()) return json;
  Wrong(field, "an object", Shown(*json));
  return nullptr;
}

const Json* JsonFields::TakeArray(const char* field, size_t max) {
  const Json* json = Find(field, "a list");
  if (json == nullptr) return nullptr;
  if (json->is_array() && json->size() <= max) return json;
  Wrong(
      field, absl::StrCat("a list of ", max, " at most"),
      json->is_array() ? absl::StrCat("one of ", json->size()) : Shown(*json));
  return nullptr;
}

absl::Status JsonFields::Finish() {
  if (status_.ok() && json_.size() > taken_) {
    status_ = WrongField(
        prefix_.empty() ? "the whole" : prefix_.substr(0, prefix_.size() - 1),
        absl::StrCat(taken_, " fields"), absl::StrCat(json_.size()));
  }
  return status_;
}

}  // namespace rollcall
