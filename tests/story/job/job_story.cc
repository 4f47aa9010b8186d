#include "tests/story/job/job_story.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/base/durations.h"
#include "daemon/core/formation/world.h"

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
            absl::Duration ping_interval = absl::ZeroDuration(),
            v1::JobSettings settings = {}) {
  const std::vector<std::string> range = absl::StrSplit(nodes, ':');
  int min = 0;
  int max = 0;
  EXPECT_TRUE(absl::SimpleAtoi(range.front(), &min));
  EXPECT_TRUE(absl::SimpleAtoi(range.back(), &max));
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

std::string Text(const v1::StoreOut& out) {
  std::string text;
  if (out.link() != 0) absl::StrAppend(&text, " open ", out.link());
  if (out.report()) text += " tell";
  for (const v1::StoreRecord& record : out.records()) {
    absl::StrAppend(&text, " keep ", record.key());
  }
  for (const v1::StoreAnswered& answered : out.answered()) {
    absl::StrAppend(&text, " ", answered.operation(), "=",
                    answered.result().number());
  }
  return text;
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

JobStory::JobStory(const std::string& nodes, const v1::JobSettings& settings)
    : job_(MakeJob(nodes, 3, v1::PREFLIGHT_UNSPECIFIED, absl::ZeroDuration(),
                   settings)) {
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
      if (m.has_store()) {
        for (const SessionId to : send->to) {
          store_told_.push_back(absl::StrCat(names_[to], ":", Text(m.store())));
        }
      }
      if (m.has_ranks_link()) {
        for (const SessionId to : send->to) {
          ranks_link_told_.push_back(names_[to]);
        }
        if (generation_ != 0) {  // Unknown for a restored job.
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
      if (m.has_group_check()) {
        const std::string& node = names_[send->to.front()];
        groups_[node] = m.group_check();
        text = absl::StrCat(node, " checks ", m.group_check().place(), "/",
                            m.group_check().addresses_size());
      }
      // Requests for checks that JobStory answers itself are left out.
      if (m.has_check_request() && checks_are_fine_) continue;
      if (!text.empty() && !send->to.empty()) told.push_back(text);
    }
  }
  return absl::StrJoin(told, "; ");
}

}  // namespace rollcall
