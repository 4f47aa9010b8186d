#include "trainer/checkpoint/train_state.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/checkpoint/files/json_text.h"

namespace rollcall {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Larger than the counts of any run, and small enough that sums do not
// overflow.
constexpr int64_t kCountMax = int64_t{1} << 53;
constexpr size_t kBackendBytesMax = 64;
constexpr size_t kScheduleBytesMax = 64;

// A float as a double, because it is then written with enough digits to read
// the same bits back.
OrderedJson Exact(float value) { return static_cast<double>(value); }

OrderedJson Format(const GptConfig& model) {
  return {{"layers", model.layers},
          {"heads", model.heads},
          {"width", model.width},
          {"context", model.context},
          {"vocabulary", model.vocabulary}};
}

OrderedJson Format(const AdamWConfig& optimizer) {
  return {{"beta1", Exact(optimizer.beta1)},
          {"beta2", Exact(optimizer.beta2)},
          {"epsilon", Exact(optimizer.epsilon)},
          {"weight_decay", Exact(optimizer.weight_decay)},
          {"clip", Exact(optimizer.clip)}};
}

absl::Status Parse(const Json& json, GptConfig* model) {
  JsonFields fields(json, "model.");
  fields.Take("layers", 1, GptConfig::kLayersMax, model->layers);
  fields.Take("heads", 1, GptConfig::kWidthMax, model->heads);
  fields.Take("width", 1, GptConfig::kWidthMax, model->width);
  fields.Take("context", 1, GptConfig::kContextMax, model->context);
  fields.Take("vocabulary", 1, GptConfig::kVocabularyMax, model->vocabulary);
  if (absl::Status s = fields.Finish(); !s.ok()) return s;
  if (model->width % model->heads == 0) return absl::OkStatus();
  return WrongField("model.width", absl::StrCat("a multiple of ", model->heads),
                    absl::StrCat(model->width));
}

absl::Status Parse(const Json& json, AdamWConfig* optimizer) {
  JsonFields fields(json, "optimizer.");
  fields.Take("beta1", optimizer->beta1);
  fields.Take("beta2", optimizer->beta2);
  fields.Take("epsilon", optimizer->epsilon);
  fields.Take("weight_decay", optimizer->weight_decay);
  fields.Take("clip", optimizer->clip);
  return fields.Finish();
}

OrderedJson Format(const RateFall& fall) {
  return {{"last", Exact(fall.last)}, {"schedule", NameOf(fall.schedule)}};
}

absl::Status Parse(const Json& json, RateFall* fall) {
  JsonFields fields(json, "fall.");
  fields.Take("last", fall->last);
  std::string schedule;
  fields.Take("schedule", kScheduleBytesMax, schedule);
  if (absl::Status s = fields.Finish(); !s.ok()) return s;
  for (const Schedule known : kSchedules) {
    if (schedule != NameOf(known)) continue;
    fall->schedule = known;
    return absl::OkStatus();
  }
  return WrongField("fall.schedule",
                    absl::StrJoin(kSchedules, ", ",
                                  [](std::string* to, Schedule known) {
                                    to->append(NameOf(known));
                                  }),
                    Excerpt(schedule));
}

absl::Status Parse(const Json& json, DataPosition* position) {
  JsonFields fields(json, "position.");
  fields.Take("epoch", 0, kCountMax, position->epoch);
  fields.Take("cursor", 0, kCountMax, position->cursor);
  return fields.Finish();
}

absl::Status Parse(const Json& json, AdamWPowers* powers) {
  JsonFields fields(json, "powers.");
  fields.Take("beta1", powers->beta1);
  fields.Take("beta2", powers->beta2);
  return fields.Finish();
}

template <typename T>
void TakeWithin(JsonFields& fields, const char* field, T* to) {
  const Json* json = fields.TakeObject(field);
  if (json != nullptr) fields.Fail(Parse(*json, to));
}

}  // namespace

std::string FormatTrainState(const TrainState& s) {
  OrderedJson json = {
      {"version", s.fall.has_value() ? TrainState::kVersion : 1},
      {"step", s.step},
      {"loss", s.loss},
      {"position",
       {{"epoch", s.position.epoch}, {"cursor", s.position.cursor}}},
      {"powers", {{"beta1", s.powers.beta1}, {"beta2", s.powers.beta2}}},
      {"model", Format(s.model)},
      {"optimizer", Format(s.optimizer)},
      {"seed", s.seed},
      {"batch", s.batch},
      {"learning_rate", Exact(s.learning_rate)},
      {"warmup", s.warmup},
      {"steps", s.steps},
      {"data_fingerprint", s.data_fingerprint},
      {"world_size", s.world_size},
      {"backend", s.backend},
  };
  if (s.fall.has_value()) json["fall"] = Format(*s.fall);
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

absl::StatusOr<TrainState> ParseTrainState(absl::string_view text) {
  const absl::StatusOr<Json> json = ParseJson(text);
  if (!json.ok()) return json.status();
  TrainState s;
  JsonFields fields(*json);
  const absl::StatusOr<int> version = fields.TakeVersion(TrainState::kVersion);
  if (!version.ok()) return version.status();
  fields.Take("step", 0, kCountMax, s.step);
  fields.Take("loss", s.loss);
  TakeWithin(fields, "position", &s.position);
  TakeWithin(fields, "powers", &s.powers);
  TakeWithin(fields, "model", &s.model);
  TakeWithin(fields, "optimizer", &s.optimizer);
  fields.Take("seed", s.seed);
  fields.Take("batch", 1, kCountMax, s.batch);
  fields.Take("learning_rate", s.learning_rate);
  fields.Take("warmup", 0, kCountMax, s.warmup);
  fields.Take("steps", 1, kCountMax, s.steps);
  fields.Take("data_fingerprint", s.data_fingerprint);
  fields.Take("world_size", 1, kCountMax, s.world_size);
  fields.Take("backend", kBackendBytesMax, s.backend);
  if (*version >= 2) TakeWithin(fields, "fall", &s.fall.emplace());
  if (absl::Status status = fields.Finish(); !status.ok()) return status;
  return s;
}

absl::Status SameModel(const GptConfig& expected, const GptConfig& found) {
  struct Row {
    const char* field;
    int expected, found;
  };
  const Row kRows[] = {
      {"layers", expected.layers, found.layers},
      {"heads", expected.heads, found.heads},
      {"width", expected.width, found.width},
      {"context", expected.context, found.context},
      {"vocabulary", expected.vocabulary, found.vocabulary},
  };
  for (const Row& row : kRows) {
    if (row.expected == row.found) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("model.", row.field, ": expected ", row.expected,
                     ", found ", row.found));
  }
  return absl::OkStatus();
}

}  // namespace rollcall
