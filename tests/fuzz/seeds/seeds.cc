// seeds CORPUS: writes the inputs that fuzzing starts from, CORPUS/TARGET/NAME.
//
// Each is a real case: a world that forms, a journal of a run, a block in a
// hosts file, a command line. What a fuzzer finds from there is merged into an
// archive beside them (scripts/fuzz.sh --merge).
#include "tests/fuzz/seeds/seeds.h"

#include <sys/stat.h>

#include <cstdio>

#include "absl/strings/str_cat.h"

namespace rollcall {

void Corpus::Add(const std::string& target, const std::string& name,
                 const std::string& bytes) {
  const std::string folder = absl::StrCat(folder_, "/", target);
  mkdir(folder.c_str(), 0755);
  const std::string path = absl::StrCat(folder, "/", name);
  FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    std::perror(path.c_str());
    failed_ = true;
    return;
  }
  failed_ |= std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size();
  failed_ |= std::fclose(file) != 0;
}

}  // namespace rollcall

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "fuzz_seeds: expected the corpus's folder\n");
    return 2;
  }
  mkdir(argv[1], 0755);
  rollcall::Corpus corpus(argv[1]);
  rollcall::Jobs(corpus);
  rollcall::ProbeCalls(corpus);
  rollcall::Journals(corpus);
  rollcall::Agents(corpus);
  rollcall::RankFrames(corpus);
  rollcall::StoreScripts(corpus);
  rollcall::Doors(corpus);
  rollcall::Secrets(corpus);
  rollcall::HostsFiles(corpus);
  rollcall::CommandLines(corpus);
  rollcall::Files(corpus);
  rollcall::Checkpoints(corpus);
  rollcall::Configs(corpus);
  return corpus.failed() ? 1 : 0;
}
