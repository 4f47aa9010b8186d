#include "tests/unit/places.h"

namespace rollcall {

const char kFakesFolder[] = ROLLCALL_BIN "/fakes";
const char kFactsFolder[] = ROLLCALL_SOURCE "/tests/facts";
const char kRecordedFolder[] = ROLLCALL_SOURCE "/tests/recorded";

}  // namespace rollcall
