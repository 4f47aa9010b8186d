// JobStory: tells a Job a story in a table and writes its answer as text.
//
// A node is named by one word; its stream, incarnation and facts are made up
// here. The answer holds what the protocol decides (form, run, abort, refuse,
// end, exchange, forget) and leaves out what only informs (welcome, waiting,
// logs). That journal entries come before their messages is checked always.
#ifndef ROLLCALL_TESTS_STORY_JOB_STORY_H_
#define ROLLCALL_TESTS_STORY_JOB_STORY_H_

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
  // `preflight`: what is done about nodes that differ.
  JobStory(const std::string& nodes, v1::Preflight preflight);
  // The nodes of a world that runs probe each other every `ping_interval`.
  JobStory(const std::string& nodes, absl::Duration ping_interval);
  // Goes on with a job that was restored, and with what was journaled before.
  JobStory(Job job, const JobStory& before);

  // One row: at which second, what happens, what is answered.
  struct Row {
    double at;
    std::function<std::string(JobStory&)> event;
    std::string expect;
  };
  void Tell(const std::vector<Row>& rows);

  std::string Step(const Event& event);
  Job& job() { return job_; }
  // From here on the story answers checks itself; before, nothing is found.
  void AnswersChecksItself() { checks_are_fine_ = false; }
  SessionId SessionOf(const std::string& node) { return sessions_[node]; }
  SessionId NewSession(const std::string& node);
  uint64_t generation() const { return generation_; }
  absl::Time now() const { return now_; }
  // Bodies journaled so far, the latest per kind.
  const std::map<Journal::Kind, Journal>& journal() const { return journal_; }
  // The latest that was proposed.
  v1::World ProposedWorld() const;
  const NodeEpochs& epochs_journaled() const { return epochs_journaled_; }
  // What the latest Welcome gave.
  const std::string& credential() const { return credential_; }
  // Logs of all steps, for stories about them.
  const std::string& logs() const { return logs_; }
  // Nodes that were told RanksLink since the last call, each time it was said.
  std::vector<std::string> TakeRanksLinkTold() {
    return std::exchange(ranks_link_told_, {});
  }
  // What the latest RanksLink said.
  double start_timeout_s() const { return start_timeout_s_; }
  // The latest Probe of each node.
  const std::map<std::string, v1::Probe>& probes() const { return probes_; }

  // Why nodes were told that they wait, since the last call: `NODES: REASON`.
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
  std::vector<std::string> ranks_link_told_;
  double start_timeout_s_ = 0;
  std::vector<std::string> waiting_told_;
};

// --- Events, by the words of the protocol ------------------------------------

using Told = std::function<std::string(JobStory&)>;

struct HelloOptions {
  uint32_t ranks = 1;
  std::string run;
  bool launcher = false;
  // Hello.once.
  bool once = false;
  v1::Held held;
  v1::JobSettings settings;
  uint64_t generation_seen = 0;
  // Says that it also has the address by which this node connects.
  std::string claims_address_of;
  // It has an interface, and no address on it.
  bool no_address = false;
  // By a node credential of this epoch, and not by a token.
  bool by_credential = false;
  uint64_t epoch = 0;
  uint64_t previous_incarnation = 0;
  // Earlier lives of this node that it has ended, and whose nonces it has
  // shown.
  std::vector<uint64_t> swept = {};
  std::string token_id = "t1";
  // 0: it answers no probes.
  uint32_t probe_port = 0;
  // Versions.nccl; empty: unknown.
  std::string nccl;
  // Of its digest; 0: unknown.
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
// Its ranks have linked, and took that long for it.
Told BeatsLinked(std::string node, double took_s = 0);
Told Prepares(std::string node, uint64_t generation);
Told PreparesAll(std::vector<std::string> nodes, uint64_t generation);
Told Refuses(std::string node, uint64_t generation);
Told Breaks(std::string node);
Told Exits(std::string node, uint64_t generation, int code, int signal = 0,
           uint32_t local_rank = 0, std::string stderr_tail = "");
// And says that it would again.
Told ExitsForGood(std::string node, uint64_t generation, int code);
Told Stops(std::string node, uint64_t generation);
Told Leaves(std::string node);
Told Sees(std::string node, uint64_t notice, uint64_t generation = 1);
// One node: as `rollcall evict` does, several: as `token revoke --cascade`.
Told Evicts(std::vector<std::string> nodes);
// 0: without a deadline.
Told Drains(std::string node, double deadline_s = 0);
Told PreparesWith(std::string node, uint64_t generation,
                  std::vector<v1::RankState> states);
Told Reports(std::string node, uint64_t request,
             v1::CheckFinding::Severity severity);
Told Gives(std::string node, uint64_t generation, std::string key,
           std::string value);
Told SeesEnd(std::string node);
// The answer to its latest Probe: each target but these answered as it should.
Told Reaches(std::string node, std::vector<std::string> but = {});
// One that answers probes.
HelloOptions Probable();
Told Ticks(double late_s = 0);
Told StopIsAsked(int code);
Told StopIsAskedNow(int code);

// a, b and c attend at second 0, and run generation 1 from 0.1 on.
std::vector<JobStory::Row> ThreeRun();
// What the journal has of it after its latest proposal.
JournalState StateOf(const JobStory& story, bool committed);
// What daemons with one secret make of a commit.
std::string ProofOf(const std::string& run, uint64_t generation,
                    const std::string& world, const std::string& seal);
// The secrets of a round of probes.
std::string ProbeSecretOf(uint64_t round, const std::string& word);
// Of one that comes back to run1 from generation 1, by its credential.
HelloOptions Holds(uint64_t prepared, uint64_t running);
// Of the next life of an agent of run1: it has the credential of the life
// before it.
HelloOptions NextOf(uint64_t previous);

// Heartbeats of these nodes, every 2 s from `from` to `until`.
void TellBeats(JobStory& story, const std::vector<std::string>& nodes,
               double until, double from = 4);

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_STORY_JOB_STORY_H_
