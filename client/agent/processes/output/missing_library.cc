#include "client/agent/processes/output/missing_library.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rollcall {
namespace {

// The libraries that rollcall-train needs, directly and indirectly, with the
// packages of Debian and Ubuntu.
struct LibraryPackage {
  absl::string_view library;
  absl::string_view package;
};
constexpr LibraryPackage kPackages[] = {
    {"libgloo.so.0", "libgloo0"},
    {"libibverbs.so.1", "libibverbs1"},
    {"libhiredis.so.0.14", "libhiredis0.14"},
    {"libhiredis.so.1.1.0", "libhiredis1.1.0"},
    {"libopenblas.so.0", "libopenblas0"},
    {"libstdc++.so.6", "libstdc++6"},
    {"libgcc_s.so.1", "libgcc-s1"},
};

// The text between `before` and `after` in `line`; empty: one of them is
// missing.
absl::string_view Between(absl::string_view line, absl::string_view before,
                          absl::string_view after) {
  const size_t at = line.find(before);
  if (at == absl::string_view::npos) return "";
  const absl::string_view rest = line.substr(at + before.size());
  const size_t end = rest.find(after);
  return end == absl::string_view::npos ? "" : rest.substr(0, end);
}

absl::string_view LibraryOf(absl::string_view line) {
  // Tries the message of glibc's loader, then that of musl's.
  const absl::string_view library =
      Between(line, "error while loading shared libraries: ",
              ": cannot open shared object file");
  if (!library.empty()) return library;
  return Between(line, "Error loading shared library ", ": No such file");
}

}  // namespace

std::string MissingLibraryAdvice(absl::string_view stderr_tail) {
  for (const absl::string_view line : absl::StrSplit(stderr_tail, '\n')) {
    const absl::string_view library = LibraryOf(line);
    if (library.empty()) continue;
    std::string install = "install the package of this system that has it";
    for (const LibraryPackage& known : kPackages) {
      if (known.library != library) continue;
      install = absl::StrCat("install it: `apt-get install ", known.package,
                             "` on Debian or Ubuntu");
    }
    return absl::StrCat("rollcall: the command needs ", library,
                        ", which is not on this node; ", install,
                        ", or put its folder into LD_LIBRARY_PATH");
  }
  return "";
}

}  // namespace rollcall
