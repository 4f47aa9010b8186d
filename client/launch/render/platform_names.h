// The grammars of names on the platforms of render.h.
//
// Pure; any thread. All functions return INVALID_ARGUMENT for a bad name; the
// message has the flag, what was expected, what was found and the source of the
// rule.
#ifndef ROLLCALL_CLIENT_LAUNCH_RENDER_PLATFORM_NAMES_H_
#define ROLLCALL_CLIENT_LAUNCH_RENDER_PLATFORM_NAMES_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace rollcall {

// A name of Kubernetes objects whose pods and service are named NAME plus at
// most `suffix_bytes` more: an RFC 1035 label, at most 63 bytes in all.
absl::Status CheckObjectName(const std::string& name, size_t suffix_bytes);

// The name of a Secret: RFC 1123 subdomain.
absl::Status CheckSecretName(const std::string& name);

// A container image: [HOST[:PORT]/]PATH[:TAG][@DIGEST].
absl::Status CheckImageName(const std::string& name);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RENDER_PLATFORM_NAMES_H_
