// JobStory: gives a Job the events of a table, and renders its answers as text.
//
// A node is named by a short word; its stream, incarnation and facts are chosen
// here. The answer has what the protocol decides (form, run, abort, refuse,
// end, exchange, forget), without messages that only inform (welcome, waiting,
// logs). Every step also checks that journal entries come before their
// messages.
#ifndef ROLLCALL_TESTS_STORY_JOB_JOB_STORY_H_
#define ROLLCALL_TESTS_STORY_JOB_JOB_STORY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/job/job.h"

namespace rollcall {

class JobStory {
 public:
  // `nodes`: "2" or "2:4".
  explicit JobStory(const std::string& nodes, uint32_t max_restarts = 3);
  // `preflight`: what the job does about nodes that differ.
  JobStory(const std::string& nodes, v1::Preflight preflight);
  // The nodes of a running world probe each other every `ping_interval`.
  JobStory(const std::string& nodes, absl::Duration ping_interval);
  // A job with these settings beside its nodes.
  JobStory(const std::string& nodes, const v1::JobSettings& settings);
  // Continues with a restored job, and with the journal of `before`.
  JobStory(Job job, const JobStory& before);

  // One row: the second, the event, and the expected answer.
  struct Row {
    double at;
    std::function<std::string(JobStory&)> event;
    std::string expect;
  };
  void Tell(const std::vector<Row>& rows);

  std::string Step(const Event& event);
  Job& job() { return job_; }
  // From here on the table reports the results of checks. Until then all checks
  // pass.
  void AnswersChecksItself() { checks_are_fine_ = false; }
  SessionId SessionOf(const std::string& node) { return sessions_[node]; }
  SessionId NewSession(const std::string& node);
  uint64_t generation() const { return generation_; }
  absl::Time now() const { return now_; }
  // The journal entries so far, the latest of each kind.
  const std::map<Journal::Kind, Journal>& journal() const { return journal_; }
  // The latest world that was proposed.
  v1::World ProposedWorld() const;
  const NodeEpochs& epochs_journaled() const { return epochs_journaled_; }
  // The credential in the latest Welcome.
  const std::string& credential() const { return credential_; }
  // Logs of all steps, for stories about them.
  const std::string& logs() const { return logs_; }
  // The nodes that got RanksLink since the last call, once for each message.
  std::vector<std::string> TakeRanksLinkTold() {
    return std::exchange(ranks_link_told_, {});
  }
  // What nodes were told of the store since the last call, as "NODE: TEXT".
  std::vector<std::string> TakeStoreTold() {
    return std::exchange(store_told_, {});
  }
  // The timeout in the latest RanksLink.
  double start_timeout_s() const { return start_timeout_s_; }
  // The latest Probe of each node.
  const std::map<std::string, v1::Probe>& probes() const { return probes_; }

  // The latest GroupCheck of each node.
  const std::map<std::string, v1::GroupCheck>& groups() const {
    return groups_;
  }

  // The reasons for waiting that nodes got since the last call: `NODES:
  // REASON`.
  std::vector<std::string> TakeWaitingTold() {
    return std::exchange(waiting_told_, {});
  }

 private:
  std::string Render(const std::vector<Action>& actions);

  Job job_;
  absl::Time now_ = absl::UnixEpoch();
  std::map<std::string, SessionId> sessions_;
  std::map<SessionId, std::string> names_;
  SessionId next_session_ = 1;
  uint64_t generation_ = 0;
  bool checks_are_fine_ = true;
  std::map<Journal::Kind, Journal> journal_;
  NodeEpochs epochs_journaled_;
  std::string credential_;
  std::string logs_;
  std::map<std::string, v1::Probe> probes_;
  std::map<std::string, v1::GroupCheck> groups_;
  std::vector<std::string> ranks_link_told_;
  std::vector<std::string> store_told_;
  double start_timeout_s_ = 0;
  std::vector<std::string> waiting_told_;
};

// --- Events, named as in the protocol (job_events.cc) -----------------------

using Told = std::function<std::string(JobStory&)>;

struct HelloOptions {
  uint32_t ranks = 1;
  std::string run;
  bool launcher = false;
  // The value of Hello.once.
  bool once = false;
  v1::ResumeState resume_state;
  v1::JobSettings settings;
  uint64_t generation_seen = 0;
  // The node also claims the address by which this other node connects.
  std::string claims_address_of;
  // The node's interface has no address.
  bool no_address = false;
  // The node attends by a node credential of this epoch, and not by a token.
  bool by_credential = false;
  uint64_t epoch = 0;
  uint64_t previous_incarnation = 0;
  // Earlier incarnations of this node whose ranks its agent has ended, with
  // their nonces as proof.
  std::vector<uint64_t> swept = {};
  std::string token_id = "t1";
  // Hello.checks_groups.
  bool checks_groups = false;
  // 0: the node answers no probes.
  uint32_t probe_port = 0;
  // Versions.nccl; empty: unknown.
  std::string nccl;
  // The node's set-up command has not succeeded yet.
  bool setting_up = false;
  // The character from which its digest is made; 0: unknown.
  char command = 0;
};
// The address by which the node connects.
std::string AddressOf(const std::string& node);
v1::Hello HelloOf(const std::string& node, uint64_t incarnation,
                  const HelloOptions& options = {});

Told Says(std::string node, v1::AgentMessage message);
Told Attends(std::string node, uint64_t incarnation = 1,
             HelloOptions options = {});
Told Beats(std::string node, uint64_t step = 0);
Told BeatsAll(std::vector<std::string> nodes);
// A heartbeat of a node whose ranks have linked, `took_s` after their start.
Told BeatsLinked(std::string node, double took_s = 0);
Told Prepares(std::string node, uint64_t generation);
Told PreparesAll(std::vector<std::string> nodes, uint64_t generation);
Told Refuses(std::string node, uint64_t generation);
Told Breaks(std::string node);
Told Exits(std::string node, uint64_t generation, int code, int signal = 0,
           uint32_t local_rank = 0, std::string stderr_tail = "");
// The rank exits, and reports that another try would fail as well.
Told ExitsForGood(std::string node, uint64_t generation, int code);
// The rank exits, and reports that its parent starts it again.
Told ExitsAndComesAgain(std::string node, uint64_t generation, int code);
Told Stops(std::string node, uint64_t generation);
Told Leaves(std::string node);
Told Sees(std::string node, uint64_t notice, uint64_t generation = 1);
// Evicts one node as `rollcall evict` does, or several as `token revoke
// --cascade` does.
Told Evicts(std::vector<std::string> nodes);
// `deadline_s`: 0: no deadline.
Told Drains(std::string node, double deadline_s = 0);
Told PreparesWith(std::string node, uint64_t generation,
                  std::vector<v1::RankState> states);
Told Reports(std::string node, uint64_t request,
             v1::CheckFinding::Severity severity);
Told Gives(std::string node, uint64_t generation, std::string key,
           std::string value);
// One operation on the store; `link` and `received`: see v1::StoreIn.
Told AsksStore(std::string node, uint64_t operation, v1::StoreKind kind,
               std::string key, uint64_t link, uint64_t received);
// `key`: the one record that the agent keeps; empty: none.
Told TellsStore(std::string node, std::string key = "");
Told SeesEnd(std::string node);
// The node's set-up command has ended.
Told SetsUp(std::string node, int code = 0, int signal = 0,
            bool timed_out = false);
// The report of the node's latest Probe: all targets except `but` answered
// correctly.
Told Reaches(std::string node, std::vector<std::string> but = {});
// As Reaches, each target after `ms` milliseconds, and `far` or, if the node is
// `far`, all of them after `far_ms`.
Told ReachesIn(std::string node, double ms, std::string far, double far_ms);
// A node that answers probes.
HelloOptions Probable();
Told Ticks(double late_s = 0);
Told StopIsAsked(int code);
Told StopIsAskedNow(int code);

// a and b attend at second 0, and run generation 1 from 0.1 on.
std::vector<JobStory::Row> TwoRun();
// The same with a, b and c.
std::vector<JobStory::Row> ThreeRun();
// Stories that begin with such rows, with a alone, with two and with three
// nodes.
JobStory OneRunning(const std::string& nodes, uint32_t max_restarts = 3);
JobStory TwoRunning(const std::string& nodes, uint32_t max_restarts = 3);
JobStory ThreeRunning(const std::string& nodes, uint32_t max_restarts = 3);
// The state that the journal has since the latest proposal.
JournalState StateOf(const JobStory& story, bool committed);
// The next daemon, which goes on from that journal. Its time starts at 0 again.
JobStory RestartOf(const JobStory& before, bool committed = true);
// The status row of a node. The status must have it.
const v1::NodeStatus& RowOf(const v1::JobStatus& status,
                            const std::string& node);
// The proof of a commit. It is the same for each daemon.
std::string ProofOf(const std::string& run, uint64_t generation,
                    const std::string& world, const std::string& world_commit);
// A secret of a round of probes.
std::string ProbeSecretOf(uint64_t round, const std::string& word);
// An agent that comes back to run1 from generation 1, by its credential.
HelloOptions Holds(uint64_t prepared, uint64_t running);
// The next incarnation of an agent of run1, with the credential of the one
// before.
HelloOptions NextOf(uint64_t previous);

// Heartbeats of these nodes, every 2 s from `from` to `until`.
void TellBeats(JobStory& story, const std::vector<std::string>& nodes,
               double until, double from = 4);

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_STORY_JOB_JOB_STORY_H_
