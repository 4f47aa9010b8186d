// gpt_dump LAYERS HEADS WIDTH CONTEXT VOCABULARY SEQUENCES AT_ONCE STEPS
// FOLDER: trains the CPU model on random tokens, AT_ONCE sequences a
// micro-batch. It writes to plain files what another implementation needs to
// repeat the training and to compare the results.
//
//   tensors          one line each: name, then shape
//   weights, trained before step 1 and after the last; floats, in that order
//   gradients        of step 1, before clipping
//   tokens, targets  of all steps, 16-bit
//   steps            one line each: learning rate, mean loss, gradients' norm
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "trainer/model/backend.h"
#include "trainer/model/cpu/openblas.h"
#include "trainer/model/random.h"
#include "trainer/model/schedule.h"

namespace rollcall {
namespace {

constexpr float kPeak = 1e-2f;
constexpr int kWarmup = 3;

template <typename Values>
void Write(const std::string& path, const Values& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()),
             values.size() * sizeof(values[0]));
  if (!file.flush()) std::exit(1);
}

void Write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) std::exit(1);
}

// Moves the weights away from their initial values. There, biases are 0 and
// gains 1, which would hide errors in their use.
absl::Status MoveWeights(Backend& backend) {
  std::vector<float> weights(backend.layout().size);
  absl::Status status =
      backend.CopyOut(StatePart::kWeights, absl::MakeSpan(weights));
  if (!status.ok()) return status;
  Random random(5);
  for (float& w : weights) {
    w += 0.2f * (static_cast<float>(random.Next() >> 40) * 0x1p-24f - 0.5f);
  }
  status = backend.CopyIn(StatePart::kWeights, weights);
  if (!status.ok()) return status;
  Write("weights", weights);
  return backend.WeightsChanged();
}

absl::Status Train(Backend& backend, int sequences, int steps) {
  const GptConfig& config = backend.config();
  const size_t count = size_t(sequences) * config.context;
  Random random(9);
  std::vector<Token> tokens(count * steps), targets(count * steps);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = random.Next() % config.vocabulary;
    targets[i] = random.Next() % config.vocabulary;
  }
  Write("tokens", tokens);
  Write("targets", targets);
  std::string lines;
  for (int step = 1; step <= steps; ++step) {
    const size_t from = (step - 1) * count;
    absl::Status status = backend.LossAndGradients(
        absl::MakeSpan(tokens).subspan(from, count),
        absl::MakeSpan(targets).subspan(from, count), 1.0f / count, false,
        [](const Bucket&) { return absl::OkStatus(); });
    if (!status.ok()) return status;
    if (step == 1) {
      Write("gradients", backend.gradients().first(backend.layout().size));
    }
    const absl::StatusOr<Extras> extras = backend.ReadExtras();
    if (!extras.ok()) return extras.status();
    const float rate =
        LearningRates{kPeak, kPeak / 10, kWarmup, steps}.At(step);
    const absl::StatusOr<double> norm = backend.Update(rate, kAnyNorm);
    if (!norm.ok()) return norm.status();
    absl::StrAppendFormat(&lines, "%.9g %.9g %.9g\n", rate, extras->loss,
                          *norm);
  }
  Write("trained", backend.state(StatePart::kWeights));
  Write("steps", lines);
  return absl::OkStatus();
}

absl::Status Dump(const GptConfig& config, int sequences, int at_once,
                  int steps) {
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      MakeCpuBackend(config, AdamWConfig());
  if (!backend.ok()) return backend.status();
  absl::Status status = (*backend)->Reserve(at_once);
  if (status.ok()) status = (*backend)->Reset(1);
  if (status.ok()) status = MoveWeights(**backend);
  if (!status.ok()) return status;
  std::string tensors;
  for (const Tensor& tensor : (*backend)->layout().tensors) {
    absl::StrAppend(&tensors, tensor.name, " ",
                    absl::StrJoin(tensor.shape, " "), "\n");
  }
  Write("tensors", tensors);
  return Train(**backend, sequences, steps);
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  rollcall::ChooseOpenBlasKernels(argv);
  constexpr int kNumbers = 8;
  int numbers[kNumbers] = {};
  bool good = argc == kNumbers + 2;
  for (int i = 0; good && i < kNumbers; ++i) {
    good = absl::SimpleAtoi(argv[i + 1], &numbers[i]) && numbers[i] > 0;
  }
  if (!good || chdir(argv[kNumbers + 1]) != 0) {
    std::fprintf(stderr,
                 "gpt_dump LAYERS HEADS WIDTH CONTEXT VOCABULARY SEQUENCES "
                 "AT_ONCE STEPS FOLDER\n");
    return 2;
  }
  const rollcall::GptConfig config{numbers[0], numbers[1], numbers[2],
                                   numbers[3], numbers[4]};
  const absl::Status status =
      rollcall::Dump(config, numbers[5], numbers[6], numbers[7]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "gpt_dump: %s\n", status.ToString().c_str());
  return 1;
}
