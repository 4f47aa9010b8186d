// The tools with which the seeds of all fuzz targets are written.
#ifndef ROLLCALL_TESTS_FUZZ_SEEDS_SEEDS_H_
#define ROLLCALL_TESTS_FUZZ_SEEDS_SEEDS_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "tests/fuzz/cores/job_script.h"

namespace rollcall {

// The inverse of Feed.
class Script {
 public:
  Script& Bytes(std::initializer_list<int> bytes) {
    for (const int byte : bytes) text_ += static_cast<char>(byte);
    return *this;
  }
  Script& Text(std::string_view text) {
    text_ += static_cast<char>(text.size() >> 8);
    text_ += static_cast<char>(text.size() & 0xFF);
    text_ += text;
    return *this;
  }
  Script& Do(JobOp op, std::initializer_list<int> bytes = {}) {
    return Bytes({static_cast<int>(op)}).Bytes(bytes);
  }
  Script& Raw(std::string_view text) {
    text_ += text;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The folder of the seeds, one file CORPUS/TARGET/NAME for each.
class Corpus {
 public:
  explicit Corpus(std::string folder) : folder_(std::move(folder)) {}

  void Add(const std::string& target, const std::string& name,
           const std::string& bytes);
  bool failed() const { return failed_; }

 private:
  const std::string folder_;
  bool failed_ = false;
};

// The seeds of `job`.
void Jobs(Corpus& corpus);
// The seeds of `restore`.
void Journals(Corpus& corpus);
// The seeds of `agent` and `probe`.
void Agents(Corpus& corpus);
void ProbeCalls(Corpus& corpus);
// The seeds of `store`.
void StoreScripts(Corpus& corpus);
// The seeds of `frames`.
void RankFrames(Corpus& corpus);
// The seeds of `join` and `secrets`.
void Doors(Corpus& corpus);
void Secrets(Corpus& corpus);
// The seeds of `hosts`, `flags` and `texts`.
void HostsFiles(Corpus& corpus);
void CommandLines(Corpus& corpus);
void Files(Corpus& corpus);
// The seeds of `checkpoint`.
void Checkpoints(Corpus& corpus);
// The seeds of `config`.
void Configs(Corpus& corpus);

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_FUZZ_SEEDS_SEEDS_H_
