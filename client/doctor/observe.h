// Observe: what the doctor has to know of this process beyond its facts. The
// part of the doctor that reads the system.
//
// Any thread.
#ifndef ROLLCALL_CLIENT_DOCTOR_OBSERVE_H_
#define ROLLCALL_CLIENT_DOCTOR_OBSERVE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Adds the folder's space to the facts, unless they have it. A folder that is
// not there is looked up by its nearest parent that is; where that fails, the
// fact is missing.
void AddFolder(const std::string& folder, v1::Facts& facts);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_DOCTOR_OBSERVE_H_
