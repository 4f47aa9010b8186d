#include "client/agent/core/attached_places.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// The exit code of a process that ended without reporting one.
constexpr int kCodeUnknown = 1;

}  // namespace

std::vector<uint32_t> AttachedPlaces::Open(uint64_t generation) {
  generation_ = generation;
  open_ = true;
  std::vector<uint32_t> entered;
  for (uint32_t local_rank = 0; local_rank < places_.size(); ++local_rank) {
    Place& place = places_[local_rank];
    place.taken = place.lives || place.newcomer;
    place.answered = false;
    if (place.lives || !std::exchange(place.newcomer, false)) continue;
    place.lives = true;
    place.born = generation;
    entered.push_back(local_rank);
  }
  return entered;
}

void AttachedPlaces::Close(uint64_t generation) {
  if (generation_ <= generation) open_ = false;
}

bool AttachedPlaces::Arrive(uint32_t local_rank) {
  Place& place = places_[local_rank];
  if (!open_ || place.taken) {
    place.newcomer = true;
    return false;
  }
  place.taken = place.lives = true;
  place.born = generation_;
  return true;
}

bool AttachedPlaces::Answered(uint32_t local_rank, uint64_t generation) {
  Place& place = places_[local_rank];
  if (open_ || generation != generation_ || !place.lives) return false;
  place.answered = true;
  return place.stopping;
}

void AttachedPlaces::Finished(uint32_t local_rank,
                              const v1::RankFinished& finished) {
  Place& place = places_[local_rank];
  if (!place.lives) return;
  RankEnded& ended = place.finished.emplace();
  ended.code = static_cast<int>(finished.exit_code());
  ended.stderr_tail =
      Printable(finished.reason(), Limits::stderr_tail_bytes, true);
  ended.permanent = finished.permanent();
  ended.started_again = finished.started_again();
}

AttachedPlaces::Departure AttachedPlaces::Leave(uint32_t local_rank,
                                                int32_t pid,
                                                const absl::Status& why) {
  Place& place = places_[local_rank];
  RankEnded ended;
  if (place.finished.has_value()) {
    ended = *std::move(place.finished);
  } else if (!why.ok()) {
    ended.gone = true;
    ended.code = kCodeUnknown;
    ended.error_file =
        Printable(absl::StrCat("the agent ended the connection of process ",
                               pid, ": ", why.ToString()),
                  Limits::stderr_tail_bytes);
  } else {
    ended.gone = true;
    ended.code = kCodeUnknown;
    ended.stderr_tail =
        absl::StrCat("process ", pid,
                     " did not say with which code it ends, as one that "
                     "is killed; its parent may know more");
  }
  ended.generation = place.born;
  ended.local_rank = local_rank;
  Departure departure{std::move(ended), std::nullopt};
  if (place.stopping) {
    departure.gone = RanksGone{{{place.born, local_rank}}};
  }
  place.lives = place.answered = place.stopping = false;
  place.finished.reset();
  return departure;
}

AttachedPlaces::Stopping AttachedPlaces::Stop(const RankIncarnation& rank) {
  Place& place = places_[rank.local_rank];
  if (!place.lives || place.born != rank.generation) {
    place.taken = true;
    return Stopping::kGone;
  }
  place.stopping = true;
  return place.answered ? Stopping::kEndIt : Stopping::kAwaited;
}

}  // namespace rollcall
