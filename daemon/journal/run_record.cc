#include "daemon/journal/run_record.h"

#include <zlib.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/journal.pb.h"

namespace rollcall {
namespace {

// The world, the one before it, and the same size again for everything else.
constexpr size_t kRecordBytesMax = 3 * Limits::world_bytes_max;

template <typename Message>
void Set(const std::optional<Message>& from, Message* (v1::RunRecord::*field)(),
         v1::RunRecord& to) {
  if (from.has_value()) *(to.*field)() = *from;
}

template <typename Message>
std::optional<Message> Get(bool has, const Message& value) {
  return has ? std::optional<Message>(value) : std::nullopt;
}

std::optional<v1::RunRecord> Expand(const std::string& bytes) {
  v1::PackedRecord packed;
  v1::RunRecord record;
  if (!packed.ParseFromString(bytes) || packed.bytes() > kRecordBytesMax) {
    return std::nullopt;
  }
  std::string plain(packed.bytes(), '\0');
  uLongf size = plain.size();
  const int result =
      uncompress(reinterpret_cast<Bytef*>(plain.data()), &size,
                 reinterpret_cast<const Bytef*>(packed.packed().data()),
                 packed.packed().size());
  if (result != Z_OK || size != plain.size() ||
      !record.ParseFromString(plain)) {
    return std::nullopt;
  }
  return record;
}

}  // namespace

absl::StatusOr<std::string> PackRun(const JournaledRun& run) {
  using Record = v1::RunRecord;
  const JournalState& state = run.state;
  Record record;
  record.set_run(state.run);
  *record.mutable_settings() = state.settings;
  record.set_generation(state.generation);
  Set(state.proposal, &Record::mutable_proposal, record);
  Set(state.world_commit, &Record::mutable_world_commit, record);
  Set(state.leaving, &Record::mutable_leaving, record);
  Set(state.finished, &Record::mutable_finished, record);
  Set(state.end, &Record::mutable_end, record);
  Set(state.ran_proposal, &Record::mutable_ran_proposal, record);
  Set(state.ran_world_commit, &Record::mutable_ran_world_commit, record);
  Set(state.ran_finished, &Record::mutable_ran_finished, record);
  record.set_restarts_charged(state.restarts_charged);
  *record.mutable_node_epochs() = state.node_epochs.Whole();
  const int64_t written_us = absl::ToUnixMicros(run.written_at);
  record.mutable_written_at()->set_seconds(written_us / 1'000'000);
  record.mutable_written_at()->set_nanos(
      static_cast<int32_t>(written_us % 1'000'000 * 1'000));

  const std::string plain = record.SerializeAsString();
  std::string bytes(compressBound(plain.size()), '\0');
  uLongf size = bytes.size();
  // This fails only if there is not enough memory.
  if (compress2(reinterpret_cast<Bytef*>(bytes.data()), &size,
                reinterpret_cast<const Bytef*>(plain.data()), plain.size(),
                Z_BEST_SPEED + 2) != Z_OK) {
    return absl::UnavailableError(
        absl::StrCat("the run of job ", run.job, " (", plain.size(),
                     " bytes) cannot be compressed: out of memory"));
  }
  bytes.resize(size);
  v1::PackedRecord packed;
  packed.set_packed(std::move(bytes));
  packed.set_bytes(plain.size());
  return packed.SerializeAsString();
}

absl::StatusOr<JournaledRun> UnpackRun(const std::string& job,
                                       const std::string& bytes) {
  const std::optional<v1::RunRecord> record = Expand(bytes);
  if (!record.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the run of job ", job,
                     " was not written by this version of rollcall; another "
                     "version or another program may have written it"));
  }
  JournaledRun run;
  run.job = job;
  run.written_at = absl::FromUnixSeconds(record->written_at().seconds()) +
                   absl::Nanoseconds(record->written_at().nanos());
  JournalState& state = run.state;
  state.run = record->run();
  state.settings = record->settings();
  state.generation = record->generation();
  state.proposal = Get(record->has_proposal(), record->proposal());
  state.world_commit = Get(record->has_world_commit(), record->world_commit());
  state.leaving = Get(record->has_leaving(), record->leaving());
  state.finished = Get(record->has_finished(), record->finished());
  state.end = Get(record->has_end(), record->end());
  state.ran_proposal = Get(record->has_ran_proposal(), record->ran_proposal());
  state.ran_world_commit =
      Get(record->has_ran_world_commit(), record->ran_world_commit());
  state.ran_finished = Get(record->has_ran_finished(), record->ran_finished());
  state.restarts_charged = record->restarts_charged();
  state.node_epochs.Apply(record->node_epochs());
  return run;
}

}  // namespace rollcall
