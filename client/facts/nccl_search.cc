#include "client/facts/nccl_search.h"

#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace rollcall {
namespace {

constexpr char kSoname[] = "libnccl.so.2";
constexpr size_t kCandidatesMax = 256;

std::string Entry(const std::vector<std::string>& environment,
                  absl::string_view name) {
  for (absl::string_view entry : environment) {
    if (absl::ConsumePrefix(&entry, name) && absl::ConsumePrefix(&entry, "=")) {
      return std::string(entry);
    }
  }
  return "";
}

void AddCandidate(std::vector<std::string>& paths, std::string path) {
  if (paths.size() < kCandidatesMax &&
      std::find(paths.begin(), paths.end(), path) == paths.end()) {
    paths.push_back(std::move(path));
  }
}

// A folder's name, escaped for glob(3).
std::string Literal(absl::string_view text) {
  std::string literal;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') literal += '\\';
    literal += c;
  }
  return literal;
}

// Adds the paths where pip installs NCCL below an environment's prefix.
void AddPython(std::vector<std::string>& paths, const std::string& prefix) {
  for (const char* packages :
       {"/lib/python3*/site-packages", "/lib/python3*/dist-packages",
        "/local/lib/python3*/dist-packages"}) {
    glob_t found{};
    const std::string pattern =
        absl::StrCat(Literal(prefix), packages, "/nvidia/nccl/lib/", kSoname);
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
      for (size_t i = 0; i < found.gl_pathc; ++i) {
        AddCandidate(paths, found.gl_pathv[i]);
      }
    }
    globfree(&found);
  }
}

// Adds the prefixes of the python3 on PATH: that of its path (which may be a
// link in a virtual environment), and that of the link's target.
void AddPythonOnPath(std::vector<std::string>& paths, const std::string& path) {
  for (absl::string_view folder : absl::StrSplit(path, ':')) {
    if (!absl::StartsWith(folder, "/")) continue;
    const std::string python = absl::StrCat(folder, "/python3");
    if (access(python.c_str(), X_OK) != 0) continue;
    AddPython(paths, absl::StrCat(folder, "/.."));
    char resolved[PATH_MAX];
    if (realpath(python.c_str(), resolved) != nullptr) {
      std::string real = resolved;
      real.resize(real.rfind('/'));
      AddPython(paths, real + "/..");
    }
    return;
  }
}

}  // namespace

std::vector<std::string> NcclLibraryCandidates(
    const std::vector<std::string>& environment) {
  std::vector<std::string> paths;
  const std::string folders = Entry(environment, "LD_LIBRARY_PATH");
  for (absl::string_view folder :
       absl::StrSplit(folders, absl::ByAnyChar(":;"), absl::SkipEmpty())) {
    AddCandidate(paths, absl::StrCat(folder, "/", kSoname));
  }
  if (const auto venv = Entry(environment, "VIRTUAL_ENV"); !venv.empty()) {
    AddPython(paths, venv);
  }
  if (const auto conda = Entry(environment, "CONDA_PREFIX"); !conda.empty()) {
    AddPython(paths, conda);
    AddCandidate(paths, absl::StrCat(conda, "/lib/", kSoname));
  }
  AddPythonOnPath(paths, Entry(environment, "PATH"));
  if (const auto home = Entry(environment, "HOME"); !home.empty()) {
    AddPython(paths, home + "/.local");
  }
  for (const std::string& cuda :
       {Entry(environment, "CUDA_HOME"), std::string("/usr/local/cuda")}) {
    if (cuda.empty()) continue;
    AddCandidate(paths, absl::StrCat(cuda, "/lib64/", kSoname));
    AddCandidate(paths, absl::StrCat(cuda, "/lib/", kSoname));
  }
  return paths;
}

std::string FindNcclLibrary(const std::string& explicit_path,
                            const std::vector<std::string>& environment) {
  if (!explicit_path.empty()) return explicit_path;
  for (std::string& path : NcclLibraryCandidates(environment)) {
    if (access(path.c_str(), R_OK) == 0) return std::move(path);
  }
  return kSoname;
}

std::string NcclVersionText(int code) {
  if (code <= 0) return "";
  const int major = code >= 10000 ? 10000 : 1000;
  return absl::StrCat(code / major, ".", code % major / 100, ".", code % 100);
}

}  // namespace rollcall
