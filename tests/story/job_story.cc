#include "tests/story/job_story.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/base/durations.h"
#include "daemon/core/formation/world.h"
#include "daemon/core/network_plan/probing.h"

namespace rollcall {
namespace {

std::string ShortCode(const std::string& name, const std::string& prefix) {
  return name.substr(prefix.size());
}

std::string ReasonText(v1::ReasonCode code) {
  return ShortCode(v1::ReasonCode_Name(code), "REASON_CODE_");
}

Job MakeJob(const std::string& nodes, uint32_t max_restarts,
            v1::Preflight preflight = v1::PREFLIGHT_UNSPECIFIED,
            absl::Duration ping_interval = absl::ZeroDuration()) {
  const std::vector<std::string> range = absl::StrSplit(nodes, ':');
  int min = 0;
  int max = 0;
  EXPECT_TRUE(absl::SimpleAtoi(range.front(), &min));
  EXPECT_TRUE(absl::SimpleAtoi(range.back(), &max));
  v1::JobSettings settings;
  settings.set_nodes_min(static_cast<uint32_t>(min));
  settings.set_nodes_max(static_cast<uint32_t>(max));
  settings.set_max_restarts(max_restarts);
  settings.set_preflight(preflight);
  ToProto(ping_interval, settings.mutable_ping_interval());
  return Job("demo", "run1", settings, Limits(), absl::UnixEpoch());
}

JobKeys Keys() {
  JobKeys keys;
  keys.credential = [](const std::string& run, const v1::Hello& hello,
                       uint64_t epoch) {
    return absl::StrCat("credential of ", hello.node(), hello.incarnation(),
                        " in ", run, ", epoch ", epoch);
  };
  keys.commit_proof = ProofOf;
  keys.probe_secret = ProbeSecretOf;
  return keys;
}

std::string MessageText(const v1::DaemonMessage& m) {
  switch (m.kind_case()) {
    case v1::DaemonMessage::kProposal: {
      const absl::StatusOr<v1::World> world = DecodeWorld(m.proposal().world());
      EXPECT_TRUE(world.ok()) << world.status();
      std::vector<std::string> members;
      for (const v1::Member& member : world->members()) {
        members.push_back(member.node());
      }
      return absl::StrCat("form g", m.proposal().generation(), " ",
                          absl::StrJoin(members, ","));
    }
    case v1::DaemonMessage::kNewCredential:
      return "credential";
    case v1::DaemonMessage::kCommit:
      return absl::StrCat("run g", m.commit().generation());
    case v1::DaemonMessage::kAbort:
      return absl::StrCat("abort g", m.abort().generation(), " ",
                          ReasonText(m.abort().code()),
                          m.abort().hung_node().empty()
                              ? ""
                              : absl::StrCat(" ", m.abort().hung_node(), "/",
                                             m.abort().hung_local_rank()));
    case v1::DaemonMessage::kEnd:
      return absl::StrCat("end ", m.end().exit_code(), " ",
                          ReasonText(m.end().code()));
    case v1::DaemonMessage::kExchange:
      if (m.exchange().code() != 0) {
        return absl::StrCat("exchange ", m.exchange().key(), " refused");
      }
      return absl::StrCat("exchange ", m.exchange().key(), "=",
                          absl::StrJoin(m.exchange().values(), ","));
    case v1::DaemonMessage::kNotice:
      return absl::StrCat(
          "notice ", m.notice().notice(), " ",
          ShortCode(v1::NoticeKind_Name(m.notice().kind()), "NOTICE_KIND_"),
          m.notice().nodes_size() > 0 ? " " : "",
          absl::StrJoin(m.notice().nodes(), ","));
    case v1::DaemonMessage::kCheckRequest:
      return "check";
    case v1::DaemonMessage::kProbe: {
      std::vector<std::string> targets;
      for (const v1::ProbeTarget& target : m.probe().targets()) {
        targets.push_back(target.node());
      }
      return absl::StrJoin(targets, ",");
    }
    default:
      return "";
  }
}

}  // namespace

JobStory::JobStory(const std::string& nodes, uint32_t max_restarts)
    : job_(MakeJob(nodes, max_restarts)) {
  job_.UseKeys(Keys());
  Render(job_.Start());
}

JobStory::JobStory(const std::string& nodes, v1::Preflight preflight)
    : job_(MakeJob(nodes, 3, preflight)) {
  job_.UseKeys(Keys());
  Render(job_.Start());
}

JobStory::JobStory(const std::string& nodes, absl::Duration ping_interval)
    : job_(MakeJob(nodes, 3, v1::PREFLIGHT_UNSPECIFIED, ping_interval)) {
  job_.UseKeys(Keys());
  Render(job_.Start());
}

JobStory::JobStory(Job job, const JobStory& before)
    : job_(std::move(job)),
      journal_(before.journal_),
      epochs_journaled_(before.epochs_journaled_) {
  job_.UseKeys(Keys());
}

void JobStory::Tell(const std::vector<Row>& rows) {
  int number = 0;
  for (const Row& row : rows) {
    ++number;
    const absl::Time at = absl::UnixEpoch() + absl::Seconds(row.at);
    ASSERT_GE(at, now_) << "row " << number << " goes back in time";
    now_ = at;
    EXPECT_EQ(row.event(*this), row.expect)
        << "row " << number << ", at " << row.at << " s";
  }
}

std::string JobStory::Step(const Event& event) {
  const std::vector<Action> actions = job_.Step(event, now_);
  std::string told = Render(actions);
  if (!checks_are_fine_) return told;
  for (const Action& action : actions) {
    const auto* send = std::get_if<Send>(&action);
    if (send == nullptr || !send->message.has_check_request()) continue;
    Said said{send->to.front(), {}};
    said.message.mutable_check_report()->set_request(
        send->message.check_request().request());
    EXPECT_EQ(Render(job_.Step(said, now_)), "");
  }
  return told;
}

v1::World JobStory::ProposedWorld() const {
  v1::Proposal proposal;
  EXPECT_TRUE(
      proposal.ParseFromString(journal_.at(Journal::Kind::kProposed).body));
  const absl::StatusOr<v1::World> world = DecodeWorld(proposal.world());
  EXPECT_TRUE(world.ok()) << world.status();
  return world.value_or(v1::World());
}

SessionId JobStory::NewSession(const std::string& node) {
  const SessionId session = next_session_++;
  sessions_[node] = session;
  names_[session] = node;
  return session;
}

std::string JobStory::Render(const std::vector<Action>& actions) {
  std::vector<std::string> told;
  for (const Action& action : actions) {
    if (const auto* entry = std::get_if<Journal>(&action)) {
      journal_[entry->kind] = *entry;
      if (entry->kind == Journal::Kind::kRunStarted) epochs_journaled_ = {};
      if (entry->kind == Journal::Kind::kNodeEpochs) {
        v1::NodeEpochs change;
        EXPECT_TRUE(change.ParseFromString(entry->body));
        epochs_journaled_.Apply(change);
      }
    } else if (const auto* log = std::get_if<Log>(&action)) {
      absl::StrAppend(&logs_, log->text, "\n");
    } else if (const auto* close = std::get_if<CloseStream>(&action)) {
      told.push_back(
          absl::StrCat("refuse ", names_[close->session], " ",
                       ShortCode(v1::RefusalCode_Name(close->refusal.code()),
                                 "REFUSAL_CODE_")));
    } else if (std::holds_alternative<Forget>(action)) {
      told.push_back("forget");
    } else if (const auto* send = std::get_if<Send>(&action)) {
      const v1::DaemonMessage& m = send->message;
      if (m.has_proposal()) {
        // Invariants 1 and 2.
        EXPECT_EQ(journal_[Journal::Kind::kProposed].generation,
                  m.proposal().generation());
        EXPECT_GE(m.proposal().generation(), generation_);
        generation_ = m.proposal().generation();
      }
      if (m.has_commit()) {
        EXPECT_EQ(journal_[Journal::Kind::kCommitted].generation,
                  m.commit().generation());
      }
      if (m.has_welcome()) credential_ = m.welcome().node_credential();
      if (m.has_new_credential()) {
        credential_ = m.new_credential().node_credential();
      }
      if (m.has_ranks_link()) {
        for (const SessionId to : send->to) {
          ranks_link_told_.push_back(names_[to]);
        }
        if (generation_ != 0) {  // Of a restored one it is not known.
          EXPECT_EQ(m.ranks_link().generation(), generation_);
        }
        start_timeout_s_ =
            absl::ToDoubleSeconds(FromProto(m.ranks_link().start_timeout()));
      }
      if (m.has_waiting()) {
        std::string nodes;
        for (const SessionId to : send->to) {
          absl::StrAppend(&nodes, nodes.empty() ? "" : ",", names_[to]);
        }
        waiting_told_.push_back(
            absl::StrCat(nodes, ": ", m.waiting().reason()));
      }
      std::string text = MessageText(m);
      if (m.has_probe()) {
        const std::string& node = names_[send->to.front()];
        probes_[node] = m.probe();
        text = absl::StrCat(node, " probes ", text);
      }
      // Checks that are answered at once are nobody's story.
      if (m.has_check_request() && checks_are_fine_) continue;
      if (!text.empty() && !send->to.empty()) told.push_back(text);
    }
  }
  return absl::StrJoin(told, "; ");
}

std::string AddressOf(const std::string& node) {
  // Any two names get two addresses.
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
  if (options.command != 0) {
    hello.set_command_digest(std::string(32, options.command));
  }
  hello.set_generation_seen(options.generation_seen);
  hello.set_previous_incarnation(options.previous_incarnation);
  if (options.by_credential) {
    hello.set_node_credential("verified by the shell");
  } else {
    hello.mutable_token()->set_id(options.token_id);
  }
  *hello.mutable_held() = options.held;
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

Told Reaches(std::string node, std::vector<std::string> but) {
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
        } else {
          result.set_error("Connection refused");
        }
      }
    }
    return story.Step(Said{story.SessionOf(node), message});
  };
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
    const v1::Held& held = attend.hello.held();
    attend.commit_proven =
        !held.proof().empty() &&
        held.proof() == ProofOf(attend.hello.run(), held.running_generation(),
                                held.world(), held.seal());
    const SessionId before = story.SessionOf(node);
    attend.session = story.NewSession(node);
    const std::string answer = story.Step(attend);
    // A refused stranger does not speak for the node.
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
  return [=](JobStory& story) {
    std::vector<std::string> told;
    for (const std::string& node : nodes) {
      const std::string text = Prepares(node, generation)(story);
      if (!text.empty()) told.push_back(text);
    }
    return absl::StrJoin(told, "; ");
  };
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

Told Exits(std::string node, uint64_t generation, int code, int signal,
           uint32_t local_rank, std::string stderr_tail) {
  v1::AgentMessage message;
  v1::RankExited& exited = *message.mutable_rank_exited();
  exited.set_generation(generation);
  exited.set_code(code);
  exited.set_signal(signal);
  exited.set_local_rank(local_rank);
  exited.set_stderr_tail(stderr_tail);
  return Says(std::move(node), message);
}

Told ExitsForGood(std::string node, uint64_t generation, int code) {
  v1::AgentMessage message;
  v1::RankExited& exited = *message.mutable_rank_exited();
  exited.set_generation(generation);
  exited.set_code(code);
  exited.set_permanent(true);
  return Says(std::move(node), message);
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

std::vector<JobStory::Row> ThreeRun() {
  return {
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {0.0, Attends("c"), "form g1 a,b,c"},
      {0.1, PreparesAll({"a", "b", "c"}, 1), "run g1"},
  };
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
    state.seal.emplace();
    EXPECT_TRUE(state.seal->ParseFromString(
        story.journal().at(Journal::Kind::kCommitted).body));
  }
  return state;
}

std::string ProofOf(const std::string& run, uint64_t generation,
                    const std::string& world, const std::string& seal) {
  return absl::StrCat(
      std::hash<std::string>()(absl::StrCat(run, "/", generation, "/", world)),
      "/", std::hash<std::string>()(seal));
}

HelloOptions Holds(uint64_t prepared, uint64_t running) {
  HelloOptions options;
  options.run = "run1";
  options.generation_seen = 1;
  options.held.set_prepared_generation(prepared);
  options.held.set_running_generation(running);
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
  std::vector<JobStory::Row> rows;
  for (double at = from; at <= until; at += 2) {
    for (const std::string& node : nodes) rows.push_back({at, Beats(node), ""});
  }
  story.Tell(rows);
}

}  // namespace rollcall
