#include "client/launch/spawn/submit.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/facts/system.h"
#include "client/launch/spawn/spawn.h"
#include "daemon/core/exit_codes.h"

extern char** environ;

namespace rollcall {
namespace {

int FailFor(uint32_t worker, const std::string& why, int code) {
  std::fprintf(stderr, "rollcall: worker %u is not submitted: %s\n", worker,
               why.c_str());
  return code;
}

// A file of this user alone; removed with this value.
class SpecFile {
 public:
  explicit SpecFile(const std::string& text) {
    const char* folder = getenv("TMPDIR");
    path_ = absl::StrCat(folder == nullptr ? "/tmp" : folder,
                         "/rollcall-worker-XXXXXX.yaml");
    const int fd = mkostemps(path_.data(), 5, O_CLOEXEC);
    if (fd < 0) return;
    const ssize_t wrote = write(fd, text.data(), text.size());
    whole_ = close(fd) == 0 && wrote == static_cast<ssize_t>(text.size());
  }
  ~SpecFile() { unlink(path_.c_str()); }
  SpecFile(const SpecFile&) = delete;
  SpecFile& operator=(const SpecFile&) = delete;

  bool whole() const { return whole_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool whole_ = false;
};

// The wait status, or -1 and errno.
int RunCommand(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  errno = posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ);
  if (errno != 0) return -1;
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

int RunSubmit(const SubmitOptions& options) {
  // The launcher has read and checked it.
  const std::string text = ReadSmallFile(options.file, kTemplateBytesMax);
  for (uint32_t worker = 1; worker <= options.workers; ++worker) {
    TemplateValues values = options.values;
    values["NODE_RANK"] = absl::StrCat(worker);
    const auto spec = RenderTemplate(text, values);
    if (!spec.ok()) {
      return FailFor(worker, std::string(spec.status().message()),
                     kExitRendezvous);
    }
    const SpecFile file(*spec);
    if (!file.whole()) {
      return FailFor(
          worker,
          absl::StrCat("cannot write ", file.path(), ": ", strerror(errno)),
          kExitRendezvous);
    }
    std::vector<std::string> words =
        absl::StrSplit(options.command, ' ', absl::SkipEmpty());
    const auto place = std::find(words.begin(), words.end(), "{}");
    if (place == words.end()) {
      words.push_back(file.path());
    } else {
      *place = file.path();
    }
    const int status = RunCommand(words);
    if (status < 0) {
      return FailFor(
          worker,
          absl::StrCat("cannot start ", words[0], ": ", strerror(errno)),
          kExitRendezvous);
    }
    if (status != 0) {
      return FailFor(
          worker,
          absl::StrCat("`", options.command, "` ", DescribeExit(status)),
          ExitCodeOf(status));
    }
  }
  return 0;
}

}  // namespace rollcall
