#include "tests/fuzz/cores/agent_rig.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/agent/node_files/rank_environment.h"
#include "client/agent/node_files/world_files.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/admission/grammar.h"
#include "tests/fuzz/oracle.h"

namespace rollcall {
namespace {

uint64_t GenerationOf(const v1::DaemonMessage& message) {
  if (message.has_proposal()) return message.proposal().generation();
  if (message.has_abort()) return message.abort().generation();
  return message.commit().generation();
}

}  // namespace

AgentRig::AgentRig(const v1::Hello& hello)
    : hello_(hello), agent_(hello, absl::Minutes(10), Limits(), now_) {
  Carry(agent_.Start());
}

// --- Events ------------------------------------------------------------------

void AgentRig::StreamUp() {
  if (stream_ != Stream::kDialing) return;
  stream_ = Stream::kUp;
  greeted_ = welcomed_ = false;
  Step(rollcall::StreamUp{});
  Expect(greeted_ || exited_, "Hello is said first of all");
}

void AgentRig::StreamDown(const absl::Status& status,
                          std::optional<v1::Refusal> refusal) {
  if (stream_ == Stream::kNone) return;
  stream_ = Stream::kNone;
  rollcall::StreamDown down;
  down.status = status;
  down.refusal = std::move(refusal);
  down.fresh_incarnation = 77;
  Step(down);
}

void AgentRig::FromDaemon(v1::DaemonMessage message) {
  if (stream_ != Stream::kUp) return;
  odd_generation_ |= !AdmitGeneration("generation", GenerationOf(message)).ok();
  if (message.has_commit()) committed_.insert(message.commit().generation());
  welcomed_ |= message.has_welcome();
  Step(rollcall::FromDaemon{std::move(message)});
}

void AgentRig::PreparationDone(rollcall::PreparationDone done) {
  if (preparing_ == 0) return;
  done.generation = preparing_;
  Step(done);
}

void AgentRig::PreparationFailed(const std::string& reason) {
  if (preparing_ == 0) return;
  Step(rollcall::PreparationFailed{std::exchange(preparing_, 0), reason});
}

void AgentRig::RankEnded(rollcall::RankEnded ended) {
  ended.local_rank %= hello_.ranks();
  const auto at = living_.find(ended.local_rank);
  if (at == living_.end()) return;
  ended.generation = at->second;
  waiting_.erase(ended.local_rank);
  Step(ended);
}

void AgentRig::RanksGone() {
  rollcall::RanksGone gone;
  for (const auto& [local_rank, born] : living_) {
    if (!waiting_.contains(local_rank))
      gone.ranks.push_back({born, local_rank});
  }
  if (gone.ranks.empty()) return;
  for (const RankIncarnation& incarnation : gone.ranks)
    living_.erase(incarnation.local_rank);
  Step(gone);
}

void AgentRig::Attended(uint32_t local_rank, bool elastic) {
  local_rank %= hello_.ranks();
  if (running_ != 0) Step(RankAttended{running_, local_rank, elastic});
}

void AgentRig::Unlinked(uint32_t local_rank) {
  waiting_.erase(local_rank % hello_.ranks());
  Step(RankUnlinked{local_rank % hello_.ranks()});
}

void AgentRig::Waits(uint32_t local_rank, uint64_t step, bool whole) {
  local_rank %= hello_.ranks();
  if (running_ != 0 || aborted_ == 0 || !living_.contains(local_rank)) return;
  // The agent may not accept the wait (a plain rank, or too late). Then it
  // stops the rank.
  waiting_.insert(local_rank);
  Step(RankWaits{aborted_, local_rank, step, whole});
}

void AgentRig::AtBoundary(uint32_t local_rank) {
  Step(RankAtBoundary{running_, local_rank % hello_.ranks()});
}

void AgentRig::AskedToLeave(uint32_t local_rank) {
  Step(RankAskedToLeave{local_rank % hello_.ranks()});
}

void AgentRig::Exchanged(uint32_t local_rank, const std::string& key,
                         const std::string& value) {
  Step(RankExchanged{running_, local_rank, key, value});
}

void AgentRig::Progressed(uint32_t local_rank, uint64_t step) {
  Step(RankProgressed{running_, step, local_rank % hello_.ranks()});
}

void AgentRig::Here(uint64_t entered, uint64_t left, bool counts) {
  if (!looked_at_.has_value()) return;
  RankIsHere here{
      looked_at_->generation, looked_at_->incarnation.local_rank, {}, {}};
  if (counts) {
    here.collective_entered = entered;
    here.collective_left = left;
  }
  Step(here);
}

void AgentRig::Looked(bool stopped, const std::string& text) {
  if (!looked_at_.has_value()) return;
  Step(RankLooked{looked_at_->incarnation, stopped, text});
}

void AgentRig::Signal(int signal, bool leave) {
  if (leave) return Step(LeaveAsked{signal});
  Step(SignalCame{signal});
}

void AgentRig::Tick() { Step(AgentTick{}); }

void AgentRig::Step(const AgentEvent& event) {
  Carry(agent_.Step(event, now_));
  agent_.NextDeadline();
}

// --- Actions -----------------------------------------------------------------

void AgentRig::Carry(const std::vector<AgentAction>& actions) {
  for (const AgentAction& action : actions) {
    Expect(!exited_, "Exit comes last");
    std::visit([this](const auto& a) { Take(a); }, action);
  }
}

void AgentRig::Take(const Dial&) {
  Expect(stream_ == Stream::kNone, "at most one Dial is under way");
  stream_ = Stream::kDialing;
}

void AgentRig::Take(const Say& say) {
  const v1::AgentMessage& m = say.message;
  Expect(stream_ == Stream::kUp, "it speaks on an open stream",
         m.ShortDebugString());
  Expect(m.has_hello() == !greeted_, "Hello comes first and once",
         m.ShortDebugString());
  greeted_ = true;
  if (m.has_stopped()) {
    Expect(Settled(), "Stopped while ranks live", m.ShortDebugString());
  }
  if (m.has_prepared()) {
    Expect(Settled(), "Prepared while ranks of an older generation live",
           m.ShortDebugString());
    prepared_said_ = m.prepared().generation();
  }
  if (m.has_hello()) return;
  Expect(welcomed_, "nothing but Hello before Welcome", m.ShortDebugString());
  if (odd_generation_) return;
  const absl::Status admitted = AdmitMessage(m);
  Expect(admitted.ok(), "a daemon admits what an agent says",
         std::string(admitted.message()));
}

void AgentRig::Take(const Prepare& prepare) {
  const uint64_t generation = prepare.world.generation();
  Expect(generation > prepared_for_, "generations only grow: Prepare");
  prepared_for_ = preparing_ = generation;
  // The world is written into the hosts file.
  ExpectPrintable(prepare.world);
  const auto members = static_cast<uint32_t>(prepare.world.members_size());
  Expect(
      prepare.node_rank < members &&
          prepare.world.members(static_cast<int>(prepare.node_rank)).node() ==
              hello_.node(),
      "Prepare names this node's own row");
}

void AgentRig::Take(const Undo& undo) {
  if (preparing_ == undo.generation) preparing_ = 0;
}

void AgentRig::Take(const StartRanks& start) {
  const uint64_t generation = start.world.generation();
  Expect(Settled(), "ranks are started where none live but those that wait");
  Expect(generation == prepared_said_ && committed_.contains(generation) &&
             generation == start.world_commit.generation(),
         "ranks are started after Prepared and Commit of their generation");
  Expect(start.fresh.size() + start.waiting.size() == hello_.ranks(),
         "all ranks of the node get the world");
  for (const RankIncarnation& incarnation : start.waiting) {
    Expect(Lives(incarnation), "who is given a world lives");
  }
  for (const uint32_t local_rank : start.fresh) {
    Expect(living_.emplace(local_rank, generation).second,
           "who is started does not live");
  }
  waiting_.clear();
  prepared_said_ = preparing_ = 0;
  running_ = generation;
  CheckFiles(start);
}

// Checks what the ranks get: a hostile daemon must not be able to add a line or
// a variable of its own.
void AgentRig::CheckFiles(const StartRanks& start) {
  ExpectPrintable(start.world);
  ExpectPrintable(start.world_commit);
  const RankFiles files = NameRankFiles("/run/r", "/run/r/s", start.world,
                                        start.world_commit, start.node_rank);
  for (uint32_t i = 0; i < hello_.ranks(); ++i) {
    const std::vector<std::string> environment =
        RankEnvironment({"PATH=/bin"}, NetworkOptions(), files, start.world,
                        start.world_commit, start.node_rank, i);
    for (const std::string& entry : environment) {
      ExpectPrintable("a rank's environment", entry);
    }
  }
  Expect(!nlohmann::json::parse(WorldJson(start.world, start.world_commit),
                                nullptr, false)
              .is_discarded(),
         "the world file is JSON");
  const std::string hostfile = HostfileText(start.world);
  ExpectPrintable("the hostfile", hostfile, /*multiline=*/true);
  Expect(std::count(hostfile.begin(), hostfile.end(), '\n') <=
             start.world.members_size(),
         "the hostfile has a line a node at most", hostfile);
  NcclIdText(start.world_commit);
}

bool AgentRig::Lives(const RankIncarnation& incarnation) const {
  const auto at = living_.find(incarnation.local_rank);
  return at != living_.end() && at->second == incarnation.generation;
}

void AgentRig::Take(const AbortRanks& abort) {
  Expect(running_ == abort.generation, "what runs is aborted");
  ExpectPrintable("why a generation ends", abort.reason);
  aborted_ = std::exchange(running_, 0);
  waiting_.clear();
}

void AgentRig::Take(const StopRanks& stop) {
  Expect(!stop.ranks.empty(), "somebody is stopped");
  for (const RankIncarnation& incarnation : stop.ranks) {
    Expect(Lives(incarnation), "ranks that live are stopped");
    waiting_.erase(incarnation.local_rank);
  }
}

void AgentRig::Take(const PassSignal& pass) {
  Expect(!pass.ranks.empty(), "somebody is signalled");
  for (const RankIncarnation& incarnation : pass.ranks) {
    Expect(Lives(incarnation), "signals are passed to ranks that live");
  }
}

void AgentRig::Take(const TellNotice& tell) {
  Expect(running_ == tell.notice.generation(), "who runs is given notice");
  ExpectPrintable("why there is a notice", tell.notice.reason());
}

void AgentRig::Take(const LookAtRank& look) {
  Expect(look.generation == running_ && Lives(look.incarnation),
         "who is looked at lives in the world that runs");
  looked_at_ = look;
}

void AgentRig::Take(const RunChecks& run) {
  ChecksDone done;
  done.report.set_request(run.request);
  Step(done);
}

void AgentRig::Take(const RunProbe& run) {
  ProbeDone done;
  done.probed.set_probe(run.probe.probe());
  Step(done);
}

void AgentRig::Take(const RunGroupCheck& run) {
  if (!run.check.has_value()) return;
  GroupCheckSaid said;
  said.message.mutable_group_checked()->set_round(run.check->round());
  said.message.mutable_group_checked()->set_error("not checked");
  Step(said);
}

void AgentRig::Take(const AnswerExchange& answer) {
  ExpectPrintable("an exchange's error", answer.exchange.error());
}

void AgentRig::Take(const AnswerStore& answer) {
  ExpectPrintable("an error of the store", answer.result.error());
}

void AgentRig::Take(const FailRequests& fail) {
  ExpectPrintable("why exchanges fail", fail.reason);
}

void AgentRig::Take(const Report& report) {
  ExpectPrintable("a report", report.text);
}

void AgentRig::Take(const Exit& exit) {
  Expect(living_.empty(), "Exit while ranks live");
  exited_ = true;
  ExpectPrintable("why it exits", exit.reason);
  if (exit.end.has_value()) ExpectPrintable(*exit.end);
}

}  // namespace rollcall
