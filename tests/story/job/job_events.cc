// The events of job stories, and the state that a daemon and its agents keep of
// a world.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/durations.h"
#include "daemon/core/network_plan/probing/probing.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

// Gives the event of each node, and joins all answers.
Told All(const std::vector<std::string>& nodes,
         const std::function<Told(const std::string&)>& event) {
  return [=](JobStory& story) {
    std::vector<std::string> told;
    for (const std::string& node : nodes) {
      const std::string text = event(node)(story);
      if (!text.empty()) told.push_back(text);
    }
    return absl::StrJoin(told, "; ");
  };
}

}  // namespace

std::string AddressOf(const std::string& node) {
  // Different names get different addresses.
  const size_t number = std::hash<std::string>()(node) % 60000;
  return absl::StrCat("10.7.", number / 250, ".", 1 + number % 250);
}

v1::Hello HelloOf(const std::string& node, uint64_t incarnation,
                  const HelloOptions& options) {
  v1::Hello hello;
  hello.set_job("demo");
  hello.set_node(node);
  hello.set_incarnation(incarnation);
  hello.set_ranks(options.ranks);
  hello.set_run(options.run);
  hello.set_launcher(options.launcher);
  hello.set_once(options.once);
  hello.set_checks_groups(options.checks_groups);
  if (options.command != 0) {
    hello.set_command_digest(std::string(32, options.command));
  }
  hello.set_setting_up(options.setting_up);
  hello.set_generation_seen(options.generation_seen);
  hello.set_previous_incarnation(options.previous_incarnation);
  if (options.by_credential) {
    hello.set_node_credential("verified by the shell");
  } else {
    hello.mutable_token()->set_id(options.token_id);
  }
  *hello.mutable_resume_state() = options.resume_state;
  *hello.mutable_settings() = options.settings;
  v1::Facts& facts = *hello.mutable_facts();
  facts.set_boot_id(absl::StrCat("boot-", node));
  facts.set_probe_port(options.probe_port);
  facts.mutable_versions()->set_nccl(options.nccl);
  v1::Interface& eth0 = *facts.add_interfaces();
  eth0.set_name("eth0");
  eth0.set_up(true);
  std::vector<std::string> addresses;
  if (!options.no_address) addresses.push_back(AddressOf(node));
  if (!options.claims_address_of.empty()) {
    addresses.push_back(AddressOf(options.claims_address_of));
  }
  for (const std::string& text : addresses) {
    v1::InterfaceAddress& address = *eth0.add_addresses();
    address.set_address(text);
    address.set_prefix_length(16);
  }
  return hello;
}

Told Says(std::string node, v1::AgentMessage message) {
  return [=](JobStory& story) {
    return story.Step(Said{story.SessionOf(node), message});
  };
}

Told SetsUp(std::string node, int code, int signal, bool timed_out) {
  v1::AgentMessage message;
  v1::SetupEnded& ended = *message.mutable_setup_ended();
  ended.set_code(code);
  ended.set_signal(signal);
  ended.set_timed_out(timed_out);
  ended.set_tries(2);
  ended.set_stderr_tail("no space left");
  return Says(std::move(node), std::move(message));
}

namespace {

Told ReportsProbe(std::string node, std::vector<std::string> but,
                  std::function<double(const std::string&)> ms) {
  return [=](JobStory& story) {
    const v1::Probe& probe = story.probes().at(node);
    v1::AgentMessage message;
    v1::Probed& probed = *message.mutable_probed();
    probed.set_probe(probe.probe());
    for (const v1::ProbeTarget& target : probe.targets()) {
      for (const std::string& address : target.addresses()) {
        v1::ProbeResult& result = *probed.add_results();
        result.set_node(target.node());
        result.set_address(address);
        if (std::find(but.begin(), but.end(), target.node()) == but.end()) {
          result.set_answer(
              AnswerAt(story.probes().at(target.node()), address));
          if (ms) {
            ToProto(absl::Milliseconds(ms(target.node())),
                    result.mutable_round_trip());
          }
        } else {
          result.set_error("Connection refused");
        }
      }
    }
    return story.Step(Said{story.SessionOf(node), message});
  };
}

}  // namespace

Told Reaches(std::string node, std::vector<std::string> but) {
  return ReportsProbe(std::move(node), std::move(but), nullptr);
}

Told ReachesIn(std::string node, double ms, std::string far, double far_ms) {
  return ReportsProbe(node, {}, [=](const std::string& target) {
    return node == far || target == far ? far_ms : ms;
  });
}

HelloOptions Probable() {
  HelloOptions options;
  options.probe_port = 40000;
  return options;
}

std::string ProbeSecretOf(uint64_t round, const std::string& word) {
  std::string secret = absl::StrCat(round, " ", word);
  secret.resize(Limits::probe_bytes);
  return secret;
}

Told Attends(std::string node, uint64_t incarnation, HelloOptions options) {
  return [=](JobStory& story) {
    Attend attend;
    attend.hello = HelloOf(node, incarnation, options);
    attend.observed_address = AddressOf(node);
    attend.epoch = options.epoch;
    attend.swept = options.swept;
    const v1::ResumeState& resume_state = attend.hello.resume_state();
    attend.commit_proven =
        !resume_state.proof().empty() &&
        resume_state.proof() ==
            ProofOf(attend.hello.run(), resume_state.running_generation(),
                    resume_state.world(), resume_state.world_commit());
    const SessionId before = story.SessionOf(node);
    attend.session = story.NewSession(node);
    const std::string answer = story.Step(attend);
    // A refused agent does not replace the agent that has the name.
    if (answer.find("refuse") == 0 &&
        answer.find("REDIALED") == std::string::npos && before != 0) {
      story.Step(StreamClosed{attend.session});
    }
    return answer;
  };
}

Told Beats(std::string node, uint64_t step) {
  return [=](JobStory& story) {
    v1::AgentMessage message;
    message.mutable_heartbeat()->set_step(step);
    message.mutable_heartbeat()->set_generation(story.generation());
    return Says(node, message)(story);
  };
}

Told BeatsAll(std::vector<std::string> nodes) {
  return All(nodes, [](const std::string& node) { return Beats(node); });
}

Told BeatsLinked(std::string node, double took_s) {
  return [=](JobStory& story) {
    v1::AgentMessage message;
    message.mutable_heartbeat()->set_ranks_link(true);
    ToProto(absl::Seconds(took_s),
            message.mutable_heartbeat()->mutable_start_took());
    message.mutable_heartbeat()->set_generation(story.generation());
    return Says(node, message)(story);
  };
}

Told Prepares(std::string node, uint64_t generation) {
  v1::AgentMessage message;
  message.mutable_prepared()->set_generation(generation);
  message.mutable_prepared()->set_master_port(23456);
  return Says(std::move(node), message);
}

Told PreparesAll(std::vector<std::string> nodes, uint64_t generation) {
  return All(nodes, [=](const std::string& node) {
    return Prepares(node, generation);
  });
}

Told Refuses(std::string node, uint64_t generation) {
  v1::AgentMessage message;
  message.mutable_refused()->set_generation(generation);
  message.mutable_refused()->set_reason("no free port");
  return Says(std::move(node), message);
}

Told Breaks(std::string node) {
  return [=](JobStory& story) {
    return story.Step(StreamClosed{story.SessionOf(node)});
  };
}

static Told SaysExited(std::string node, v1::RankExited exited) {
  v1::AgentMessage message;
  *message.mutable_rank_exited() = std::move(exited);
  return Says(std::move(node), message);
}

static v1::RankExited ExitOf(uint64_t generation, int code) {
  v1::RankExited exited;
  exited.set_generation(generation);
  exited.set_code(code);
  return exited;
}

Told Exits(std::string node, uint64_t generation, int code, int signal,
           uint32_t local_rank, std::string stderr_tail) {
  v1::RankExited exited = ExitOf(generation, code);
  exited.set_signal(signal);
  exited.set_local_rank(local_rank);
  exited.set_stderr_tail(stderr_tail);
  return SaysExited(std::move(node), std::move(exited));
}

Told ExitsForGood(std::string node, uint64_t generation, int code) {
  v1::RankExited exited = ExitOf(generation, code);
  exited.set_permanent(true);
  return SaysExited(std::move(node), std::move(exited));
}

Told ExitsAndComesAgain(std::string node, uint64_t generation, int code) {
  v1::RankExited exited = ExitOf(generation, code);
  exited.set_started_again(true);
  return SaysExited(std::move(node), std::move(exited));
}

Told Stops(std::string node, uint64_t generation) {
  v1::AgentMessage message;
  message.mutable_stopped()->set_generation(generation);
  return Says(std::move(node), message);
}

Told Leaves(std::string node) {
  v1::AgentMessage message;
  message.mutable_leaving()->set_reason("drain");
  return Says(std::move(node), message);
}

Told Sees(std::string node, uint64_t notice, uint64_t generation) {
  v1::AgentMessage message;
  message.mutable_notice_seen()->set_notice(notice);
  message.mutable_notice_seen()->set_generation(generation);
  return Says(std::move(node), message);
}

Told Drains(std::string node, double deadline_s) {
  return [=](JobStory& story) {
    DrainAsked drain{node, absl::InfiniteDuration(), "asked"};
    if (deadline_s > 0) drain.deadline = absl::Seconds(deadline_s);
    return story.Step(drain);
  };
}

Told Evicts(std::vector<std::string> nodes) {
  return [=](JobStory& story) {
    const bool former =
        nodes.size() == 1 && story.job().EvictsFormer(nodes.front());
    return story.Step(EvictAsked{nodes, "asked", former});
  };
}

Told PreparesWith(std::string node, uint64_t generation,
                  std::vector<v1::RankState> states) {
  v1::AgentMessage message;
  message.mutable_prepared()->set_generation(generation);
  message.mutable_prepared()->set_master_port(23456);
  for (const v1::RankState& state : states) {
    *message.mutable_prepared()->add_states() = state;
  }
  return Says(std::move(node), message);
}

Told Reports(std::string node, uint64_t request,
             v1::CheckFinding::Severity severity) {
  v1::AgentMessage message;
  v1::CheckReport& report = *message.mutable_check_report();
  report.set_request(request);
  v1::CheckFinding& finding = *report.add_findings();
  finding.set_check("gpus");
  finding.set_severity(severity);
  finding.set_text("expected 8, found 7");
  return Says(std::move(node), message);
}

Told Gives(std::string node, uint64_t generation, std::string key,
           std::string value) {
  v1::AgentMessage message;
  message.mutable_exchange()->set_generation(generation);
  message.mutable_exchange()->set_key(key);
  message.mutable_exchange()->add_values(value);
  return Says(std::move(node), message);
}

Told AsksStore(std::string node, uint64_t operation, v1::StoreKind kind,
               std::string key, uint64_t link, uint64_t received) {
  v1::AgentMessage message;
  v1::StoreIn& in = *message.mutable_store();
  in.set_generation(1);
  in.set_link(link);
  in.set_received(received);
  v1::StoreAsked& asked = *in.add_asked();
  asked.set_operation(operation);
  asked.mutable_what()->set_kind(kind);
  asked.mutable_what()->set_key(key);
  asked.mutable_what()->set_delta(1);
  return Says(std::move(node), message);
}

Told TellsStore(std::string node, std::string key) {
  v1::AgentMessage message;
  v1::StoreIn& in = *message.mutable_store();
  in.set_generation(1);
  in.set_records_end(true);
  if (!key.empty()) {
    v1::StoreRecord& record = *in.add_records();
    record.set_key(key);
    record.set_sequence(1);
    record.set_value("5");
  }
  return Says(std::move(node), message);
}

Told SeesEnd(std::string node) {
  v1::AgentMessage message;
  message.mutable_end_seen();
  return Says(std::move(node), message);
}

Told Ticks(double late_s) {
  return
      [=](JobStory& story) { return story.Step(Tick{absl::Seconds(late_s)}); };
}

Told StopIsAskedNow(int code) {
  return [=](JobStory& story) {
    return story.Step(StopAsked{code, v1::REASON_CODE_STOPPED, "asked", true});
  };
}

Told StopIsAsked(int code) {
  return [=](JobStory& story) {
    return story.Step(StopAsked{code, v1::REASON_CODE_STOPPED, "asked"});
  };
}

std::vector<JobStory::Row> TwoRun() {
  return {
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
  };
}

std::vector<JobStory::Row> ThreeRun() {
  return {
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {0.0, Attends("c"), "form g1 a,b,c"},
      {0.1, PreparesAll({"a", "b", "c"}, 1), "run g1"},
  };
}

JobStory OneRunning(const std::string& nodes, uint32_t max_restarts) {
  JobStory story(nodes, max_restarts);
  story.Tell(
      {{0.0, Attends("a"), "form g1 a"}, {0.1, Prepares("a", 1), "run g1"}});
  return story;
}

JobStory TwoRunning(const std::string& nodes, uint32_t max_restarts) {
  JobStory story(nodes, max_restarts);
  story.Tell(TwoRun());
  return story;
}

JobStory ThreeRunning(const std::string& nodes, uint32_t max_restarts) {
  JobStory story(nodes, max_restarts);
  story.Tell(ThreeRun());
  return story;
}

JournalState StateOf(const JobStory& story, bool committed) {
  JournalState state;
  state.run = "run1";
  EXPECT_TRUE(state.settings.ParseFromString(
      story.journal().at(Journal::Kind::kRunStarted).body));
  const Journal& proposed = story.journal().at(Journal::Kind::kProposed);
  state.generation = proposed.generation;
  state.proposal.emplace();
  EXPECT_TRUE(state.proposal->ParseFromString(proposed.body));
  state.node_epochs = story.epochs_journaled();
  if (story.journal().contains(Journal::Kind::kLeaving)) {
    EXPECT_TRUE(state.leaving.emplace().ParseFromString(
        story.journal().at(Journal::Kind::kLeaving).body));
  }
  const auto finished = story.journal().find(Journal::Kind::kFinished);
  if (finished != story.journal().end() &&
      finished->second.generation == state.generation) {
    EXPECT_TRUE(
        state.finished.emplace().ParseFromString(finished->second.body));
  }
  if (committed) {
    state.world_commit.emplace();
    EXPECT_TRUE(state.world_commit->ParseFromString(
        story.journal().at(Journal::Kind::kCommitted).body));
  }
  return state;
}

JobStory RestartOf(const JobStory& before, bool committed) {
  return JobStory(Job::Restore("demo", StateOf(before, committed), Limits(),
                               absl::UnixEpoch()),
                  before);
}

const v1::NodeStatus& RowOf(const v1::JobStatus& status,
                            const std::string& node) {
  for (const v1::NodeStatus& row : status.nodes()) {
    if (row.node() == node) return row;
  }
  ADD_FAILURE() << "no node " << node;
  return status.nodes(0);
}

std::string ProofOf(const std::string& run, uint64_t generation,
                    const std::string& world, const std::string& world_commit) {
  return absl::StrCat(
      std::hash<std::string>()(absl::StrCat(run, "/", generation, "/", world)),
      "/", std::hash<std::string>()(world_commit));
}

HelloOptions Holds(uint64_t prepared, uint64_t running) {
  HelloOptions options;
  options.run = "run1";
  options.generation_seen = 1;
  options.resume_state.set_prepared_generation(prepared);
  options.resume_state.set_running_generation(running);
  options.by_credential = true;
  return options;
}

HelloOptions NextOf(uint64_t previous) {
  HelloOptions options;
  options.run = "run1";
  options.by_credential = true;
  options.previous_incarnation = previous;
  return options;
}

void TellBeats(JobStory& story, const std::vector<std::string>& nodes,
               double until, double from) {
  for (double at = from; at <= until; at += 2) {
    story.Tell({{at, BeatsAll(nodes), ""}});
  }
}

}  // namespace rollcall
