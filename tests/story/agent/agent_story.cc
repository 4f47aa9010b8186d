#include "tests/story/agent/agent_story.h"

#include <csignal>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/durations.h"
#include "daemon/core/formation/world.h"

namespace rollcall {
namespace {

v1::Hello HelloOfThisNode(bool once) {
  v1::Hello hello;
  hello.set_job("demo");
  hello.set_node("b");
  hello.set_incarnation(11);
  hello.set_ranks(2);
  hello.set_once(once);
  hello.mutable_token()->set_id("t");
  hello.mutable_token()->set_secret("s");
  return hello;
}

std::string TextOf(const std::vector<RankIncarnation>& ranks) {
  return absl::StrJoin(
      ranks, ",", [](std::string* out, const RankIncarnation& incarnation) {
        absl::StrAppend(out, incarnation.local_rank);
      });
}

// Ranks that wait, as RANK@STEP; "?" after it: the state is not whole.
std::string States(const v1::Prepared& prepared) {
  std::string text;
  for (const v1::RankState& state : prepared.states()) {
    absl::StrAppend(&text, " ", state.local_rank(), "@", state.completed_step(),
                    state.whole_state() ? "" : "?");
  }
  return text;
}

std::string TextOf(const v1::RankStalled& stalled) {
  if (stalled.goes_on()) {
    return absl::StrCat("goes-on ", stalled.local_rank());
  }
  return absl::StrCat("stalled ", stalled.local_rank(), "@", stalled.step(),
                      stalled.has_collective_entered()
                          ? absl::StrCat(" ", stalled.collective_entered(), "/",
                                         stalled.collective_left())
                          : "",
                      !stalled.has_answered() ? ""
                      : stalled.answered()    ? " answers"
                                              : " silent",
                      stalled.stopped() ? " stopped" : "");
}

std::string TextOf(const StartRanks& start) {
  const bool all_fresh = start.fresh.size() == 2;
  return absl::StrCat(
      "START ", start.world.generation(), " port ",
      start.world_commit.master_port(),
      all_fresh ? ""
                : absl::StrCat(" fresh ", absl::StrJoin(start.fresh, ","),
                               " waiting ", TextOf(start.waiting)));
}

}  // namespace

AgentStory::AgentStory(bool once, bool attach)
    : AgentStory(HelloOfThisNode(once), attach, 0) {}

AgentStory AgentStory::WithSetup(uint32_t retries) {
  v1::Hello hello = HelloOfThisNode(false);
  hello.set_setting_up(true);
  return {hello, false, retries};
}

AgentStory::AgentStory(const v1::Hello& hello, bool attach,
                       uint32_t setup_retries)
    : agent_(hello, absl::Minutes(10), Limits(), absl::UnixEpoch(), SIGTERM,
             attach, setup_retries) {
  EXPECT_EQ(Render(agent_.Start()), "dial");
}

void AgentStory::Tell(const std::vector<Row>& rows) {
  int number = 0;
  for (const Row& row : rows) {
    ++number;
    EXPECT_EQ(Render(agent_.Step(row.event,
                                 absl::UnixEpoch() + absl::Seconds(row.at))),
              row.expect)
        << "row " << number << ", at " << row.at << " s";
  }
}

std::string AgentStory::Text(const v1::AgentMessage& m) {
  switch (m.kind_case()) {
    case v1::AgentMessage::kHello:
      hello_ = m.hello();
      return absl::StrCat("hello i", hello_.incarnation(),
                          hello_.setting_up() ? " setting up" : "");
    case v1::AgentMessage::kPrepared:
      return absl::StrCat("prepared ", m.prepared().generation(),
                          States(m.prepared()));
    case v1::AgentMessage::kRefused:
      return absl::StrCat("refused ", m.refused().generation());
    case v1::AgentMessage::kStopped:
      return absl::StrCat("stopped ", m.stopped().generation());
    case v1::AgentMessage::kRankExited:
      return absl::StrCat("exited ", m.rank_exited().local_rank(), "=",
                          m.rank_exited().code(), "/", m.rank_exited().signal(),
                          m.rank_exited().stopped_by_agent() ? " by us" : "",
                          m.rank_exited().killed() ? ", killed" : "",
                          m.rank_exited().gone() ? " gone" : "");
    case v1::AgentMessage::kExchange:
      return absl::StrCat("exchange ", m.exchange().key(), "=",
                          absl::StrJoin(m.exchange().values(), ","));
    case v1::AgentMessage::kStore: {
      std::string text = "store";
      for (const v1::StoreAsked& asked : m.store().asked()) {
        absl::StrAppend(&text, " ", asked.operation());
      }
      return absl::StrCat(text, m.store().records_end() ? " all kept" : "");
    }
    case v1::AgentMessage::kHeartbeat:
      ranks_link_ = m.heartbeat().ranks_link();
      start_took_s_ =
          m.heartbeat().has_start_took()
              ? absl::ToDoubleSeconds(FromProto(m.heartbeat().start_took()))
              : -1;
      return absl::StrCat(
          "beat ", m.heartbeat().step(),
          m.heartbeat().has_pace()
              ? absl::StrCat(" loss ", m.heartbeat().pace().loss())
              : "");
    case v1::AgentMessage::kLeaving:
      return "leaving";
    case v1::AgentMessage::kEndSeen:
      return "end-seen";
    case v1::AgentMessage::kNoticeSeen:
      return absl::StrCat("notice-seen ", m.notice_seen().notice(), " of ",
                          m.notice_seen().generation());
    case v1::AgentMessage::kRankStalled:
      return TextOf(m.rank_stalled());
    case v1::AgentMessage::kSetupEnded:
      return absl::StrCat("set-up ", m.setup_ended().code(), "/",
                          m.setup_ended().signal(),
                          m.setup_ended().timed_out() ? " timed out" : "",
                          " in ", m.setup_ended().tries());
    case v1::AgentMessage::kFactChange:
      return absl::StrCat("changed ", m.fact_change().subject());
    case v1::AgentMessage::kGroupListening:
      return absl::StrCat("listens ", m.group_listening().round());
    case v1::AgentMessage::kGroupChecked:
      return absl::StrCat("checked ", m.group_checked().round());
    case v1::AgentMessage::kCheckReport:
      return absl::StrCat("report ", m.check_report().request(), " ",
                          m.check_report().findings_size());
    default:
      return "?";
  }
}

std::string AgentStory::Render(const std::vector<AgentAction>& actions) {
  std::vector<std::string> told;
  for (const AgentAction& action : actions) {
    if (std::holds_alternative<Dial>(action)) {
      told.push_back("dial");
    } else if (const auto* say = std::get_if<Say>(&action)) {
      told.push_back(Text(say->message));
    } else if (const auto* p = std::get_if<Prepare>(&action)) {
      told.push_back(absl::StrCat("PREPARE ", p->world.generation()));
    } else if (const auto* u = std::get_if<Undo>(&action)) {
      told.push_back(absl::StrCat("UNDO ", u->generation));
    } else if (const auto* s = std::get_if<StartRanks>(&action)) {
      told.push_back(TextOf(*s));
    } else if (const auto* abort = std::get_if<AbortRanks>(&action)) {
      told.push_back(absl::StrCat("ABORT ", abort->generation));
    } else if (const auto* tell = std::get_if<TellNotice>(&action)) {
      told.push_back(absl::StrCat("NOTICE ", tell->notice.notice(), " ",
                                  absl::FormatDuration(tell->deadline)));
    } else if (const auto* look = std::get_if<LookAtRank>(&action)) {
      told.push_back(absl::StrCat("LOOK ", look->incarnation.local_rank));
    } else if (const auto* run = std::get_if<RunChecks>(&action)) {
      told.push_back(absl::StrCat("CHECK ", run->request));
    } else if (const auto* run = std::get_if<RunProbe>(&action)) {
      told.push_back(absl::StrCat("PROBE ", run->probe.probe()));
    } else if (const auto* run = std::get_if<RunGroupCheck>(&action)) {
      told.push_back(run->check.has_value()
                         ? absl::StrCat("GROUP ", run->check->round())
                         : "END GROUP");
    } else if (const auto* stop = std::get_if<StopRanks>(&action)) {
      told.push_back(absl::StrCat("STOP ", TextOf(stop->ranks), " ",
                                  absl::FormatDuration(stop->grace)));
    } else if (const auto* a = std::get_if<AnswerExchange>(&action)) {
      told.push_back(absl::StrCat("ANSWER ", a->exchange.key(),
                                  a->exchange.code() != 0 ? " refused" : ""));
    } else if (const auto* answer = std::get_if<AnswerStore>(&action)) {
      told.push_back(absl::StrCat("STORED ", answer->ticket, "=",
                                  answer->result.number()));
    } else if (const auto* f = std::get_if<FailRequests>(&action)) {
      told.push_back(absl::StrCat("FAIL ", f->generation));
    } else if (const auto* p = std::get_if<PassSignal>(&action)) {
      told.push_back(absl::StrCat("PASS ", TextOf(p->ranks), " ", p->signal));
    } else if (std::holds_alternative<RunSetup>(action)) {
      told.push_back("SET UP");
    } else if (const auto* end = std::get_if<StopSetupCommand>(&action)) {
      told.push_back(
          absl::StrCat("STOP SET-UP ", absl::FormatDuration(end->grace)));
    } else if (const auto* e = std::get_if<Exit>(&action)) {
      told.push_back(absl::StrCat("EXIT ", e->code));
    }
  }
  return absl::StrJoin(told, "; ");
}

RanksGone Gone(uint64_t generation, std::vector<uint32_t> ranks) {
  RanksGone gone;
  for (const uint32_t rank : ranks) gone.ranks.push_back({generation, rank});
  return gone;
}

FromDaemon Welcome(const std::string& credential) {
  FromDaemon from;
  v1::Welcome& welcome = *from.message.mutable_welcome();
  welcome.set_run("run1");
  welcome.set_node_credential(credential);
  ToProto(absl::Seconds(5), welcome.mutable_lease());
  ToProto(absl::Seconds(1), welcome.mutable_heartbeat_interval());
  ToProto(absl::Minutes(10), welcome.mutable_daemon_grace());
  ToProto(absl::Seconds(15), welcome.mutable_stop_grace());
  return from;
}

FromDaemon WelcomeToSetup() {
  FromDaemon from = Welcome();
  from.message.mutable_welcome()->set_takes_setup_ended(true);
  return from;
}

FromDaemon Proposal(uint64_t generation) {
  v1::World world;
  world.set_job("demo");
  world.set_run("run1");
  world.set_generation(generation);
  world.set_world_size(3);
  v1::Member& a = *world.add_members();
  a.set_node("a");
  a.set_ranks(1);
  a.set_address("10.7.0.1");
  v1::Member& b = *world.add_members();
  b.set_node("b");
  b.set_node_rank(1);
  b.set_seat(1);
  b.set_first_rank(1);
  b.set_address("10.7.0.2");
  b.set_ranks(2);
  FromDaemon from;
  from.message.mutable_proposal()->set_generation(generation);
  from.message.mutable_proposal()->set_world(EncodeWorld(world));
  return from;
}

FromDaemon ProposalOnce(uint64_t generation, bool first) {
  FromDaemon from = Proposal(generation);
  v1::World world;
  EXPECT_TRUE(world.ParseFromString(from.message.proposal().world()));
  for (v1::Member& member : *world.mutable_members()) member.set_once(true);
  if (first) {
    v1::Member& b = *world.mutable_members(1);
    b.set_node_rank(0);
    b.set_first_rank(0);
    v1::Member& a = *world.mutable_members(0);
    a.set_node_rank(1);
    a.set_first_rank(2);
    // CommitOf names the address of node rank 0.
    a.mutable_address()->swap(*b.mutable_address());
    world.mutable_members()->SwapElements(0, 1);
  }
  from.message.mutable_proposal()->set_world(EncodeWorld(world));
  return from;
}

FromDaemon CommitOf(uint64_t generation, std::optional<uint32_t> source) {
  v1::WorldCommit world_commit;
  world_commit.set_generation(generation);
  world_commit.set_master_address("10.7.0.1");
  world_commit.set_master_port(23456);
  if (source.has_value())
    world_commit.mutable_state_source()->set_rank(*source);
  FromDaemon from;
  from.message.mutable_commit()->set_generation(generation);
  from.message.mutable_commit()->set_world_commit(
      world_commit.SerializeAsString());
  from.message.mutable_commit()->set_proof(
      absl::StrCat("proof of ", generation));
  return from;
}

FromDaemon AbortOf(uint64_t generation) {
  FromDaemon from;
  from.message.mutable_abort()->set_generation(generation);
  return from;
}

FromDaemon RanksLink() {
  FromDaemon from;
  from.message.mutable_ranks_link();
  return from;
}

FromDaemon RanksLink(uint64_t generation, double timeout_s) {
  FromDaemon from = RanksLink();
  v1::RanksLink& link = *from.message.mutable_ranks_link();
  link.set_generation(generation);
  ToProto(absl::Seconds(timeout_s), link.mutable_start_timeout());
  return from;
}

FromDaemon EndOf(int code, v1::ReasonCode reason) {
  FromDaemon from;
  from.message.mutable_end()->set_exit_code(code);
  from.message.mutable_end()->set_code(reason);
  return from;
}

StreamDown Down(absl::StatusCode code, v1::RefusalCode refusal) {
  StreamDown down;
  down.status = absl::Status(code, "told so");
  down.jitter = 0;
  down.fresh_incarnation = 12;
  if (refusal != v1::REFUSAL_CODE_UNSPECIFIED) {
    down.refusal.emplace();
    down.refusal->set_code(refusal);
    down.refusal->set_text("told so");
  }
  return down;
}

std::vector<AgentStory::Row> Running(uint64_t generation) {
  return {
      {0.0, StreamUp{}, "hello i11"},
      {0.0, Welcome(), ""},
      {0.1, Proposal(generation), absl::StrCat("PREPARE ", generation)},
      {0.2, PreparationDone{generation}, absl::StrCat("prepared ", generation)},
      {0.3, CommitOf(generation),
       absl::StrCat("START ", generation, " port 23456")},
  };
}

std::vector<AgentStory::Row> RunningLinked(uint64_t generation) {
  std::vector<AgentStory::Row> rows = Running(generation);
  rows.push_back({0.4, RankAttended{generation, 0, true}, ""});
  rows.push_back({0.4, RankAttended{generation, 1, true}, ""});
  return rows;
}

std::vector<AgentStory::Row> RunningWith(const v1::JobSettings& settings) {
  std::vector<AgentStory::Row> rows = Running(1);
  FromDaemon welcome = Welcome();
  welcome.message.mutable_welcome()->mutable_settings()->MergeFrom(settings);
  rows[1].event = welcome;
  return rows;
}

FromDaemon AbortFor(const std::string& node, uint32_t local_rank) {
  FromDaemon from = AbortOf(1);
  from.message.mutable_abort()->set_code(v1::REASON_CODE_HANG);
  from.message.mutable_abort()->set_hung_node(node);
  from.message.mutable_abort()->set_hung_local_rank(local_rank);
  return from;
}

}  // namespace rollcall
