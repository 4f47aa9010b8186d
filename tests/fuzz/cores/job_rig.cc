#include "tests/fuzz/cores/job_rig.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/formation/world.h"
#include "daemon/journal/fold.h"
#include "tests/fuzz/oracle.h"

namespace rollcall {
namespace {

constexpr char kJob[] = "demo";
// A job that was stopped ends after at most this many deadlines. While a member
// may come back before a newcomer is probed, there is one deadline each second.
constexpr int kDeadlinesToTheEnd = 1024;

}  // namespace

void JobRig::Begin(const v1::JobSettings& settings) {
  journal_.run = "0badcafe";
  job_.emplace(kJob, journal_.run, settings, Limits(), now_);
  job_->AllowAdoption();
  GiveKeys();
  Carry(job_->Start());
}

// Only the key of probes is set, because this rig does not fuzz the others.
void JobRig::GiveKeys() {
  JobKeys keys;
  keys.probe_secret = [](uint64_t round, const std::string& word) {
    std::string secret = absl::StrCat(round, " ", word);
    secret.resize(Limits::probe_bytes, '.');
    return secret;
  };
  job_->UseKeys(std::move(keys));
}

bool JobRig::TakeUp(const JournalState& journal) {
  if (!Job::CheckJournal(journal).ok()) return false;
  journal_ = journal;
  Restart();
  return true;
}

void JobRig::Restart() {
  if (journal_.end.has_value()) return;
  open_.clear();
  closing_.clear();
  probes_.clear();
  forgotten_ = false;
  notice_min_ = 0;
  revision_ = 0;
  job_.emplace(Job::Restore(kJob, journal_, Limits(), now_));
  GiveKeys();
  // Lower than the journal's highest if the run was adopted from its members.
  generation_ = job_->Status(now_).generation();
  Expect(generation_ <= journal_.generation,
         "a run goes on in a generation that was journaled");
  Carry(job_->Start());
}

SessionId JobRig::Hello(v1::Hello hello, const std::string& address) {
  if (!AdmitHello(hello).ok() || forgotten_) return 0;
  CleanHello(hello);
  // The shell does not let in a credential that was replaced by another one.
  if (hello.credential_case() == v1::Hello::kNodeCredential &&
      !job_->CredentialStands(hello)) {
    return 0;
  }
  const SessionId session = ++last_session_;
  open_.insert(session);
  // Any proof counts as one that the shell has verified.
  const bool proven = !hello.resume_state().proof().empty();
  // Any nonce counts as one whose life the shell knows.
  std::vector<uint64_t> swept;
  for (const std::string& nonce : hello.swept_nonces()) {
    swept.push_back(static_cast<unsigned char>(nonce[0]));
  }
  hello.clear_swept_nonces();
  Step(Attend{
      session, std::move(hello), address, 0, proven, {}, {}, std::move(swept)});
  return session;
}

void JobRig::Message(SessionId session, v1::AgentMessage message) {
  if (!open_.contains(session)) return;
  if (!AdmitMessage(message).ok()) return CloseStream(session);
  CleanMessage(message);
  Step(Said{session, std::move(message)});
}

void JobRig::CloseStream(SessionId session) {
  if (open_.erase(session) + closing_.erase(session) == 0) return;
  Step(StreamClosed{session});
}

void JobRig::Stop(int exit_code, std::string_view reason, bool now) {
  Step(StopAsked{exit_code, v1::REASON_CODE_STOPPED, Printable(reason, 256),
                 now});
  stopped_ = true;
  Expect(!now || job_->end().has_value(), "a stop without patience is the end");
}

void JobRig::Drain(const std::string& node, absl::Duration deadline,
                   std::string_view reason) {
  if (!job_->Knows(node)) return;
  Step(DrainAsked{node, deadline, Printable(reason, 256)});
}

void JobRig::Evict(const std::string& node, std::string_view reason) {
  if (job_->end().has_value() || !job_->HasAdmitted(node)) return;
  const uint64_t before = job_->node_epochs().EpochOf(node);
  const bool former = job_->EvictsFormer(node);
  Step(EvictAsked{{node}, Printable(reason, 256), former});
  if (former) return Expect(job_->Knows(node), "who has the name stays", node);
  Expect(job_->node_epochs().EpochOf(node) > before,
         "an evicted node's credential is dead", node);
  Expect(job_->end().has_value() || journal_.node_epochs.EpochOf(node) > before,
         "an eviction is journaled", node);
}

void JobRig::Tick(absl::Duration late) {
  Step(rollcall::Tick{late});
  if (job_->NextDeadline() > now_) return;
  // What the first tick began may be due at once, but nothing after that.
  Step(rollcall::Tick{});
  Expect(job_->NextDeadline() > now_, "a tick leaves nothing due");
}

void JobRig::Wait(absl::Duration time) { now_ += time; }

void JobRig::Finish() {
  CheckStatus();
  ExpectSerializes(job_->Status(now_));
  if (!stopped_) return;
  for (int i = 0; i < kDeadlinesToTheEnd && !job_->end().has_value(); ++i) {
    const absl::Time next = job_->NextDeadline();
    Expect(next != absl::InfiniteFuture(), "a stop has a deadline");
    now_ = std::max(now_, next);
    Tick(absl::ZeroDuration());
  }
  Expect(job_->end().has_value(), "a job that was stopped ends");
}

void JobRig::Step(const Event& event) {
  // The shell has forgotten the job, so the job gets no more events.
  if (forgotten_) return;
  Carry(job_->Step(event, now_));
  // NextDeadline must not fail after any step.
  job_->NextDeadline();
}

void JobRig::Carry(const std::vector<Action>& actions) {
  for (const Action& action : actions) {
    std::visit([this](const auto& a) { Take(a); }, action);
  }
  if (job_->revision() != revision_) CheckStatus();
}

void JobRig::Take(const Send& send) {
  for (const SessionId session : send.to) {
    Expect(open_.contains(session) || closing_.contains(session),
           "a message goes to a stream that is there",
           send.message.ShortDebugString());
  }
  ExpectPrintable(send.message);
  if (send.message.has_proposal()) CheckProposal(send.message.proposal());
  if (send.message.has_commit()) CheckCommit(send.message.commit());
  if (send.message.has_notice()) CheckNotice(send.message.notice());
  if (send.message.has_probe()) {
    CheckProbe(send.message.probe());
    for (const SessionId to : send.to) probes_[to] = send.message.probe();
  }
  if (send.message.has_check_request()) {
    Expect(!journal_.end.has_value(), "an ended job asks for no checks");
    check_ = send.message.check_request().request();
  }
}

void JobRig::Take(const rollcall::CloseStream& close) {
  Expect(open_.erase(close.session) == 1 || closing_.contains(close.session),
         "a stream is ended that is there", close.refusal.ShortDebugString());
  closing_.insert(close.session);
  // UNAVAILABLE tells the agent to dial again, and needs no other code.
  Expect(close.refusal.code() != v1::REFUSAL_CODE_UNSPECIFIED ||
             close.code == absl::StatusCode::kUnavailable,
         "a refusal has a code", close.refusal.text());
  ExpectPrintable(close.refusal);
}

void JobRig::Take(const Journal& entry) {
  Expect(!journal_.end.has_value(), "nothing is journaled after the end");
  if (entry.kind == Journal::Kind::kRunStarted && job_->run() != journal_.run) {
    // The job has adopted the run of its agents.
    journal_ = JournalState();
    journal_.run = job_->run();
  }
  if (entry.kind == Journal::Kind::kCommitted) {
    Expect(entry.generation == journal_.generation &&
               journal_.proposal.has_value(),
           "a commit follows its proposal");
  }
  if (entry.kind == Journal::Kind::kProposed) {
    Expect(entry.generation > journal_.generation, "generations only grow");
    v1::Proposal proposal;
    Expect(proposal.ParseFromString(entry.body) &&
               proposal.generation() <= entry.generation,
           "a proposal is journaled under its generation or a later one");
    generation_ = proposal.generation();
  }
  Expect(Fold(entry, journal_).ok(), "what is journaled parses");
}

void JobRig::Take(const Log& log) { ExpectPrintable("a log line", log.text); }

void JobRig::Take(const Forget&) {
  Expect(job_->end().has_value(), "only a job that has ended is forgotten");
  forgotten_ = true;
}

void JobRig::CheckCommit(const v1::Commit& commit) {
  Expect(
      commit.generation() == generation_ && journal_.world_commit.has_value() &&
          journal_.world_commit->SerializeAsString() == commit.world_commit(),
      "a commit is journaled before it is sent", commit.ShortDebugString());
  const absl::StatusOr<v1::World> world =
      DecodeWorld(journal_.proposal->world());
  Expect(world.ok() && AdmitWorldCommit(*journal_.world_commit, *world).ok(),
         "a world commit fits its world",
         journal_.world_commit->ShortDebugString());
}

void JobRig::CheckNotice(const v1::Notice& notice) {
  Expect(
      notice.generation() == generation_ && journal_.world_commit.has_value(),
      "a notice is of a world that runs", notice.ShortDebugString());
  Expect(notice.notice() > 0 && notice.notice() >= notice_min_,
         "the numbers of notices grow", notice.ShortDebugString());
  Expect(!notice.has_deadline() || notice.deadline().seconds() >= 0,
         "a deadline is not in the past", notice.ShortDebugString());
  notice_ = notice_min_ = notice.notice();
}

void JobRig::CheckProbe(const v1::Probe& probe) {
  const std::string text = probe.ShortDebugString();
  Expect(probe.ask().size() == Limits::probe_bytes,
         "a probe's secrets have their size", text);
  Expect(
      static_cast<size_t>(probe.answers_size()) <= Limits::probe_addresses_max,
      "a probe has a bound", text);
  for (const v1::ProbeAnswer& answer : probe.answers()) {
    Expect(answer.answer().size() == Limits::probe_bytes,
           "a probe's secrets have their size", text);
  }
  Expect(static_cast<size_t>(probe.targets_size()) <= Limits::probe_targets_max,
         "a probe has a bound", text);
  for (const v1::ProbeTarget& target : probe.targets()) {
    Expect(target.port() > 0 && target.port() <= UINT16_MAX,
           "a target has a port", text);
    Expect(target.addresses_size() > 0 &&
               static_cast<size_t>(target.addresses_size()) <=
                   Limits::probe_addresses_max,
           "a target's addresses have a bound", text);
    for (const std::string& address : target.addresses()) {
      Expect(AdmitAddress(address).ok(), "a target has addresses", text);
    }
  }
}

void JobRig::CheckProposal(const v1::Proposal& proposal) {
  Expect(proposal.generation() == generation_ &&
             journal_.proposal.has_value() &&
             journal_.proposal->world() == proposal.world(),
         "a proposal is journaled before it is sent");
  const absl::StatusOr<v1::World> world = DecodeWorld(proposal.world());
  Expect(world.ok(), "a proposal's world decodes",
         std::string(world.status().message()));
  ExpectPrintable(*world);
  const auto members = static_cast<uint32_t>(world->members_size());
  Expect(members >= journal_.settings.nodes_min() &&
             members <= journal_.settings.nodes_max(),
         "a world has min to max nodes");
  std::set<std::string> names;
  std::set<uint32_t> seats;
  for (const v1::Member& member : world->members()) {
    Expect(names.insert(member.node()).second, "a node has one row",
           member.node());
    Expect(seats.insert(member.seat()).second &&
               member.seat() < journal_.settings.nodes_max(),
           "a seat is given once", member.node());
    Expect(AdmitAddress(member.address()).ok(), "a member has an address",
           member.address());
  }
}

void JobRig::CheckStatus() {
  Expect(job_->revision() >= revision_, "revisions only grow");
  revision_ = job_->revision();
  const v1::JobStatus status = job_->Status(now_);
  ExpectPrintable(status);
  Expect(status.generation() == generation_, "Status tells the generation",
         status.ShortDebugString());
  std::set<int> seats;
  for (const v1::NodeStatus& row : status.nodes()) {
    Expect(row.seat() < 0 || seats.insert(row.seat()).second,
           "a seat is one node's", status.ShortDebugString());
  }
}

}  // namespace rollcall
