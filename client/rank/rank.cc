#include "client/rank/rank.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/rank/frames.h"
#include "client/rank/stream.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/limits.h"

namespace rollcall {

struct Rank::Wire {
  Wire(const std::string& socket, const v1::RankHello& hello,
       const RankOptions& options)
      : stream(socket, hello, options.timeout, options.cancel_fd) {}
  ~Wire() { stream.Close(); }

  RankStream stream;
  v1::RankWorld world;
};

namespace {

v1::RankHello Hello(const RankLocation& place, bool elastic) {
  v1::RankHello hello;
  hello.set_elastic(elastic);
  hello.set_local_rank(place.local_rank);
  hello.set_pid(getpid());
  hello.set_generation(place.generation);
  hello.set_wire_version(kRankWireVersion);
  return hello;
}

// Checked here, because the agent ends the connection of a rank whose message
// it cannot read.
absl::Status CheckExchange(absl::string_view key, absl::string_view value) {
  const bool printable =
      std::all_of(key.begin(), key.end(),
                  [](unsigned char c) { return absl::ascii_isprint(c); });
  if (key.empty() || key.size() > Limits::exchange_key_bytes_max ||
      !printable) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a key of 1 to ", Limits::exchange_key_bytes_max,
                     " bytes of printable ASCII, got ", key.size(), " bytes"));
  }
  if (value.size() > Limits::exchange_value_bytes_max) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the value has ", value.size(), " bytes, expected at most ",
        Limits::exchange_value_bytes_max));
  }
  return absl::OkStatus();
}

// A world from an agent of another version must not make this process read
// beyond the end of a list.
absl::Status CheckWorld(const v1::RankWorld& world) {
  const v1::World& table = world.world();
  const int members = table.members_size();
  if (world.node_rank() >= static_cast<uint32_t>(members)) {
    return absl::InternalError(absl::StrCat(
        "the agent's world has ", members,
        " nodes and gives this one node rank ", world.node_rank()));
  }
  if (world.rank() >= table.world_size()) {
    return absl::InternalError(
        absl::StrCat("the agent's world has ", table.world_size(),
                     " ranks and gives this one rank ", world.rank()));
  }
  return absl::OkStatus();
}

}  // namespace

Rank::Rank(std::unique_ptr<Wire> wire) : wire_(std::move(wire)) {}
Rank::~Rank() = default;

absl::StatusOr<std::unique_ptr<Rank>> Rank::Attend(const RankOptions& options) {
  absl::StatusOr<RankLocation> place = RankLocation::FromEnvironment();
  if (!place.ok()) return place.status();
  return Attend(*place, options);
}

absl::StatusOr<std::unique_ptr<Rank>> Rank::Attend(const RankLocation& place,
                                                   const RankOptions& options) {
  auto wire = std::make_unique<Wire>(place.socket,
                                     Hello(place, options.elastic), options);
  absl::StatusOr<v1::RankWorld> world =
      wire->stream.AwaitWorld(0, options.timeout);
  const absl::Status status = world.ok() ? CheckWorld(*world) : world.status();
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("local rank ", place.local_rank,
                                     " could not attend its agent on ",
                                     place.socket, ": ", status.message()));
  }
  wire->world = *std::move(world);
  return std::unique_ptr<Rank>(new Rank(std::move(wire)));
}

const v1::RankWorld& Rank::world() const { return wire_->world; }
uint64_t Rank::generation() const { return world().world().generation(); }
uint32_t Rank::rank() const { return world().rank(); }
uint32_t Rank::world_size() const { return world().world().world_size(); }
uint32_t Rank::local_rank() const { return world().local_rank(); }

const v1::Member& Rank::member() const {
  return world().world().members(world().node_rank());
}

uint32_t Rank::ranks_here() const {
  if (world().world().one_machine()) return world_size();
  uint32_t ranks = 0;
  for (const v1::Member& other : world().world().members()) {
    if (other.address() == member().address()) ranks += other.ranks();
  }
  return ranks;
}

absl::StatusOr<std::vector<std::string>> Rank::Exchange(
    absl::string_view key, absl::string_view value, absl::Duration timeout) {
  const auto failed = [&](absl::StatusCode code, absl::string_view why) {
    return absl::Status(
        code, absl::StrCat(
                  "exchange of \"",
                  Printable(std::string(key), Limits::exchange_key_bytes_max),
                  "\" with ", world_size(), " ranks: ", why));
  };
  if (const absl::Status fits = CheckExchange(key, value); !fits.ok()) {
    return failed(fits.code(), fits.message());
  }
  v1::RankMessage message;
  v1::RankExchange& request = *message.mutable_exchange();
  request.set_generation(generation());
  request.set_key(std::string(key));
  request.set_value(std::string(value));
  absl::StatusOr<v1::AgentReply> reply =
      wire_->stream.Ask(std::move(message), timeout);
  if (!reply.ok()) {
    return failed(reply.status().code(),
                  absl::IsDeadlineExceeded(reply.status())
                      ? absl::StrCat("not all ranks gave a value within ",
                                     absl::FormatDuration(timeout))
                      : reply.status().message());
  }
  v1::RankExchanged* const answer = reply->mutable_exchanged();
  if (answer->code() != 0) {
    return failed(static_cast<absl::StatusCode>(answer->code()),
                  answer->error());
  }
  if (answer->values_size() != static_cast<int>(world_size())) {
    return failed(absl::StatusCode::kInternal,
                  absl::StrCat("got ", answer->values_size(),
                               " values, expected one from each"));
  }
  return std::vector<std::string>(
      std::make_move_iterator(answer->mutable_values()->begin()),
      std::make_move_iterator(answer->mutable_values()->end()));
}

absl::StatusOr<v1::StoreResult> Rank::Store(v1::StoreOperation operation,
                                            absl::Duration timeout) {
  const std::string name =
      absl::StrCat("store key ", Quoted(Printable(operation.key(), 128)), ": ");
  v1::RankMessage message;
  message.mutable_store()->set_generation(generation());
  *message.mutable_store()->mutable_operation() = std::move(operation);
  // Checked here, because the agent ends the connection of a rank whose message
  // it cannot read.
  if (message.ByteSizeLong() > kRankMessageBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, "an operation of ", message.ByteSizeLong(),
                     " bytes; expected at most ", Limits::store_value_bytes_max,
                     " bytes of values"));
  }
  absl::StatusOr<v1::AgentReply> reply =
      wire_->stream.Ask(std::move(message), timeout);
  if (!reply.ok()) {
    return absl::Status(reply.status().code(),
                        absl::StrCat(name, reply.status().message()));
  }
  v1::StoreResult& result = *reply->mutable_stored()->mutable_result();
  if (result.code() == 0) return std::move(result);
  return absl::Status(static_cast<absl::StatusCode>(result.code()),
                      absl::StrCat(name, result.error()));
}

void Rank::Progress(const RankStep& done) {
  v1::RankMessage message;
  v1::RankProgress& progress = *message.mutable_progress();
  progress.set_generation(generation());
  progress.set_step(done.step);
  progress.set_loss(done.loss);
  progress.set_tokens_per_second(done.tokens_per_second);
  progress.set_steps(done.steps);
  if (done.gradient_norm.has_value()) {
    progress.set_gradient_norm(*done.gradient_norm);
  }
  if (done.flops_utilization.has_value()) {
    progress.set_flops_utilization(*done.flops_utilization);
  }
  if (done.validation_loss.has_value()) {
    progress.set_validation_loss(*done.validation_loss);
  }
  progress.set_memory_bytes(done.memory_bytes);
  wire_->stream.Send(std::move(message));
}

void Rank::Saved(uint64_t step) {
  v1::RankMessage message;
  message.mutable_saved()->set_generation(generation());
  message.mutable_saved()->set_step(step);
  wire_->stream.Send(std::move(message));
}

void Rank::WhenAsked(std::function<RankCollectives()> where) {
  if (!where) return wire_->stream.WhenAsked(nullptr);
  wire_->stream.WhenAsked([where = std::move(where)](v1::RankHere& here) {
    const RankCollectives seen = where();
    here.set_collective_entered(seen.entered);
    here.set_collective_left(seen.left);
  });
}

bool Rank::lost() const { return wire_->stream.lost(); }
absl::Status Rank::lost_reason() const { return wire_->stream.Ended(); }
bool Rank::aborted() const { return wire_->stream.aborted() >= generation(); }
bool Rank::noticed() const { return wire_->stream.noticed() == generation(); }

std::optional<v1::RankNotice> Rank::notice() const {
  if (!noticed()) return std::nullopt;
  return wire_->stream.notice();
}

std::optional<v1::RankAbort> Rank::abort() const {
  if (!aborted()) return std::nullopt;
  return wire_->stream.abort();
}

void Rank::WhenOver(std::function<void()> wake) {
  wire_->stream.WhenOver(generation(), std::move(wake));
}

absl::Status Rank::AwaitAbort(absl::Duration timeout) {
  return wire_->stream.AwaitAbort(generation(), timeout);
}

absl::Status Rank::AwaitNotice() {
  return wire_->stream.AwaitNotice(generation());
}

void Rank::Stopped(uint64_t completed_step, bool whole_state) {
  v1::RankMessage message;
  v1::RankStopped& stopped = *message.mutable_stopped();
  stopped.set_generation(generation());
  stopped.set_completed_step(completed_step);
  stopped.set_whole_state(whole_state);
  wire_->stream.Send(std::move(message));
}

absl::Status Rank::NextWorld() {
  absl::StatusOr<v1::RankWorld> world =
      wire_->stream.AwaitWorld(generation(), absl::InfiniteDuration());
  if (!world.ok()) return world.status();
  if (absl::Status s = CheckWorld(*world); !s.ok()) return s;
  wire_->world = *std::move(world);
  return absl::OkStatus();
}

void Rank::CancelNextWorld() { wire_->stream.CancelWorlds(); }

void Rank::NoticeSeen(uint64_t step) {
  const std::optional<v1::RankNotice> told = notice();
  if (!told.has_value()) return;  // Nothing to answer.
  v1::RankMessage message;
  v1::RankNoticeSeen& seen = *message.mutable_notice_seen();
  seen.set_notice(told->notice());
  seen.set_generation(generation());
  seen.set_completed_step(step);
  wire_->stream.Send(std::move(message));
}

void Rank::Finished(int exit_code, absl::string_view reason, bool permanent) {
  v1::RankMessage message;
  v1::RankFinished& finished = *message.mutable_finished();
  finished.set_generation(generation());
  // The range of exit codes that wait(2) reports.
  finished.set_exit_code(static_cast<uint32_t>(exit_code) & 0xff);
  finished.set_reason(
      Printable(std::string(reason), Limits::stderr_tail_bytes, true));
  finished.set_permanent(permanent);
  wire_->stream.Send(std::move(message));
}

void Rank::AskToLeave() {
  v1::RankMessage message;
  message.mutable_leave()->set_generation(generation());
  wire_->stream.Send(std::move(message));
}

}  // namespace rollcall
