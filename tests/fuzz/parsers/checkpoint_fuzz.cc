// Damaged, edited or foreign checkpoint files and training data: tensor
// headers, manifests, training states, the names in a store's folder, and the
// first bytes of data files.
//
// Oracle: nothing throws. A refusal has a printable message of bounded length.
// Accepted input is the same after it is written and read again. Everything
// that rollcall itself would write is accepted.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/text/lines.h"
#include "tests/fuzz/feed.h"
#include "tests/fuzz/oracle.h"
#include "trainer/checkpoint/checkpoint_names.h"
#include "trainer/checkpoint/files/manifest.h"
#include "trainer/checkpoint/files/safetensors.h"
#include "trainer/checkpoint/train_state.h"
#include "trainer/data/shard_header.h"

namespace rollcall {
namespace {

constexpr size_t kMessageBytesMax = 2000;

absl::string_view View(std::string_view text) {
  return {text.data(), text.size()};
}

// Saturates, because no file is larger than a size can express.
uint64_t Sum(uint64_t a, uint64_t b) {
  return a > ~uint64_t{0} - b ? ~uint64_t{0} : a + b;
}

void ExpectRefusal(const absl::Status& status, absl::StatusCode code) {
  const std::string message(status.message());
  Expect(status.code() == code, "a refusal has its code", message);
  Expect(message.size() <= kMessageBytesMax, "a message has a bound", message);
  ExpectPrintable("why it is refused", message);
}

// The input must be refused as damaged, or as written by a newer version.
void ExpectUnread(const absl::Status& status) {
  ExpectRefusal(status, absl::IsFailedPrecondition(status)
                            ? absl::StatusCode::kFailedPrecondition
                            : absl::StatusCode::kDataLoss);
}

// --- Tensors -----------------------------------------------------------------

bool Same(const std::vector<SafeTensor>& a, const std::vector<SafeTensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const SafeTensor& x, const SafeTensor& y) {
                      return x.name == y.name && x.dtype == y.dtype &&
                             x.shape == y.shape && x.begin == y.begin &&
                             x.end == y.end;
                    });
}

// Sorts them, because empty tensors at the same offset may swap their order.
std::vector<SafeTensor> Sorted(std::vector<SafeTensor> tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const SafeTensor& a, const SafeTensor& b) {
              return std::tie(a.begin, a.end, a.name) <
                     std::tie(b.begin, b.end, b.name);
            });
  return tensors;
}

// After they are written and read again, the tensors are equal.
void ExpectComeBack(const std::vector<SafeTensor>& tensors,
                    uint64_t data_bytes) {
  const std::string text = FormatSafeTensors(tensors);
  Expect(text.size() % 8 == 0, "data begin where eight divides", text);
  const auto length =
      SafeTensorsHeaderBytes(text, Sum(text.size(), data_bytes));
  Expect(length.ok() && *length == text.size() - kSafeTensorsLengthBytes,
         "a header's length comes back the same", text);
  const auto again =
      ParseSafeTensors(text.substr(kSafeTensorsLengthBytes), data_bytes);
  Expect(again.ok() && Same(Sorted(*again), Sorted(tensors)),
         "tensors come back the same", text);
}

void Header(uint64_t data_bytes, absl::string_view text) {
  const auto tensors = ParseSafeTensors(text, data_bytes);
  if (!tensors.ok()) {
    return ExpectRefusal(tensors.status(), absl::StatusCode::kDataLoss);
  }
  uint64_t end = 0;
  for (const SafeTensor& tensor : *tensors) {
    Expect(tensor.begin == end && tensor.end >= end, "tensors lie end to end",
           tensor.name);
    end = tensor.end;
  }
  Expect(end == data_bytes, "tensors are all of the data");
  ExpectComeBack(*tensors, data_bytes);
}

// A whole file from its first bytes, read like a file on disk.
void TensorFile(uint64_t more_bytes, std::string_view bytes) {
  const uint64_t file = Sum(bytes.size(), more_bytes);
  const auto length = SafeTensorsHeaderBytes(View(bytes), file);
  if (!length.ok()) {
    return ExpectRefusal(length.status(), absl::StatusCode::kDataLoss);
  }
  Expect(*length <= kSafeTensorsHeaderMax &&
             *length <= file - kSafeTensorsLengthBytes,
         "a header has a bound and lies within the file");
  if (bytes.size() - kSafeTensorsLengthBytes < *length) return;
  Header(file - kSafeTensorsLengthBytes - *length,
         View(bytes.substr(kSafeTensorsLengthBytes, *length)));
}

// Some of the tensors that a file may have.
void Tensors(Feed& feed) {
  std::vector<SafeTensor> tensors;
  uint64_t end = 0;
  while (!feed.empty() && tensors.size() < 100) {
    SafeTensor tensor;
    // The number comes first, so that no two names are equal.
    tensor.name =
        absl::StrCat(tensors.size(), " ", ValidUtf8(View(feed.Text())));
    const bool halves = feed.Flag();
    tensor.dtype = halves ? "BF16" : "F32";
    uint64_t elements = 1;
    for (uint32_t i = feed.Pick(5); i > 0; --i) {
      tensor.shape.push_back(feed.Byte());
      elements *= tensor.shape.back();
    }
    tensor.begin = end;
    tensor.end = end += elements * (halves ? 2 : 4);
    tensors.push_back(std::move(tensor));
  }
  ExpectComeBack(tensors, end);
}

// --- Texts -------------------------------------------------------------------

void ManifestText(absl::string_view text) {
  const auto manifest = ParseManifest(text);
  if (!manifest.ok()) return ExpectUnread(manifest.status());
  Expect(manifest->files.size() <= Manifest::kFilesMax,
         "a manifest has a bound");
  for (const ManifestFile& file : manifest->files) {
    Expect(file.name.find('/') == std::string::npos && file.name != "..",
           "a manifest stays in its folder", file.name);
  }
  const std::string written = FormatManifest(*manifest);
  const auto again = ParseManifest(written);
  Expect(again.ok() && FormatManifest(*again) == written,
         "a manifest comes back the same", written);
}

void ExpectComesBack(const TrainState& state) {
  const std::string written = FormatTrainState(state);
  const auto again = ParseTrainState(written);
  Expect(again.ok() && FormatTrainState(*again) == written,
         "a training state comes back the same", written);
  Expect(SameModel(state.model, again->model).ok(),
         "a model comes back the same", written);
}

void StateText(absl::string_view text) {
  const auto state = ParseTrainState(text);
  if (!state.ok()) return ExpectUnread(state.status());
  Expect(state->model.heads >= 1 && state->model.layers >= 1 &&
             state->model.width % state->model.heads == 0 &&
             state->batch >= 1 && state->world_size >= 1,
         "a state's numbers can be reckoned with");
  ExpectComesBack(*state);
}

// A name in a store's folder.
void Name(absl::string_view text) {
  const auto name = ParseCheckpointName(text);
  if (!name) return;
  Expect(
      name->step >= 0 && FormatCheckpointName(name->step, name->kind) == text,
      "a checkpoint's name comes back the same",
      FormatCheckpointName(name->step, name->kind));
}

// --- Data --------------------------------------------------------------------

void DataHead(Feed& feed) {
  const bool named = feed.Flag();
  const uint64_t more = feed.Number();
  const std::string_view bytes = feed.Rest();
  const std::string_view head = bytes.substr(0, kShardHeaderBytes);
  const uint64_t file = Sum(bytes.size(), more);
  const auto read = ReadDataHeader(View(head), file, named);
  if (!read.ok()) {
    return ExpectRefusal(read.status(), absl::StatusCode::kInvalidArgument);
  }
  if (read->kind == DataKind::kBytes) {
    return Expect(!named && read->tokens == file, "a byte is a token");
  }
  Expect(kShardHeaderBytes + 2 * read->tokens == file,
         "a shard's tokens are all that follows");
}

}  // namespace
}  // namespace rollcall

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rollcall;
  Feed feed(data, size);
  switch (feed.Pick(7)) {
    case 0: {
      const uint64_t data_bytes = feed.Number();
      Header(data_bytes, View(feed.Rest()));
      break;
    }
    case 1: {
      const uint64_t more_bytes = feed.Number();
      TensorFile(more_bytes, feed.Rest());
      break;
    }
    case 2:
      Tensors(feed);
      break;
    case 3:
      ManifestText(View(feed.Rest()));
      break;
    case 4:
      StateText(View(feed.Rest()));
      break;
    case 5:
      Name(View(feed.Rest()));
      break;
    default:
      DataHead(feed);
  }
  return 0;
}
