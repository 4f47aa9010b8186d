// Journal entries and the states that they leave, shared by the tests of all
// journals.
#ifndef ROLLCALL_TESTS_UNIT_JOURNAL_JOURNAL_ENTRIES_H_
#define ROLLCALL_TESTS_UNIT_JOURNAL_JOURNAL_ENTRIES_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/journal/journal.h"

namespace rollcall {

using Kind = Journal::Kind;

inline const absl::Time kThen = absl::FromUnixSeconds(1'700'000'000);

inline JournalEntry Entry(Kind kind, uint64_t generation, std::string body = "",
                          std::string job = "j", std::string run = "r1") {
  return {std::move(job), std::move(run), {kind, generation, std::move(body)}};
}

inline std::string Settings(uint32_t nodes) {
  v1::JobSettings settings;
  settings.set_nodes_min(nodes);
  settings.set_nodes_max(nodes);
  return settings.SerializeAsString();
}
inline std::string ProposalOf(uint64_t generation,
                              std::string world = std::string("w\0rld", 5)) {
  v1::Proposal proposal;
  proposal.set_generation(generation);
  proposal.set_world(std::move(world));
  return proposal.SerializeAsString();
}
inline std::string WorldCommitOf(uint64_t generation) {
  v1::WorldCommit world_commit;
  world_commit.set_generation(generation);
  world_commit.set_master_port(1234);
  return world_commit.SerializeAsString();
}
inline std::string ReformOf(v1::ReasonCode code, uint32_t charged) {
  v1::Reform reform;
  reform.set_code(code);
  reform.set_restarts_charged(charged);
  return reform.SerializeAsString();
}
inline std::string EndOf(int exit_code) {
  v1::End end;
  end.set_exit_code(exit_code);
  return end.SerializeAsString();
}
inline std::string LeavingOf(const std::string& node) {
  v1::Notice leaving;
  leaving.add_nodes(node);
  return leaving.SerializeAsString();
}
inline std::string FinishedOf(uint32_t node_rank) {
  v1::FinishedNodes finished;
  finished.add_node_ranks(node_rank);
  return finished.SerializeAsString();
}

inline v1::NodeEpoch EpochRow(const std::string& node, uint64_t epoch,
                              const std::string& token_id) {
  v1::NodeEpoch row;
  row.set_node(node);
  row.set_epoch(epoch);
  row.set_token_id(token_id);
  return row;
}
inline std::string EpochsBody(std::vector<v1::NodeEpoch> nodes,
                              uint64_t floor = 0, bool whole = false) {
  v1::NodeEpochs epochs;
  epochs.set_floor(floor);
  epochs.set_whole(whole);
  for (v1::NodeEpoch& node : nodes) *epochs.add_nodes() = std::move(node);
  return epochs.SerializeAsString();
}

inline void MustAppend(JournalStore& journal,
                       std::vector<JournalEntry> entries) {
  const absl::Status status = journal.Append(entries, kThen);
  ASSERT_TRUE(status.ok()) << status;
}

// Returns what a state has, such as "r1 g2 proposed2 sealed2". Absent parts are
// left out.
inline std::string Text(const JournalState& state) {
  std::string text = absl::StrCat(state.run, " g", state.generation);
  const auto add = [&text](const char* word, const auto& message,
                           const auto& value) {
    if (message.has_value()) absl::StrAppend(&text, " ", word, value(*message));
  };
  const auto generation = [](const auto& message) {
    return absl::StrCat(message.generation());
  };
  const auto ranks = [](const v1::FinishedNodes& finished) {
    return absl::StrJoin(finished.node_ranks(), ",");
  };
  add("proposed", state.proposal, generation);
  add("sealed", state.world_commit, generation);
  add("finished:", state.finished, ranks);
  add("leaving:", state.leaving, [](const v1::Notice& leaving) {
    return absl::StrJoin(leaving.nodes(), ",");
  });
  add("ran", state.ran_proposal, generation);
  add("ran_sealed", state.ran_world_commit, generation);
  add("ran_finished:", state.ran_finished, ranks);
  if (state.restarts_charged != 0) {
    absl::StrAppend(&text, " charged", state.restarts_charged);
  }
  const v1::NodeEpochs epochs = state.node_epochs.Whole();
  for (const v1::NodeEpoch& node : epochs.nodes()) {
    absl::StrAppend(&text, " ", node.node(), "=", node.epoch(), "/",
                    node.token_id());
  }
  if (epochs.floor() != 0) absl::StrAppend(&text, " floor", epochs.floor());
  add("end", state.end, [](const v1::End& end) { return end.exit_code(); });
  return text;
}

// Returns "" if there is no such run.
inline std::string StateIn(JournalStore& journal, const std::string& job) {
  const auto run = journal.Load(job);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() && run->has_value() ? Text((*run)->state) : "";
}

// Writes a run entry by entry, each with a newly opened journal, and expects
// the state that each entry leaves. `open` returns a pointer to a journal.
template <typename Open>
void ExpectEachStepLeavesItsState(const Open& open) {
  struct Row {
    JournalEntry entry;
    const char* expect;
    absl::StatusCode code = absl::StatusCode::kOk;
  };
  const auto ended = [](uint64_t generation, v1::ReasonCode code,
                        uint32_t charged) {
    return Entry(Kind::kEnded, generation, ReformOf(code, charged));
  };
  const Row kRows[] = {
      {Entry(Kind::kProposed, 1, ProposalOf(1)), "",
       absl::StatusCode::kFailedPrecondition},
      {Entry(Kind::kRunStarted, 0, Settings(2)), "r1 g0"},
      {Entry(Kind::kProposed, 1, ProposalOf(1)), "r1 g1 proposed1"},
      // The proposal was superseded before it was committed.
      {Entry(Kind::kProposed, 2, ProposalOf(2)), "r1 g2 proposed2"},
      {Entry(Kind::kCommitted, 1, WorldCommitOf(1)), "r1 g2 proposed2",
       absl::StatusCode::kFailedPrecondition},
      {Entry(Kind::kCommitted, 2, WorldCommitOf(2)), "r1 g2 proposed2 sealed2"},
      {Entry(Kind::kFinished, 2, "\xff"), "r1 g2 proposed2 sealed2",
       absl::StatusCode::kInvalidArgument},
      {Entry(Kind::kFinished, 2, FinishedOf(1)),
       "r1 g2 proposed2 sealed2 finished:1"},
      {Entry(Kind::kLeaving, 2, LeavingOf("b")),
       "r1 g2 proposed2 sealed2 finished:1 leaving:b"},
      {ended(2, v1::REASON_CODE_LOST_LEASE, 0),
       "r1 g2 leaving:b ran2 ran_sealed2 ran_finished:1"},
      {Entry(Kind::kLeaving, 2, ""),
       "r1 g2 leaving: ran2 ran_sealed2 ran_finished:1"},
      // A proposal that is not committed does not replace the world that ran.
      {Entry(Kind::kProposed, 3, ProposalOf(3)),
       "r1 g3 proposed3 leaving: ran2 ran_sealed2 ran_finished:1"},
      {ended(3, v1::REASON_CODE_RANK_EXIT, 1),
       "r1 g3 leaving: ran2 ran_sealed2 ran_finished:1 charged1"},
      {Entry(Kind::kFenceOpen, 3), "r1 g3 leaving: charged1"},
      {Entry(Kind::kProposed, 4, ProposalOf(4)),
       "r1 g4 proposed4 leaving: charged1"},
      {Entry(Kind::kCommitted, 4, WorldCommitOf(4)),
       "r1 g4 proposed4 sealed4 leaving: charged1"},
      {ended(4, v1::REASON_CODE_HANG, 2),
       "r1 g4 leaving: ran4 ran_sealed4 charged2"},
      {Entry(Kind::kProposed, 5, ProposalOf(5)),
       "r1 g5 proposed5 leaving: ran4 ran_sealed4 charged2"},
      {Entry(Kind::kCommitted, 5, WorldCommitOf(5)),
       "r1 g5 proposed5 sealed5 leaving: charged2"},
      // Progress, or a blamed node, has given charges back.
      {ended(5, v1::REASON_CODE_RANK_EXIT, 1),
       "r1 g5 leaving: ran5 ran_sealed5 charged1"},
      {Entry(Kind::kNodeEpochs, 0,
             EpochsBody({EpochRow("a", 0, "t1"), EpochRow("b", 3, "t2")})),
       "r1 g5 leaving: ran5 ran_sealed5 charged1 a=0/t1 b=3/t2"},
      {Entry(Kind::kNodeEpochs, 0, EpochsBody({EpochRow("a", 1, "t1")})),
       "r1 g5 leaving: ran5 ran_sealed5 charged1 a=1/t1 b=3/t2"},
      {Entry(Kind::kNodeEpochs, 0,
             EpochsBody({EpochRow("a", 1, "t1")}, 4, true)),
       "r1 g5 leaving: ran5 ran_sealed5 charged1 a=1/t1 floor4"},
      {Entry(Kind::kRunEnded, 5, EndOf(3)),
       "r1 g5 charged1 a=1/t1 floor4 end3"},
      // The job name is used again.
      {Entry(Kind::kRunStarted, 0, Settings(2), "j", "r2"), "r2 g0"},
      {Entry(Kind::kRunEnded, 0, EndOf(0)), "r2 g0",
       absl::StatusCode::kFailedPrecondition},
  };
  for (const Row& row : kRows) {
    const auto journal = open();
    ASSERT_NE(journal, nullptr);
    const std::vector<JournalEntry> entries = {row.entry};
    EXPECT_EQ(journal->Append(entries, kThen).code(), row.code) << row.expect;
    EXPECT_EQ(StateIn(*journal, "j"), row.expect);
  }
  const auto journal = open();
  ASSERT_NE(journal, nullptr);
  EXPECT_EQ(StateIn(*journal, "j"), std::end(kRows)[-1].expect);
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_JOURNAL_JOURNAL_ENTRIES_H_
