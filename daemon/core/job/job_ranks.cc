// Job: what members report of their ranks, and what ranks send each other
// through the daemon.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/core/job/job.h"

namespace rollcall {

void Job::OnHeartbeat(Node& node, const v1::Heartbeat& heartbeat) {
  if (credentials_.IsRenewalDue(node, now_, limits_)) {
    v1::DaemonMessage message;
    message.mutable_new_credential()->set_node_credential(
        credentials_.Issue(node, now_));
    out_.SendTo(node, std::move(message));
  }
  // An agent reports stalled ranks before the first heartbeat of a stream.
  node.tells_until = absl::InfinitePast();
  node.step = std::max(node.step, heartbeat.step());
  const bool current = heartbeat.generation() == generation();
  if (node.node_rank == 0 && heartbeat.has_pace() && current &&
      steps_.TakePace(heartbeat.pace())) {
    out_.Changed();
  }
  // Only for a node that has been in a world: a spare has no ranks.
  if (heartbeat.ranks_link() && node.served_in != 0) {
    NoteStarted(node, FromProto(heartbeat.start_took()));
  }
  // Only for a member: a spare does not train.
  if (!IsRunning() || !node.member() || !current || heartbeat.step() == 0) {
    return;
  }
  // The first step is shown at once; later steps are shown with the next other
  // change.
  if (!hangs_.HasStepped(generation())) out_.Changed();
  NoteStarted(node);
  hangs_.NoteStep(generation());
  const StepAccount::Taken taken =
      steps_.Take(node, heartbeat, world(), membership_, now_);
  for (const Log& line : taken.lines) out_.Say(line.level, line.text);
  if (taken.changed) out_.Changed();
  vetting_.probes().PingOften(steps_.probes_wanted(), now_, limits_);
}

// Ends the node's stream if it names a rank that the node does not have.
bool Job::HasRank(const Node& node, uint32_t local_rank) {
  if (local_rank < node.hello.ranks()) return true;
  out_.Close(node.session, absl::StatusCode::kInvalidArgument,
             v1::REFUSAL_CODE_INVALID,
             absl::StrCat("local rank ", local_rank, " of a node with ",
                          node.hello.ranks(), " ranks"));
  return false;
}

void Job::OnRankExited(Node& node, const v1::RankExited& exited) {
  if (!HasRank(node, exited.local_rank())) return;
  steps_.TakeExit(node, exited);
  // The agent ended the rank, or the rank ended because of a notice. If nothing
  // was asked of the ranks, the rank ended by itself, whatever the agent
  // reports.
  const bool nothing_is_asked = IsRunning() &&
                                exited.generation() == generation() &&
                                !notices_.pending() && !completion_.taken_up();
  if (exited.stopped_by_agent() && !nothing_is_asked) {
    return OnEndedForNotice(node, exited);
  }
  const bool failed = exited.code() != 0 || exited.signal() != 0;
  if (failed) return RankFailed(node, exited);
  if (!IsRunning() || exited.generation() != generation() || !node.member() ||
      node.over(exited.local_rank())) {
    return;
  }
  hangs_.Drop(RankOf(node, exited.local_rank()));
  if (!completion_.RankEnded(node, exited.local_rank())) return;
  node.state = StateByPhase(node);
  out_.Changed();
  if (completion_.all()) return FinishAll();
  completion_.Finished(node, now_);
  AtBoundary(node);
  if (!IsRunning()) return;  // This was the last member to reach the boundary.
  if (waiting_.due() == absl::InfiniteFuture()) {
    waiting_.TellAt(now_ + absl::Minutes(1));
  }
}

void Job::OnExchange(Node& node, const v1::ExchangeIn& in) {
  if (!IsRunning() || !node.member() || in.generation() != generation()) {
    return;  // Its ranks learn this from the Abort that was already sent.
  }
  const absl::StatusOr<Exchanges::Result> result =
      exchanges_.In(static_cast<uint32_t>(node.node_rank), in);
  if (!result.ok()) {
    // The ranks made the mistake, not the agent, so only their call fails.
    v1::DaemonMessage message;
    v1::ExchangeOut& out = *message.mutable_exchange();
    out.set_generation(generation());
    out.set_key(in.key());
    out.set_code(static_cast<uint32_t>(result.status().code()));
    out.set_error(std::string(result.status().message()));
    return out_.SendTo(node, std::move(message));
  }
  if (result->out == nullptr) return;
  v1::DaemonMessage message;
  *message.mutable_exchange() = *result->out;
  out_.SendTo(result->complete ? membership_.StreamsOf(world())
                               : std::vector<SessionId>{node.session},
              std::move(message));
}

void Job::OnStore(Node& node, const v1::StoreIn& in) {
  if (!IsRunning() || !node.member()) return;
  const absl::Status heard =
      store_.Hear(static_cast<uint32_t>(node.node_rank), in);
  if (!heard.ok()) {
    out_.Close(node.session, heard.code(), v1::REFUSAL_CODE_SLOW,
               std::string(heard.message()));
  }
  SendStoreMessages();
}

void Job::SendStoreMessages() {
  for (GenerationStore::Message& message : store_.Take()) {
    const Node* const node = membership_.Find(
        world().members(static_cast<int>(message.node)).node());
    if (node == nullptr || !node->member()) continue;
    v1::DaemonMessage sent;
    *sent.mutable_store() = std::move(message.out);
    out_.SendTo(*node, std::move(sent));
  }
}

}  // namespace rollcall
