#include "tests/sim/nodes/ranks.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace rollcall::sim {
namespace {

// If no other rank attends, the daemon does not expect this rank to, so the
// rank goes on by itself.
constexpr Nanos kStartHangsMax = 30 * kSecond;
// How often at most a rank adds to the counter in one generation.
constexpr int kCountsMax = 4;

}  // namespace

Ranks::Ranks(World& world, uint32_t machine, uint32_t count, bool linked,
             Feed feed)
    : world_(world),
      machine_(machine),
      linked_(linked),
      feed_(std::move(feed)),
      ranks_(count) {}

// --- Orders of the agent -----------------------------------------------------

void Ranks::Start(const StartRanks& start) {
  const uint64_t generation = start.world.generation();
  for (const RankIncarnation& incarnation : start.waiting) {
    Rank* rank = Find(incarnation);
    if (rank == nullptr)
      continue;  // The rank has just died, and the agent is
                 // told.
    rank->generation = generation;
    rank->waits = rank->at_boundary = false;
    rank->counts_left = kCountsMax;
    CountLater(incarnation.local_rank);
  }
  for (const uint32_t local_rank : start.fresh) {
    Rank& rank = ranks_[local_rank];
    rank = Rank();
    rank.number = ++numbers_;
    rank.born = rank.generation = generation;
    if (linked_) {
      Later(world_.chance.Skewed(kMilli, 500 * kMilli),
            {Deed::What::kAttend, local_rank, rank.number});
    }
    if (std::exchange(start_hangs_, false)) {
      HangNow(
          local_rank, 0,
          world_.now() + world_.chance.Between(100 * kMilli, kStartHangsMax));
    }
  }
}

void Ranks::Abort(const AbortRanks& abort) {
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (!rank.attends || rank.ended || rank.waits) continue;
    if (rank.generation != abort.generation) continue;
    // A rank that hangs in the kernel or in a collective never answers.
    if (world_.chance.OneIn(10)) continue;
    Later(world_.chance.Skewed(kMilli, kSecond),
          {Deed::What::kTearDown, i, rank.number, abort.generation});
  }
}

void Ranks::Stop(const StopRanks& stop) {
  const Nanos grace = ToNanos(stop.grace);
  for (const RankIncarnation& incarnation : stop.ranks) {
    Rank* rank = Find(incarnation);
    if (rank == nullptr) {
      feed_(RanksGone{{incarnation}});
      continue;
    }
    const uint32_t local_rank = incarnation.local_rank;
    if (rank->ended) {
      rank->stopping = true;
      // The processes that the rank has started end after it.
      Later(world_.chance.Skewed(kMilli, kSecond),
            {Deed::What::kGone, local_rank, rank->number});
      continue;
    }
    // Most ranks end when they are told to; some have to be killed.
    const Nanos takes =
        world_.chance.OneIn(4) || rank->hung != Hung::kNot
            ? grace
            : std::min(grace, world_.chance.Skewed(kMilli, kSecond));
    rank->stopping = true;
    rank->kill_at = std::min(rank->kill_at, world_.now() + grace);
    if (world_.now() + takes >= rank->die_at) continue;
    rank->die_at = world_.now() + takes;
    Later(takes, {Deed::What::kDie, local_rank, rank->number});
  }
}

// The signal ends a plain rank sooner or later. Some save and exit 0.
void Ranks::Signal(const PassSignal& pass) {
  for (const RankIncarnation& incarnation : pass.ranks) {
    const Rank* rank = Find(incarnation);
    if (rank == nullptr || rank->ended) continue;
    const bool saves = world_.chance.OneIn(3);
    Later(world_.chance.Skewed(kMilli, 3 * kSecond),
          {Deed::What::kSignalled, incarnation.local_rank, rank->number, 0, 0,
           saves ? 0 : pass.signal});
  }
}

void Ranks::Tell(const TellNotice& notice) {
  noticed_ = std::max(noticed_, notice.notice.generation());
}

void Ranks::Look(const LookAtRank& look) {
  const Rank* rank = Find(look.incarnation);
  if (rank == nullptr)
    return feed_(RankLooked{look.incarnation, false, "gone"});
  const uint32_t local_rank = look.incarnation.local_rank;
  Later(world_.chance.Skewed(kMilli, 4 * kSecond),
        {Deed::What::kLooked, local_rank, rank->number});
  if (!rank->attends || world_.chance.OneIn(20)) return;
  Later(world_.chance.Skewed(kMilli, 3 * kSecond),
        {Deed::What::kHere, local_rank, rank->number, look.generation});
}

// --- Faults ------------------------------------------------------------------

void Ranks::Fail(uint32_t local_rank, int code, int signal) {
  const Rank& rank = ranks_[local_rank % ranks_.size()];
  if (rank.number == 0 || rank.ended || rank.stopping) return;
  Later(world_.chance.Between(0, 300 * kMilli),
        {Deed::What::kEnd, local_rank % static_cast<uint32_t>(ranks_.size()),
         rank.number, 0, code, signal});
}

void Ranks::Hang(uint32_t local_rank, uint64_t step, Nanos until) {
  local_rank %= static_cast<uint32_t>(ranks_.size());
  Rank& rank = ranks_[local_rank];
  if (rank.number == 0 || rank.ended || rank.stopping || rank.waits ||
      (linked_ && !rank.attends) || rank.hung != Hung::kNot) {
    return;
  }
  HangNow(local_rank, step, until);
}

void Ranks::HangNow(uint32_t local_rank, uint64_t step, Nanos until) {
  Rank& rank = ranks_[local_rank];
  rank.hung = static_cast<Hung>(1 + world_.chance.Below(3));
  world_.Trace("local rank ", local_rank, " of machine ", machine_,
               " stands still after step ", step);
  if (until == kNever) return;
  Later(until - world_.now(), {Deed::What::kGoesOn, local_rank, rank.number});
}

void Ranks::Stick(uint32_t local_rank, Nanos until) {
  local_rank %= static_cast<uint32_t>(ranks_.size());
  Rank& rank = ranks_[local_rank];
  if (rank.number == 0 || rank.ended || rank.hung != Hung::kNot) return;
  rank.hung = Hung::kInKernel;
  world_.Trace("local rank ", local_rank, " of machine ", machine_,
               " cannot be killed");
  Later(until - world_.now(), {Deed::What::kGoesOn, local_rank, rank.number});
}

void Ranks::Finish(uint64_t generation) {
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    // A rank that waits goes on first, and then ends.
    if (ranks_[i].waits || ranks_[i].generation != generation) continue;
    Later(world_.chance.Skewed(kMilli, kSecond),
          {Deed::What::kEnd, i, ranks_[i].number});
  }
}

void Ranks::EndBy(Nanos when) {
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (rank.number == 0) continue;
    rank.stopping = true;
    rank.die_at = when;
    Later(when - world_.now(), {Deed::What::kGone, i, rank.number});
  }
}

void Ranks::Clear() {
  counts_.clear();
  for (Rank& rank : ranks_) rank = Rank();
}

// --- Deeds -------------------------------------------------------------------

void Ranks::Later(Nanos after, Deed deed) {
  deeds_.push_back(deed);
  world_.Schedule(world_.now() + after, Wake::Kind::kRankActs, machine_,
                  deeds_.size() - 1);
}

// Whether a rank that hangs acts only after it goes on.
bool Ranks::Awaits(Deed::What what, Hung hung) {
  switch (what) {
    case Deed::What::kAttend:
    case Deed::What::kCounts:
    case Deed::What::kSignalled:
    case Deed::What::kTearDown:
    case Deed::What::kAtBoundary:
      return true;
    case Deed::What::kEnd:
      return hung != Hung::kStopped;
    case Deed::What::kDie:
      return hung == Hung::kInKernel;
    default:
      return false;
  }
}

v1::NcclPlace Ranks::NcclOf(const Rank& rank) {
  switch (rank.hung) {
    case Hung::kBehind:
      return v1::NCCL_PLACE_BEHIND;
    case Hung::kNot:
    case Hung::kWithAll:
      return v1::NCCL_PLACE_WAITS;
    default:
      return v1::NCCL_PLACE_UNSPECIFIED;
  }
}

void Ranks::OnDeed(uint64_t number) {
  const Deed deed = deeds_[number];
  Rank& rank = ranks_[deed.local_rank];
  if (deed.number == 0 || rank.number != deed.number) return;
  if (rank.hung != Hung::kNot && Awaits(deed.what, rank.hung)) {
    return Later(100 * kMilli, deed);
  }
  switch (deed.what) {
    case Deed::What::kGoesOn:
      rank.hung = Hung::kNot;
      return;
    case Deed::What::kLooked:
      return feed_(RankLooked{{rank.born, deed.local_rank},
                              rank.hung == Hung::kStopped,
                              "as it looks",
                              NcclOf(rank)});
    case Deed::What::kHere: {
      if (rank.ended || rank.hung == Hung::kStopped ||
          rank.hung == Hung::kInKernel) {
        return;
      }
      const bool behind = rank.hung == Hung::kBehind;
      return feed_(RankIsHere{deed.generation, deed.local_rank,
                              rank.completed + (behind ? 0 : 1),
                              rank.completed});
    }
    case Deed::What::kAttend:
      if (rank.ended) return;
      rank.attends = true;
      rank.counts_left = kCountsMax;
      CountLater(deed.local_rank);
      return feed_(RankAttended{rank.generation, deed.local_rank, true});
    case Deed::What::kCounts:
      if (rank.generation == deed.generation) Count(deed.local_rank);
      return;
    case Deed::What::kEnd:
      if (!rank.stopping) End(deed.local_rank, deed.code, deed.signal);
      return;
    case Deed::What::kSignalled:
      // A rank that has attended meanwhile handles the signal and does not die
      // of it.
      if (!rank.stopping && !rank.attends) {
        End(deed.local_rank, deed.code, deed.signal);
      }
      return;
    case Deed::What::kDie:
      if (world_.now() < rank.die_at) return;
      return End(deed.local_rank, 0,
                 world_.now() >= rank.kill_at ? SIGKILL : SIGTERM);
    case Deed::What::kGone:
      return Gone(deed.local_rank);
    case Deed::What::kTearDown:
      if (rank.ended || rank.stopping || rank.waits ||
          rank.generation != deed.generation) {
        return;
      }
      rank.waits = true;
      return feed_(RankWaits{rank.generation, deed.local_rank, rank.completed,
                             rank.whole});
    case Deed::What::kAtBoundary:
      if (rank.ended || rank.stopping || rank.waits ||
          rank.generation != deed.generation) {
        return;
      }
      // The rank reports it over its link, once it has one.
      if (!rank.attends) return Later(100 * kMilli, deed);
      return feed_(RankAtBoundary{rank.generation, deed.local_rank});
  }
}

void Ranks::CountLater(uint32_t local_rank) {
  Rank& rank = ranks_[local_rank];
  if (rank.counts_left-- <= 0) return;
  Later(world_.chance.Skewed(10 * kMilli, 5 * kSecond),
        {Deed::What::kCounts, local_rank, rank.number, rank.generation});
}

void Ranks::Count(uint32_t local_rank) {
  const Rank& rank = ranks_[local_rank];
  if (rank.ended || rank.stopping || rank.waits) return;
  World::Counter& counter = world_.counters[rank.generation];
  ++counter.asked;
  counts_[++last_ticket_] = {local_rank, rank.number, rank.generation,
                             counter.seen};
  RankAsksStore asks{rank.generation, last_ticket_, {}};
  asks.operation.set_kind(v1::STORE_KIND_ADD);
  asks.operation.set_key("count");
  asks.operation.set_delta(1);
  feed_(std::move(asks));
}

std::optional<Ranks::Counted> Ranks::Answer(const AnswerStore& answer) {
  const auto at = counts_.find(answer.ticket);
  if (at == counts_.end()) return std::nullopt;
  const Counts counts = at->second;
  counts_.erase(at);
  const Rank& rank = ranks_[counts.local_rank];
  if (rank.number == counts.number && rank.generation == counts.generation) {
    CountLater(counts.local_rank);
  }
  return Counted{counts.generation, counts.seen, answer.result.number()};
}

void Ranks::End(uint32_t local_rank, int code, int signal) {
  Rank& rank = ranks_[local_rank];
  if (rank.ended) return;
  rank.ended = true;
  const bool last =
      std::all_of(ranks_.begin(), ranks_.end(),
                  [](const Rank& r) { return r.number == 0 || r.ended; });
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].number == 0 ||
        !(last || (i == local_rank && rank.stopping))) {
      continue;
    }
    Later(world_.chance.Skewed(kMilli, 50 * kMilli),
          {Deed::What::kGone, i, ranks_[i].number});
  }
  RankEnded ended;
  ended.generation = rank.born;
  ended.local_rank = local_rank;
  ended.code = code;
  ended.signal = signal;
  feed_(std::move(ended));
}

void Ranks::Gone(uint32_t local_rank) {
  const RankIncarnation incarnation{ranks_[local_rank].born, local_rank};
  ranks_[local_rank] = Rank();
  feed_(RanksGone{{incarnation}});
}

Ranks::Rank* Ranks::Find(const RankIncarnation& incarnation) {
  Rank& rank = ranks_[incarnation.local_rank];
  return rank.number != 0 && rank.born == incarnation.generation ? &rank
                                                                 : nullptr;
}

// --- Calls of the trainer ----------------------------------------------------

uint64_t Ranks::running() const {
  const uint64_t generation = ranks_.front().generation;
  const bool all =
      std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
        return rank.number != 0 && !rank.ended && !rank.stopping &&
               !rank.waits && !rank.at_boundary &&
               rank.generation == generation;
      });
  return all ? generation : 0;
}

bool Ranks::hung() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.hung != Hung::kNot; });
}

bool Ranks::has_begun(uint32_t local_rank) const {
  const Rank& rank = ranks_[local_rank];
  return linked_ ? rank.attends : rank.hung == Hung::kNot;
}

bool Ranks::noticed(uint64_t generation) const {
  return linked_ && noticed_ == generation &&
         std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.attends; });
}

void Ranks::StandAtBoundary(uint64_t generation) {
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (rank.number == 0 || rank.generation != generation) continue;
    rank.at_boundary = true;
    Later(world_.chance.Skewed(kMilli, 200 * kMilli),
          {Deed::What::kAtBoundary, i, rank.number, generation});
  }
}

void Ranks::Completed(uint64_t step) {
  for (Rank& rank : ranks_) {
    rank.completed = step;
    rank.whole = true;
  }
}

uint64_t Ranks::completed() const {
  uint64_t most = 0;
  for (const Rank& rank : ranks_) most = std::max(most, rank.completed);
  return most;
}

uint64_t Ranks::busy_in() const {
  uint64_t newest = 0;
  for (const Rank& rank : ranks_) {
    const bool busy = rank.number != 0 && !rank.ended && !rank.waits;
    if (busy) newest = std::max(newest, rank.generation);
  }
  return newest;
}

bool Ranks::any() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.number != 0; });
}

bool Ranks::any_busy() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return rank.number != 0 && !(rank.waits && !rank.ended);
  });
}

}  // namespace rollcall::sim
