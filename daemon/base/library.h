// Library: a shared library that is opened at run time, and what was looked
// through where it is not there.
//
// It stays open for the life of the process: NVIDIA's keep threads.
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
  // The first of `names` (files, or what the loader looks up) that opens.
  // NOT_FOUND: none does; the loader's word on each.
  static absl::StatusOr<Library> Open(const std::vector<std::string>& names);

  // `*function` becomes `name`'s. FAILED_PRECONDITION: it is not in there.
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
