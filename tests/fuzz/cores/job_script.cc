#include "tests/fuzz/cores/job_script.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/core/network_plan/probing/probing.h"
#include "tests/fuzz/cores/job_messages.h"

namespace rollcall {
namespace {

constexpr uint32_t kNodes = 6;
constexpr uint32_t kProbePort = 40000;
constexpr const char* kNames[kNodes] = {"a",      "b",          "node2",
                                        "node10", "gpu-1.rack", "Z_9"};

class Script {
 public:
  Script(Feed& feed, JobRig& rig) : feed_(feed), rig_(rig) {}

  void Play(int steps_max) {
    for (int i = 0; i < steps_max && !feed_.empty(); ++i) One();
    rig_.Finish();
  }

 private:
  void One() {
    const uint8_t byte = feed_.Byte();
    if (byte >= static_cast<uint8_t>(JobOp::kProbedAll)) return SayAllProbed();
    if (byte >= static_cast<uint8_t>(JobOp::kProbed)) return SayProbed();
    if (byte >= static_cast<uint8_t>(JobOp::kProbedHello)) {
      return SayHello(kProbePort);
    }
    if (byte >= static_cast<uint8_t>(JobOp::kFactChange)) {
      return SayFactChange();
    }
    const uint32_t op = byte % static_cast<uint32_t>(JobOp::kCount);
    switch (static_cast<JobOp>(op)) {
      case JobOp::kHello:
        return SayHello(0);
      case JobOp::kHelloBytes: {
        v1::Hello hello;
        if (!Parse(hello)) return;
        hello.set_job("demo");
        rig_.Hello(std::move(hello), "10.7.0.9");
        return;
      }
      case JobOp::kMessageBytes: {
        const SessionId who = Who();
        v1::AgentMessage message;
        if (Parse(message)) rig_.Message(who, std::move(message));
        return;
      }
      case JobOp::kPreparedAll:
        for (uint32_t i = 0; i < kNodes; ++i) {
          rig_.Message(sessions_[i], Prepared(rig_.generation()));
        }
        return;
      case JobOp::kClosed:
        return rig_.CloseStream(Who());
      case JobOp::kStop: {
        const int code = feed_.Byte();
        const bool now = feed_.Flag();
        return rig_.Stop(code, feed_.Text(), now);
      }
      case JobOp::kTick:
        return rig_.Tick(absl::Milliseconds(feed_.Byte()) * feed_.Byte());
      case JobOp::kWait:
        return Wait();
      case JobOp::kRestart:
        return rig_.Restart();
      case JobOp::kDrain:
        return Drain();
      case JobOp::kNoticeSeenAll:
        for (uint32_t i = 0; i < kNodes; ++i) {
          v1::AgentMessage message;
          message.mutable_notice_seen()->set_notice(rig_.notice());
          message.mutable_notice_seen()->set_generation(rig_.generation());
          rig_.Message(sessions_[i], std::move(message));
        }
        return;
      case JobOp::kClaim:
        return Claim();
      default:
        return Say(static_cast<JobOp>(op));
    }
  }

  template <typename Message>
  bool Parse(Message& message) {
    const std::string_view bytes = feed_.Text();
    return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  }

  SessionId Who() { return sessions_[feed_.Pick(kNodes)]; }

  // Advances the time to the next deadline and past it, or by some time that
  // does not depend on deadlines.
  void Wait() {
    const uint8_t how = feed_.Byte();
    if (how >= 0x80) {
      const absl::Time next = rig_.NextDeadline();
      if (next != absl::InfiniteFuture() && next > rig_.now()) {
        rig_.Wait(next - rig_.now());
      }
      rig_.Wait(absl::Milliseconds(how & 0x7F));
      return rig_.Tick(absl::ZeroDuration());
    }
    rig_.Wait(absl::Milliseconds(1) * (1 << (how % 20)));
  }

  // The Hello of one node; its options are the bits of a few bytes.
  // `probe_port`: 0: the node cannot be probed.
  void SayHello(uint32_t probe_port) {
    const uint32_t node = feed_.Pick(kNodes);
    const uint8_t what = feed_.Byte();
    v1::Hello hello = HelloOf(node);
    hello.set_incarnation(1 + (what & 3));
    hello.set_ranks(1 + ((what >> 2) & 1));
    hello.set_launcher((what & 8) != 0);
    if ((what & 16) != 0) hello.set_run(rig_.run());
    if ((what & 32) != 0) FillResumeState(*hello.mutable_resume_state());
    if ((what & 48) == 48) hello.set_node_credential("genuine");
    if ((what & 64) != 0) Disagree(hello);
    hello.set_command_digest(std::string(32, what < 0x80 ? 'x' : 'y'));
    hello.mutable_facts()->set_probe_port(probe_port);
    Attend(node, std::move(hello));
  }

  // The result of a prober that has reached the target at `address`.
  v1::ProbeResult Reached(const v1::ProbeTarget& target,
                          const std::string& address) {
    v1::ProbeResult result;
    result.set_node(target.node());
    result.set_address(address);
    for (uint32_t i = 0; i < kNodes; ++i) {
      if (target.node() != kNames[i]) continue;
      result.set_answer(AnswerAt(rig_.ProbeOf(sessions_[i]), address));
    }
    ToProto(absl::Milliseconds(1), result.mutable_round_trip());
    return result;
  }

  void SayAllProbed() {
    for (const SessionId session : sessions_) {
      const v1::Probe probe = rig_.ProbeOf(session);
      v1::AgentMessage message;
      message.mutable_probed()->set_probe(probe.probe());
      for (const v1::ProbeTarget& target : probe.targets()) {
        for (const std::string& address : target.addresses()) {
          *message.mutable_probed()->add_results() = Reached(target, address);
        }
      }
      rig_.Message(session, std::move(message));
    }
  }

  void SayProbed() {
    const SessionId session = Who();
    const uint8_t what = feed_.Byte();
    const v1::Probe probe = rig_.ProbeOf(session);
    v1::AgentMessage message;
    v1::Probed& probed = *message.mutable_probed();
    probed.set_probe((what & 1) != 0 ? feed_.Number() : probe.probe());
    for (const v1::ProbeTarget& target : probe.targets()) {
      for (const std::string& address : target.addresses()) {
        v1::ProbeResult result = Reached(target, address);
        const uint32_t found = feed_.Pick(4);
        if (found == 1) result.set_answer(feed_.String());
        if (found == 2) result.clear_answer();
        if (found == 2) result.set_error(feed_.String());
        if (found != 3) *probed.add_results() = std::move(result);
      }
    }
    // A result that was not asked for.
    if ((what & 2) != 0) {
      v1::ProbeResult& result = *probed.add_results();
      result.set_node(feed_.Flag() ? kNames[feed_.Pick(kNodes)]
                                   : feed_.String());
      result.set_address(feed_.Flag() ? "10.7.0.1" : feed_.String());
      result.set_answer(feed_.String());
      result.mutable_round_trip()->set_seconds(
          static_cast<int64_t>(feed_.Number()));
    }
    rig_.Message(session, std::move(message));
  }

  void SayFactChange() {
    const SessionId session = Who();
    v1::AgentMessage message;
    v1::FactChange& change = *message.mutable_fact_change();
    change.set_kind(static_cast<v1::FactKind>(feed_.Pick(9)));
    change.set_count(feed_.Pick(4));
    change.set_subject(feed_.String());
    change.set_before(feed_.String());
    change.set_after(feed_.String());
    // More than are kept, and than may come at once.
    for (uint32_t i = feed_.Pick(64); i > 0; --i)
      rig_.Message(session, message);
    rig_.Message(session, std::move(message));
  }

  // An admin's request to drain a node, with a deadline that the shell has
  // checked.
  void Drain() {
    const uint32_t node = feed_.Pick(kNodes + 1);
    const uint8_t how = feed_.Byte();
    const absl::Duration deadline =
        how == 0xFF ? absl::InfiniteDuration() : absl::Milliseconds(how) * how;
    const std::string name = node < kNodes ? kNames[node] : feed_.String();
    // One value of the deadline stands for an eviction.
    if (how == 0xFE) return rig_.Evict(name, feed_.Text());
    rig_.Drain(name, deadline, feed_.Text());
  }

  // The Hello of an agent in a world that this daemon may not remember. The
  // second byte determines the world, so that several nodes claim the same one.
  void Claim() {
    const uint32_t node = feed_.Pick(kNodes);
    const uint8_t what = feed_.Byte();
    v1::World world;
    world.set_job("demo");
    world.set_run((what & 16) != 0 ? "older-run" : "oldest");
    world.set_generation((what & 32) != 0 ? 1u : uint64_t{1} << 61);
    world.set_restarts_charged((what & 64) != 0 ? 0xFFFFFFFF : 1);
    const uint32_t members = 1 + (what & 3);
    for (uint32_t i = 0; i < members; ++i) {
      v1::Member& member = *world.add_members();
      member.set_node(kNames[i]);
      member.set_node_rank(i);
      member.set_seat((what & 4) != 0 ? members - 1 - i : i);
      member.set_first_rank(i);
      member.set_ranks(1);
      member.set_address(absl::StrCat("10.7.0.", i + 1));
    }
    world.set_world_size(members);
    v1::WorldCommit world_commit;
    world_commit.set_generation(world.generation());
    world_commit.set_master_address("10.7.0.1");
    world_commit.set_master_port((what & 128) != 0 ? 1 : 23456);
    if ((what & 8) != 0) {
      world_commit.mutable_state_source()->set_rank(
          static_cast<uint32_t>(feed_.Number()));
    }
    for (uint32_t i = 0; i < members; ++i) {
      world_commit.add_incarnations(1);
      world_commit.add_epochs(0);
      world_commit.add_token_of(0);
    }
    v1::Hello hello = HelloOf(node);
    hello.set_node_credential("genuine");
    hello.set_incarnation(1);
    hello.mutable_resume_state()->set_proof("genuine");
    hello.set_ranks(1);
    hello.set_run(world.run());
    hello.set_generation_seen(world.generation());
    hello.mutable_resume_state()->set_running_generation(world.generation());
    hello.mutable_resume_state()->set_world(world.SerializeAsString());
    hello.mutable_resume_state()->set_world_commit(
        world_commit.SerializeAsString());
    Attend(node, std::move(hello));
  }

  static v1::Hello HelloOf(uint32_t node) {
    v1::Hello hello;
    hello.set_job("demo");
    hello.set_node(kNames[node]);
    hello.mutable_token()->set_id("abc123");
    hello.mutable_token()->set_secret("0123456789abcdef");
    FillFacts(node, *hello.mutable_facts());
    return hello;
  }

  void Attend(uint32_t node, v1::Hello hello) {
    const SessionId session =
        rig_.Hello(std::move(hello), absl::StrCat("10.7.0.", node + 1));
    if (session != 0) sessions_[node] = session;
  }

  void FillResumeState(v1::ResumeState& resume_state) {
    resume_state.set_prepared_generation(ReadGeneration(feed_, rig_));
    resume_state.set_running_generation(ReadGeneration(feed_, rig_));
    resume_state.set_proof(std::string(feed_.Pick(3) * 32, 'p'));
  }

  // Makes this Hello differ from the others of its node.
  void Disagree(v1::Hello& hello) {
    switch (feed_.Pick(8)) {
      case 0:
        hello.set_run("another-run");
        return;
      case 1:
        hello.mutable_settings()->set_nodes_max(1 + feed_.Byte());
        return;
      case 2:
        hello.set_generation_seen(feed_.Number());
        return;
      case 3:
        hello.set_node_credential(std::string(16, feed_.Byte()));
        return;
      case 4:
        hello.mutable_facts()->clear_interfaces();
        return;
      case 5:
        hello.mutable_facts()->set_boot_id("boot-0");
        return;
      case 6:
        hello.set_version(feed_.String());
        return;
      default:
        hello.set_node(feed_.String());
    }
  }

  // Sends one message of one node.
  void Say(JobOp op) {
    const SessionId who = Who();
    rig_.Message(who, ReadMessage(op, feed_, rig_));
  }

  Feed& feed_;
  JobRig& rig_;
  std::array<SessionId, kNodes> sessions_ = {};
};

}  // namespace

v1::JobSettings ReadSettings(Feed& feed) {
  v1::JobSettings settings;
  const uint8_t first = feed.Byte();
  const uint32_t min = 1 + first % 3;
  settings.set_nodes_min(min);
  settings.set_nodes_max(min + feed.Pick(3));
  const uint8_t what = feed.Byte();
  settings.set_max_restarts(what & 3);
  if ((what & 4) != 0) settings.add_expected_nodes("a");
  if ((what & 8) != 0) settings.add_expected_nodes("nobody");
  if ((what & 16) != 0) {
    ToProto(absl::Milliseconds(100 + feed.Byte()), settings.mutable_lease());
  }
  if ((what & 32) != 0) {
    ToProto(absl::Milliseconds(feed.Byte()),
            settings.mutable_reconnect_grace());
  }
  if ((what & 64) != 0) {
    ToProto(absl::Milliseconds(feed.Byte()), settings.mutable_join_timeout());
  }
  if ((what & 128) != 0) settings.set_grow(v1::GROW_NEVER);
  // The bits of the first byte that were not used above.
  const uint8_t more = first / 3;
  if ((more & 1) != 0) {
    ToProto(absl::Milliseconds(more), settings.mutable_linger());
  }
  if ((more & 2) != 0) {
    ToProto(absl::Milliseconds(more), settings.mutable_stop_grace());
  }
  if ((more & 4) != 0) {
    ToProto(absl::ZeroDuration(), settings.mutable_last_call());
  }
  if ((more & 8) != 0) {
    ToProto(absl::Milliseconds(more), settings.mutable_daemon_grace());
  }
  if ((more & 16) != 0) {
    ToProto(absl::Milliseconds(more), settings.mutable_reattach_grace());
  }
  return settings;
}

void Play(Feed& feed, JobRig& rig, int steps_max) {
  Script(feed, rig).Play(steps_max);
}

}  // namespace rollcall
