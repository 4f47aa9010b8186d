// Part of InvariantChecker: what is journaled before it is sent, and what the
// next daemon restores from it.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/core/formation/world.h"
#include "tests/sim/checker/invariant_checker.h"

namespace rollcall::sim {

void InvariantChecker::OnJournal(const Journal& entry, absl::Time now) {
  if (end_journaled_) {
    Broken(Invariant::kJournalFirst, "an entry after the run's end");
  }
  if (entry.kind == Journal::Kind::kRunStarted) {
    adopts_ = !told_.empty();
    return;
  }
  if (entry.kind == Journal::Kind::kProposed && adopts_) {
    v1::Proposal proposal;
    CHECK(proposal.ParseFromString(entry.body));
    if (told_[proposal.generation()].world != proposal.world()) {
      Broken(Invariant::kOneWorld, "an adopted world is none that was told");
    }
    const auto world = DecodeWorld(proposal.world());
    if (world.ok()) restarts_.Set(world->restarts_charged());
    CheckAdoption(proposal);
    proposed_ = proposal.generation();
    open_ = true;
  } else if (entry.kind == Journal::Kind::kProposed) {
    const uint64_t before = std::max(proposed_, HighestTold(entry.generation));
    if (entry.generation <= before) {
      Broken(Invariant::kSurvives,
             absl::StrCat("generation ", entry.generation,
                          " is proposed; generation ", before,
                          " was proposed or told before"));
    }
    if (seen_ > 0) Tested(Invariant::kSurvives);
    if (entry.generation <= seen_) {
      Broken(
          Invariant::kSurvives,
          absl::StrCat("generation ", entry.generation,
                       " is proposed; an agent that attends has seen ", seen_));
    }
    proposed_ = entry.generation;
    open_ = true;
  } else if (entry.kind == Journal::Kind::kCommitted) {
    v1::WorldCommit world_commit;
    CHECK(world_commit.ParseFromString(entry.body));
    if (adopts_ &&
        told_[world_commit.generation()].world_commit != entry.body) {
      Broken(Invariant::kOneWorld,
             "an adopted world commit is none that was told");
    }
    adopts_ = false;
    committed_ = world_commit.generation();
  } else if (entry.kind == Journal::Kind::kEnded) {
    OnGenerationEnded(entry, now);
    open_ = false;
  } else if (entry.kind == Journal::Kind::kRunEnded) {
    end_journaled_ = true;
    v1::End end;
    CHECK(end.ParseFromString(entry.body));
    Tested(Invariant::kReasons);
    if (end.code() == v1::REASON_CODE_UNSPECIFIED || end.reason().empty()) {
      Broken(Invariant::kReasons, end.ShortDebugString());
    }
  }
}

uint64_t InvariantChecker::HighestTold(uint64_t generation) const {
  const uint64_t run = generation / kGenerationsARun;
  auto at = told_.lower_bound((run + 1) * kGenerationsARun);
  if (at == told_.begin()) return 0;
  --at;
  return at->first / kGenerationsARun == run ? at->first : 0;
}

void InvariantChecker::OnSend(const Send& send, absl::Time now) {
  const v1::DaemonMessage& m = send.message;
  if (m.has_proposal()) {
    if (proposed_ != m.proposal().generation()) {
      Broken(Invariant::kJournalFirst,
             absl::StrCat("proposal ", m.proposal().generation(),
                          " stands before its entry"));
    }
    OnProposal(m.proposal(), now);
  } else if (m.has_commit() && committed_ != m.commit().generation()) {
    Broken(Invariant::kJournalFirst,
           absl::StrCat("commit ", m.commit().generation(),
                        " stands before its entry"));
  } else if (m.has_end() && !end_journaled_ &&
             m.end().code() != v1::REASON_CODE_LEAVING) {
    Broken(Invariant::kJournalFirst, "the end stands before its entry");
  }
}

void InvariantChecker::Sent(const v1::DaemonMessage& m,
                            const JournalState& durable) {
  if (m.has_proposal() || m.has_commit() || m.has_abort() || m.has_end()) {
    Tested(Invariant::kJournalFirst);
  }
  if (m.has_proposal()) {
    const uint64_t generation = m.proposal().generation();
    if (durable.generation < generation) {
      Broken(Invariant::kJournalFirst,
             absl::StrCat("proposal ", generation, " is told, and ",
                          durable.generation, " is durable"));
    }
    Told& told = told_[generation];
    if (told.world.empty()) {
      told.world = m.proposal().world();
    } else {
      Tested(Invariant::kOneWorld);
    }
    if (told.world != m.proposal().world()) {
      Broken(Invariant::kOneWorld,
             absl::StrCat("generation ", generation, " has two worlds"));
    }
  } else if (m.has_commit()) {
    const uint64_t generation = m.commit().generation();
    const bool open = durable.proposal.has_value() &&
                      durable.proposal->generation() == generation;
    if (open && !durable.world_commit.has_value()) {
      Broken(Invariant::kJournalFirst,
             absl::StrCat("commit ", generation, " is told and not durable"));
    }
    Told& told = told_[generation];
    if (told.world_commit.empty()) {
      told.world_commit = m.commit().world_commit();
    } else {
      Tested(Invariant::kOneWorld);
    }
    if (told.world_commit != m.commit().world_commit()) {
      Broken(Invariant::kOneWorld,
             absl::StrCat("generation ", generation, " has two world commits"));
    }
  } else if (m.has_abort()) {
    const auto outsiders = outsiders_.find(m.abort().generation());
    if (outsiders != outsiders_.end() && outsiders->second > 0) {
      --outsiders->second;
    } else if (durable.proposal.has_value() &&
               durable.proposal->generation() == m.abort().generation()) {
      Broken(Invariant::kJournalFirst,
             absl::StrCat("generation ", m.abort().generation(),
                          " is aborted and durably open"));
    }
  } else if (m.has_end() && m.end().code() != v1::REASON_CODE_LEAVING) {
    if (!durable.end.has_value()) {
      return Broken(Invariant::kJournalFirst,
                    "the end is told and not durable");
    }
    ends_told_[durable.run] = *durable.end;
  }
}

void InvariantChecker::Restored(const JournalState& durable) {
  restarts_.Set(durable.restarts_charged);
  // An eviction that never became durable was not answered.
  for (auto at = evicted_.begin(); at != evicted_.end();) {
    const auto& [run, name] = at->first;
    const bool lost =
        run == durable.run && durable.node_epochs.EpochOf(name) < at->second;
    at = lost ? evicted_.erase(at) : std::next(at);
  }
  proposed_ = durable.generation;
  open_ = durable.world_commit.has_value();
  committed_ =
      durable.world_commit.has_value() ? durable.world_commit->generation() : 0;
  end_journaled_ = durable.end.has_value();
  if (durable.end.has_value()) ends_told_[durable.run] = *durable.end;
  // The next daemon knows seats only from the open world, and only if that
  // world was proposed last.
  if (!durable.proposal.has_value() ||
      durable.proposal->generation() != seated_in_) {
    seats_.clear();
  }
  if (durable.proposal.has_value()) {
    const auto world = DecodeWorld(durable.proposal->world());
    // A step that never became durable may have given a seat away.
    for (int i = 0; world.ok() && i < world->members_size(); ++i) {
      seats_.try_emplace(world->members(i).node(),
                         Seat{0, world->members(i).seat()});
    }
  }
  const uint64_t told = HighestTold(durable.generation);
  if (durable.generation < told && !std::exchange(rolled_back_, false)) {
    Broken(Invariant::kSurvives,
           absl::StrCat("generation ", told,
                        " was told, and the daemon goes on from ",
                        durable.generation));
  }
}

void InvariantChecker::TookUp(const Job& job, const JournalState& durable,
                              absl::Time now) {
  Tested(Invariant::kJournalRestores);
  if (durable.generation > 0) Tested(Invariant::kSurvives);
  const uint64_t generation = job.Status(now).generation();
  const uint64_t expected = durable.world_commit.has_value()
                                ? durable.proposal->generation()
                                : durable.generation;
  if (generation != expected || (durable.world_commit.has_value() &&
                                 job.state() != v1::JOB_STATE_RUNNING)) {
    Broken(Invariant::kSurvives,
           absl::StrCat("generation ", durable.generation,
                        durable.world_commit.has_value() ? " is committed" : "",
                        ", and the daemon goes on with ", generation, " ",
                        v1::JobState_Name(job.state())));
  }
}

}  // namespace rollcall::sim
