// Plays a fuzz target without libFuzzer: each file below the given folders
// once, in order of names.
//
//   fuzz_NAME PATH...
//
// Exit status: 0: all were played; 1: there was none, or one could not be read.
// An input that breaks something ends the process, and its name is the last
// line on stderr.
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace {

char playing[4096];

// Async-signal-safe.
void NameInput() {
  const char* const parts[] = {"replay: broken by ", playing, "\n"};
  for (const char* part : parts) {
    if (write(STDERR_FILENO, part, strlen(part)) < 0) return;
  }
}

void OnAbort(int) {
  NameInput();
  _exit(1);
}

std::vector<std::string> FilesBelow(int argc, char** argv) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    if (fs::is_regular_file(argv[i])) files.push_back(argv[i]);
    if (!fs::is_directory(argv[i])) continue;
    for (const auto& entry : fs::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  LLVMFuzzerInitialize(&argc, &argv);
  signal(SIGABRT, OnAbort);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_set_death_callback(NameInput);
#endif
  const std::vector<std::string> files = FilesBelow(argc, argv);
  for (const std::string& file : files) {
    snprintf(playing, sizeof(playing), "%s", file.c_str());
    std::ifstream in(file, std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(in), {}};
    if (in.bad() || !in.is_open()) {
      fprintf(stderr, "replay: cannot read %s\n", file.c_str());
      return 1;
    }
    // A copy of exactly this size, so that a read past its end is detected.
    const std::vector<uint8_t> bytes(input.begin(), input.end());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  if (files.empty()) {
    fprintf(stderr,
            "replay: expected inputs below the given paths, found "
            "none\n");
    return 1;
  }
  printf("replay: %zu inputs\n", files.size());
  return 0;
}
