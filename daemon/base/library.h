// Library: a shared library that is opened at run time. The error names each
// name that was tried.
//
// It stays open until the process ends, because NVIDIA's libraries start
// threads.
#ifndef ROLLCALL_DAEMON_BASE_LIBRARY_H_
#define ROLLCALL_DAEMON_BASE_LIBRARY_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rollcall {

class Library {
 public:
  // Opens the first of `names` (paths, or names that the loader looks up) that
  // can be opened. NOT_FOUND: none; the message has the loader's error for
  // each.
  static absl::StatusOr<Library> Open(const std::vector<std::string>& names);

  // Sets `*function` to the symbol `name`. FAILED_PRECONDITION: the library has
  // no such symbol.
  template <typename Function>
  absl::Status Find(const char* name, Function** function) const {
    void* found = nullptr;
    absl::Status status = Symbol(name, &found);
    *function = reinterpret_cast<Function*>(found);
    return status;
  }

  const std::string& name() const { return name_; }

 private:
  Library(std::string name, void* handle)
      : name_(std::move(name)), handle_(handle) {}
  absl::Status Symbol(const char* name, void** found) const;

  std::string name_;
  void* handle_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_LIBRARY_H_
