// Strict JSON for a checkpoint's files: no key twice, no deep nesting, and
// every field of the required kind and within its bounds.
//
// Pure, and safe for arbitrary input.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_JSON_TEXT_H_
#define ROLLCALL_TRAINER_CHECKPOINT_JSON_TEXT_H_

#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace rollcall {

using Json = nlohmann::json;

// DATA_LOSS: not JSON, an object that has a key twice, or nesting more than
// eight deep. Uses memory in proportion to the text.
absl::StatusOr<Json> ParseJson(absl::string_view text);

// For messages: text of a file, on one line and not too long.
std::string Excerpt(absl::string_view text);

// DATA_LOSS: "FIELD: expected ..., found ...".
absl::Status WrongField(absl::string_view field, absl::string_view expected,
                        absl::string_view found);

// Reads the fields of one object, one after the other. Keeps the first missing
// or wrong field as the error; after it, nothing more is read.
class JsonFields {
 public:
  // `prefix` is put before a field's name in messages, as in "model.". `json`
  // must outlive this.
  explicit JsonFields(const Json& json, std::string prefix = "");

  // Reads "version"; must be the first call. FAILED_PRECONDITION: it is not
  // `known`.
  absl::Status TakeVersion(int known);
  template <typename Integer>
  void Take(const char* field, int64_t min, int64_t max, Integer& to) {
    static_assert(std::is_integral_v<Integer>);
    to = static_cast<Integer>(TakeInteger(field, min, max));
  }
  // Any 64-bit value.
  void Take(const char* field, uint64_t& to);
  // A finite number.
  void Take(const char* field, double& to);
  void Take(const char* field, float& to);
  void Take(const char* field, size_t bytes_max, std::string& to);
  // Returns the inner value; null after an error.
  const Json* TakeObject(const char* field);
  const Json* TakeArray(const char* field, size_t max);

  // Must be the last call: an error if a field was not taken.
  absl::Status Finish();
  void Fail(absl::Status status) { status_.Update(status); }
  bool ok() const { return status_.ok(); }

 private:
  const Json* Find(const char* field, const char* expected);
  int64_t TakeInteger(const char* field, int64_t min, int64_t max);
  void Wrong(const char* field, absl::string_view expected,
             absl::string_view found);

  const Json& json_;
  const std::string prefix_;
  size_t taken_ = 0;
  absl::Status status_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_JSON_TEXT_H_
