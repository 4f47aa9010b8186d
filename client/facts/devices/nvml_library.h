// Nvml: NVIDIA's management library, opened at run time, and the values of
// nvml.h (API version 13) that several files use.
//
// Thread rule: that of the library's functions.
#ifndef ROLLCALL_CLIENT_FACTS_DEVICES_NVML_LIBRARY_H_
#define ROLLCALL_CLIENT_FACTS_DEVICES_NVML_LIBRARY_H_

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/base/library.h"

namespace rollcall {

inline constexpr int kNvmlSuccess = 0;
inline constexpr int kNvmlFunctionNotFound = 13;
inline constexpr int kNvmlGpuIsLost = 15;

inline constexpr int kErrorUncorrected = 1;  // nvmlMemoryErrorType_t
inline constexpr int kVolatileEcc = 0;       // nvmlEccCounterType_t

using NvmlDevice = struct NvmlDeviceHandle*;

// The library, and its error texts.
class Nvml {
 public:
  explicit Nvml(Library library) : library_(std::move(library)) {
    library_.Find("nvmlErrorString", &error_string_).IgnoreError();
  }

  // The first of `names` that the library has; null: none.
  template <typename... Arguments>
  void Find(int (**function)(Arguments...),
            std::initializer_list<const char*> names) const {
    *function = nullptr;
    for (const char* name : names) {
      if (library_.Find(name, function).ok()) return;
    }
  }

  // Calls the first of `names` that the library has; kNvmlFunctionNotFound: it
  // has none.
  template <typename... Arguments>
  int Call(std::initializer_list<const char*> names,
           Arguments... arguments) const {
    int (*function)(Arguments...) = nullptr;
    Find(&function, names);
    return function == nullptr ? kNvmlFunctionNotFound : function(arguments...);
  }

  // An error text such as "nvmlDeviceGetName: Unknown Error (999)".
  std::string Text(absl::string_view call, int error) const {
    if (error == kNvmlFunctionNotFound) {
      return absl::StrCat(library_.name(), " has no ", call);
    }
    const char* text =
        error_string_ == nullptr ? nullptr : error_string_(error);
    return absl::StrCat(call, ": ", text == nullptr ? "error" : text, " (",
                        error, ")");
  }

 private:
  Library library_;
  const char* (*error_string_)(int) = nullptr;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_DEVICES_NVML_LIBRARY_H_
