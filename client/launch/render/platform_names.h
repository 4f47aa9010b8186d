// The grammars of names on platforms that run specs are made for.
//
// Pure; any thread. INVALID_ARGUMENT, of all: the message has the flag, what
// was expected, what was found and where the rule is from.
#ifndef ROLLCALL_CLIENT_LAUNCH_RENDER_PLATFORM_NAMES_H_
#define ROLLCALL_CLIENT_LAUNCH_RENDER_PLATFORM_NAMES_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace rollcall {

// A name of Kubernetes objects whose pods and service are named after it, as
// NAME and up to `suffix_bytes` more: RFC 1035 label, at most 63 bytes in all.
absl::Status CheckObjectName(const std::string& name, size_t suffix_bytes);

// The name of a Secret: RFC 1123 subdomain.
absl::Status CheckSecretName(const std::string& name);

// A container image: [HOST[:PORT]/]PATH[:TAG][@DIGEST].
absl::Status CheckImageName(const std::string& name);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RENDER_PLATFORM_NAMES_H_
