#include "tests/fuzz/job_script.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/durations.h"

namespace rollcall {
namespace {

constexpr uint32_t kNodes = 6;
constexpr const char* kNames[kNodes] = {"a",      "b",          "node2",
                                        "node10", "gpu-1.rack", "Z_9"};

class Script {
 public:
  Script(Feed& feed, JobRig& rig) : feed_(feed), rig_(rig) {}

  void Play(int steps_most) {
    for (int i = 0; i < steps_most && !feed_.empty(); ++i) One();
    rig_.Finish();
  }

 private:
  void One() {
    const uint32_t op = feed_.Pick(static_cast<uint32_t>(JobOp::kCount));
    switch (static_cast<JobOp>(op)) {
      case JobOp::kHello:
        return SayHello();
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

  // Mostly the current generation, and its neighbours.
  uint64_t Generation() {
    const uint32_t how = feed_.Pick(8);
    if (how < 5) return rig_.generation();
    if (how == 5) return rig_.generation() + 1;
    if (how == 6) return rig_.generation() - 1;
    return feed_.Number();
  }

  // The way to the next deadline and past it, or by a few milliseconds.
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

  // Of one node, whose options are the bits of a few bytes.
  void SayHello() {
    const uint32_t node = feed_.Pick(kNodes);
    const uint8_t what = feed_.Byte();
    v1::Hello hello;
    hello.set_job("demo");
    hello.set_node(kNames[node]);
    hello.set_incarnation(1 + (what & 3));
    hello.set_ranks(1 + ((what >> 2) & 1));
    hello.set_launcher((what & 8) != 0);
    if ((what & 16) != 0) hello.set_run(rig_.run());
    hello.mutable_token()->set_id("abc123");
    hello.mutable_token()->set_secret("0123456789abcdef");
    FillFacts(node, *hello.mutable_facts());
    if ((what & 32) != 0) FillHeld(*hello.mutable_held());
    if ((what & 64) != 0) Disagree(hello);
    hello.set_command_digest(std::string(32, what < 0x80 ? 'x' : 'y'));
    const SessionId session =
        rig_.Hello(std::move(hello), absl::StrCat("10.7.0.", node + 1));
    if (session != 0) sessions_[node] = session;
  }

  static void FillFacts(uint32_t node, v1::Facts& facts) {
    facts.set_boot_id(absl::StrCat("boot-", node));
    v1::Interface& eth0 = *facts.add_interfaces();
    eth0.set_name("eth0");
    eth0.set_up(true);
    v1::InterfaceAddress& address = *eth0.add_addresses();
    address.set_address(absl::StrCat("10.7.0.", node + 1));
    address.set_prefix_length(24);
  }

  void FillHeld(v1::Held& held) {
    held.set_prepared_generation(Generation());
    held.set_running_generation(Generation());
    for (uint32_t i = feed_.Pick(3); i > 0; --i) FillExit(*held.add_exits());
  }

  // What sets this Hello apart from the others of its node.
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

  v1::AgentMessage Prepared(uint64_t generation) {
    v1::AgentMessage message;
    message.mutable_prepared()->set_generation(generation);
    message.mutable_prepared()->set_master_port(23456);
    return message;
  }

  void FillExit(v1::RankExited& exited) {
    exited.set_generation(Generation());
    exited.set_local_rank(feed_.Pick(3));
    const uint8_t how = feed_.Byte();
    if (how >= 0x80) exited.set_signal(how & 0x0F);
    if (how < 0x40) exited.set_code(how);
    exited.set_hang(how == 0x40);
    exited.set_stopped_by_agent(how == 0x41);
    if ((how & 0x20) != 0) exited.set_stderr_tail(feed_.String());
    if ((how & 0x10) != 0) exited.set_error_file(feed_.String());
  }

  void FillExchange(v1::ExchangeIn& in) {
    in.set_generation(Generation());
    in.set_key(absl::StrCat("key", feed_.Byte()));
    for (uint32_t i = feed_.Pick(3); i > 0; --i) {
      in.add_values(std::string(1, static_cast<char>(feed_.Byte())));
    }
  }

  // One message of one node.
  void Say(JobOp op) {
    const SessionId who = Who();
    v1::AgentMessage message;
    switch (op) {
      case JobOp::kBeat:
        message.mutable_heartbeat()->set_step(feed_.Number());
        break;
      case JobOp::kPrepared:
        message = Prepared(Generation());
        message.mutable_prepared()->set_master_port(feed_.Byte() * 257u);
        message.mutable_prepared()->set_nccl_absent(feed_.String());
        message.mutable_prepared()->add_warnings(feed_.String());
        break;
      case JobOp::kRefused:
        message.mutable_refused()->set_generation(Generation());
        message.mutable_refused()->set_reason(feed_.String());
        break;
      case JobOp::kStopped:
        message.mutable_stopped()->set_generation(Generation());
        break;
      case JobOp::kExited:
        FillExit(*message.mutable_rank_exited());
        break;
      case JobOp::kLeaving:
        message.mutable_leaving()->set_reason(feed_.String());
        break;
      case JobOp::kExchange:
        FillExchange(*message.mutable_exchange());
        break;
      default:
        message.mutable_end_seen()->set_generation(Generation());
        break;
    }
    rig_.Message(who, std::move(message));
  }

  Feed& feed_;
  JobRig& rig_;
  std::array<SessionId, kNodes> sessions_ = {};
};

}  // namespace

v1::JobSettings ReadSettings(Feed& feed) {
  v1::JobSettings settings;
  const uint32_t min = 1 + feed.Pick(3);
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
  return settings;
}

void Play(Feed& feed, JobRig& rig, int steps_most) {
  Script(feed, rig).Play(steps_most);
}

}  // namespace rollcall
