#include "daemon/journal/fold.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

void DropRan(JournalState& state) {
  state.ran_proposal.reset();
  state.ran_world_commit.reset();
  state.ran_finished.reset();
}

}  // namespace

absl::Status Fold(const Journal& entry, JournalState& state) {
  bool parsed = true;
  switch (entry.kind) {
    case Journal::Kind::kRunStarted:
      // A new run starts from an empty state.
      state = JournalState{.run = std::move(state.run)};
      parsed = state.settings.ParseFromString(entry.body);
      break;
    case Journal::Kind::kProposed:
      state.generation = std::max(state.generation, entry.generation);
      parsed = state.proposal.emplace().ParseFromString(entry.body);
      state.world_commit.reset();
      state.finished.reset();
      break;
    case Journal::Kind::kCommitted:
      if (entry.generation != state.generation) {
        return absl::FailedPreconditionError(
            absl::StrCat("generation ", entry.generation,
                         " cannot be committed: the last proposed one is ",
                         state.generation));
      }
      parsed = state.world_commit.emplace().ParseFromString(entry.body);
      DropRan(state);
      break;
    case Journal::Kind::kEnded: {
      v1::Reform reform;
      parsed = reform.ParseFromString(entry.body);
      if (state.world_commit.has_value()) {
        state.ran_proposal = std::move(state.proposal);
        state.ran_world_commit = std::move(state.world_commit);
        state.ran_finished = std::move(state.finished);
      }
      state.proposal.reset();
      state.world_commit.reset();
      state.finished.reset();
      state.restarts_charged = reform.restarts_charged();
      break;
    }
    case Journal::Kind::kRunEnded:
      state.proposal.reset();
      state.world_commit.reset();
      state.finished.reset();
      state.leaving.reset();
      DropRan(state);
      parsed = state.end.emplace().ParseFromString(entry.body);
      break;
    case Journal::Kind::kLeaving:
      parsed = state.leaving.emplace().ParseFromString(entry.body);
      break;
    case Journal::Kind::kFinished:
      parsed = state.finished.emplace().ParseFromString(entry.body);
      break;
    case Journal::Kind::kFenceOpen:
      DropRan(state);
      break;
    case Journal::Kind::kNodeEpochs: {
      v1::NodeEpochs change;
      parsed = change.ParseFromString(entry.body);
      state.node_epochs.Apply(change);
      break;
    }
  }
  if (parsed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the body of a journal entry of kind ",
                   static_cast<int>(entry.kind), " cannot be read"));
}

}  // namespace rollcall
