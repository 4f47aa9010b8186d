// Strict JSON for a checkpoint's files: no key occurs twice, nesting is
// limited, and every field has the required kind and is within its bounds.
//
// Pure, and safe for arbitrary input.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_FILES_JSON_TEXT_H_
#define ROLLCALL_TRAINER_CHECKPOINT_FILES_JSON_TEXT_H_

#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace rollcall {

using Json = nlohmann::json;

// DATA_LOSS: the text is not JSON, an object has a key twice, or nesting is
// more than eight deep. The memory is proportional to the text's length.
absl::StatusOr<Json> ParseJson(absl::string_view text);

// A text of a file for messages, on one line and shortened.
std::string Excerpt(absl::string_view text);

// DATA_LOSS: "FIELD: expected ..., found ...".
absl::Status WrongField(absl::string_view field, absl::string_view expected,
                        absl::string_view found);

// Reads the fields of one object, one after the other. The first missing or
// wrong field becomes the error; after it, nothing more is read.
class JsonFields {
 public:
  // In messages `prefix` stands before a field's name, as in "model.". `json`
  // must outlive this.
  explicit JsonFields(const Json& json, std::string prefix = "");

  // Reads "version", from 1 to `newest`; must be the first call.
  // FAILED_PRECONDITION: the version is above `newest`.
  absl::StatusOr<int> TakeVersion(int newest);
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

  // Must be the last call. A field that was not taken is an error.
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

#endif  // ROLLCALL_TRAINER_CHECKPOINT_FILES_JSON_TEXT_H_
