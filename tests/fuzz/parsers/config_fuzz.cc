// A config.json that a user or another program wrote, for --init-from.
//
// Oracle: nothing throws. A refusal has a printable message of bounded length.
// An accepted model is valid, has the numbers of the text, and is the same
// after it is written and read again. Every valid model that rollcall would
// write is accepted.
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "tests/fuzz/feed.h"
#include "tests/fuzz/oracle.h"
#include "trainer/checkpoint/files/gpt2_config.h"
#include "trainer/checkpoint/files/json_text.h"

namespace rollcall {
namespace {

constexpr size_t kConfigMessageMax = 2000;

bool SameConfig(const GptConfig& a, const GptConfig& b) {
  return a.layers == b.layers && a.heads == b.heads && a.width == b.width &&
         a.context == b.context && a.vocabulary == b.vocabulary;
}

void ExpectWrittenAndRead(const GptConfig& model) {
  const std::string written = FormatGpt2Config(model);
  const auto again = ParseGpt2Config(written);
  Expect(again.ok() && SameConfig(*again, model), "a model comes back the same",
         written);
}

void ConfigText(absl::string_view text) {
  const auto model = ParseGpt2Config(text);
  if (model.ok()) {
    Expect(model->Validate().ok(), "an accepted model is valid",
           {text.data(), text.size()});
    const auto json = ParseJson(text);
    Expect(json.ok() && json->at("n_layer") == model->layers &&
               json->at("n_head") == model->heads &&
               json->at("n_embd") == model->width &&
               json->at("n_positions") == model->context &&
               json->at("vocab_size") == model->vocabulary,
           "an accepted model has the numbers of the text",
           {text.data(), text.size()});
    return ExpectWrittenAndRead(*model);
  }
  const std::string message(model.status().message());
  Expect(absl::IsInvalidArgument(model.status()) ||
             absl::IsDataLoss(model.status()),
         "a refusal has its code", message);
  Expect(message.size() <= kConfigMessageMax, "a message has a bound", message);
  ExpectPrintable("why it is refused", message);
}

// A written config with other bytes as one field's value, or without the field.
void EditedConfig(Feed& feed) {
  nlohmann::json config = nlohmann::json::parse(FormatGpt2Config({}));
  auto field = config.begin();
  std::advance(field, feed.Pick(static_cast<uint32_t>(config.size())));
  const std::string name = field.key();
  const std::string_view value = feed.Rest();
  constexpr char kValue[] = "the value";
  if (value.empty()) {
    config.erase(name);
  } else {
    config[name] = kValue;
  }
  ConfigText(absl::StrReplaceAll(
      config.dump(),
      {{absl::StrCat("\"", kValue, "\""), {value.data(), value.size()}}}));
}

void ValidModel(Feed& feed) {
  const auto pick = [&feed](int max) {
    return 1 + static_cast<int>(feed.Number() % static_cast<uint64_t>(max));
  };
  GptConfig model;
  model.layers = pick(GptConfig::kLayersMax);
  model.heads = pick(GptConfig::kWidthMax);
  model.width = model.heads * pick(GptConfig::kWidthMax / model.heads);
  model.context = pick(GptConfig::kContextMax);
  model.vocabulary = pick(GptConfig::kVocabularyMax);
  Expect(model.Validate().ok(), "a model is valid");
  ExpectWrittenAndRead(model);
}

}  // namespace
}  // namespace rollcall

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rollcall;
  Feed feed(data, size);
  switch (feed.Pick(3)) {
    case 0: {
      const std::string_view text = feed.Rest();
      ConfigText({text.data(), text.size()});
      break;
    }
    case 1:
      EditedConfig(feed);
      break;
    default:
      ValidModel(feed);
  }
  return 0;
}
