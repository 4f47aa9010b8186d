// JSON as a checkpoint's files hold it, read so that nothing is guessed: no key
// twice, no deep nesting, and every field of the kind and within the bounds
// that it must have.
//
// Pure, and made for whatever bytes there are.
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

// DATA_LOSS: no JSON, an object that has a key twice, or one within the other
// more than eight deep. Takes memory in proportion to the text.
absl::StatusOr<Json> ParseJson(absl::string_view text);

// For a message: what a file says, on one line and not too long.
std::string Quoted(absl::string_view text);

// DATA_LOSS: "FIELD: expected ..., found ...".
absl::Status WrongField(absl::string_view field, absl::string_view expected,
                        absl::string_view found);

// The fields of one object, read one after the other. The first that is missing
// or wrong is kept as the error, and what comes after it reads nothing.
class JsonFields {
 public:
  // `prefix` is said before a field's name, as in "model.". `json` must outlive
  // this.
  explicit JsonFields(const Json& json, std::string prefix = "");

  // "version", which is looked at before all else. FAILED_PRECONDITION: another
  // one than `known`.
  absl::Status TakeVersion(int known);
  template <typename Integer>
  void Take(const char* field, int64_t least, int64_t most, Integer& to) {
    static_assert(std::is_integral_v<Integer>);
    to = static_cast<Integer>(TakeInteger(field, least, most));
  }
  // All 64 bits.
  void Take(const char* field, uint64_t& to);
  // A finite number.
  void Take(const char* field, double& to);
  void Take(const char* field, float& to);
  void Take(const char* field, size_t bytes_most, std::string& to);
  // What is within; null after an error.
  const Json* TakeObject(const char* field);
  const Json* TakeArray(const char* field, size_t most);

  // To be called last: a field that was not taken is one too many.
  absl::Status Finish();
  void Fail(absl::Status status) { status_.Update(status); }
  bool ok() const { return status_.ok(); }

 private:
  const Json* Find(const char* field, const char* expected);
  int64_t TakeInteger(const char* field, int64_t least, int64_t most);
  void Wrong(const char* field, absl::string_view expected,
             absl::string_view found);

  const Json& json_;
  const std::string prefix_;
  size_t taken_ = 0;
  absl::Status status_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_JSON_TEXT_H_
