// An agent with a hostile daemon. The daemon's messages, as raw bytes and as
// nearly valid ones, come between the node's own events. Proposals are expanded
// as an agent expands them. What a rank may send (rank.proto) is parsed and
// given to the agent as the service of its socket does.
//
// Oracle: that of AgentRig.
#include <optional>
#include <string>

#include "daemon/codec/world_codec.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/formation/world.h"
#include "rollcall/v1/rank.pb.h"
#include "tests/fuzz/cores/agent_rig.h"
#include "tests/fuzz/feed.h"
#include "tests/fuzz/oracle.h"

namespace rollcall {
namespace {

constexpr int kStepsMax = 200;

v1::Hello OwnHello() {
  v1::Hello hello;
  hello.set_job("demo");
  hello.set_node("b");
  hello.set_incarnation(7);
  hello.set_ranks(2);
  hello.mutable_token()->set_id("abc123");
  hello.mutable_token()->set_secret("0123456789abcdef");
  return hello;
}

class Script {
 public:
  explicit Script(Feed& feed) : feed_(feed), rig_(OwnHello()) {}

  void Play() {
    for (int i = 0; i < kStepsMax && !feed_.empty(); ++i) One();
  }

 private:
  void One() {
    switch (feed_.Pick(21)) {
      case 0:
        return rig_.StreamUp();
      case 1:
        return StreamDown();
      case 2:
        return Bytes();
      case 3:
        return Welcome();
      case 4:
      case 5:
        return Propose();
      case 6:
        return Commit();
      case 7:
        return Abort();
      case 8:
        return End();
      case 9:
        return Exchange();
      case 10:
        return Waiting();
      case 11:
        return Prepared();
      case 12:
        return rig_.PreparationFailed("no free port");
      case 13:
        return RankEnded();
      case 14:
        return rig_.RanksGone();
      case 15:
        return Rank();
      case 16:
        return rig_.Signal(1 + static_cast<int>(feed_.Pick(31)), feed_.Flag());
      case 17:
        return rig_.Tick();
      case 18:
        return Wait();
      case 19:
        // All events up to a running world.
        return Run();
      default:
        return Notice();
    }
  }

  uint64_t Generation() {
    const uint32_t how = feed_.Pick(8);
    if (how < 5) return rig_.generation();
    if (how < 7) return rig_.generation() + 1;
    return feed_.Number();
  }

  void Wait() {
    const uint8_t how = feed_.Byte();
    const absl::Time next = rig_.NextDeadline();
    if (how >= 0x80 && next != absl::InfiniteFuture() && next > rig_.now()) {
      rig_.Wait(next - rig_.now());
    }
    rig_.Wait(absl::Milliseconds(how & 0x7F));
    rig_.Tick();
  }

  void StreamDown() {
    const auto code = static_cast<absl::StatusCode>(feed_.Pick(17));
    const absl::Status status(code, feed_.String());
    std::optional<v1::Refusal> refusal;
    if (feed_.Flag()) {
      // Parsed as the error details of a stream's status are.
      const std::string_view bytes = feed_.Text();
      if (!refusal.emplace().ParseFromArray(bytes.data(),
                                            static_cast<int>(bytes.size()))) {
        refusal.reset();
      }
    }
    rig_.StreamDown(status, std::move(refusal));
  }

  // A message as raw bytes, as it is received.
  void Bytes() {
    const std::string_view bytes = feed_.Text();
    v1::DaemonMessage message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return;
    }
    // A size that needs more memory than this process has is left out. The
    // codec has a limit for it, with a test of its own.
    if (message.has_proposal() &&
        message.proposal().world_bytes() < (1u << 20)) {
      ExpandWorld(*message.mutable_proposal()).IgnoreError();
    }
    rig_.FromDaemon(std::move(message));
  }

  int64_t Seconds() {
    const uint8_t how = feed_.Byte();
    return how < 0xF0 ? how : static_cast<int64_t>(feed_.Number());
  }

  void Welcome() {
    v1::DaemonMessage message;
    v1::Welcome& welcome = *message.mutable_welcome();
    welcome.set_run("0badcafe");
    for (google::protobuf::Duration* duration :
         {welcome.mutable_lease(), welcome.mutable_heartbeat_interval(),
          welcome.mutable_daemon_grace(), welcome.mutable_stop_grace()}) {
      duration->set_seconds(Seconds());
    }
    if (welcome.lease().seconds() % 2 == 1) {
      *welcome.mutable_settings()->mutable_hang_timeout() =
          welcome.stop_grace();
    }
    rig_.FromDaemon(std::move(message));
  }

  v1::World World(uint64_t generation, uint8_t odd) {
    v1::World world;
    world.set_job("demo");
    world.set_run("0badcafe");
    world.set_generation(generation);
    uint32_t next_rank = 0;
    const uint32_t others = feed_.Pick(4);
    const uint32_t own = feed_.Pick(others + 1);
    for (uint32_t i = 0; i <= others; ++i) {
      v1::Member& member = *world.add_members();
      member.set_node(i == own ? "b" : "n" + std::to_string(i));
      member.set_node_rank(i);
      member.set_seat(i);
      member.set_first_rank(next_rank);
      member.set_ranks(2);
      member.set_address("10.7.0." + std::to_string(i));
      if (odd != 0 && feed_.Pick(4) == 0) Twist(odd, world, member);
      next_rank += member.ranks();
    }
    world.set_world_size(next_rank);
    return world;
  }

  // Makes one thing invalid.
  void Twist(uint8_t odd, v1::World& world, v1::Member& member) {
    switch (odd % 10) {
      case 0:
        return member.set_ranks(static_cast<uint32_t>(feed_.Number()));
      case 1:
        return member.set_address(feed_.String());
      case 2:
        return member.set_node(feed_.String());
      case 3:
        return member.set_seat(static_cast<uint32_t>(feed_.Number()));
      case 4:
        return world.set_job(feed_.String());
      case 5:
        return world.set_run(feed_.String());
      case 6:
        return member.set_first_rank(static_cast<uint32_t>(feed_.Number()));
      case 7: {
        v1::PlannedVariable& variable = *member.add_plan();
        variable.set_name("NCCL_IB_" + feed_.String());
        variable.set_value(feed_.String());
        return;
      }
      case 8:
        return member.add_gpus()->set_model(feed_.String());
      default:
        return member.set_node_rank(static_cast<uint32_t>(feed_.Number()));
    }
  }

  void Propose() {
    const uint64_t generation = Generation();
    const uint8_t odd = feed_.Byte();
    v1::DaemonMessage message;
    v1::Proposal& proposal = *message.mutable_proposal();
    proposal.set_generation(generation);
    proposal.set_world(EncodeWorld(World(generation, odd)));
    proposal.set_compression(v1::COMPRESSION_NONE);
    proposal.set_world_bytes(static_cast<uint32_t>(proposal.world().size()));
    if (feed_.Flag()) {
      const std::string plain = proposal.world();
      CompressWorld(proposal);
      const absl::Status expanded = ExpandWorld(proposal);
      Expect(expanded.ok() && proposal.world() == plain,
             "a compressed world expands to itself");
    }
    rig_.FromDaemon(std::move(message));
  }

  void Commit() {
    v1::WorldCommit world_commit;
    world_commit.set_generation(Generation());
    world_commit.set_master_address(feed_.Flag() ? feed_.String() : "10.7.0.0");
    world_commit.set_master_port(static_cast<uint32_t>(feed_.Number()));
    world_commit.set_nccl_absent(feed_.String());
    const uint8_t what = feed_.Byte();
    if ((what & 1) != 0) world_commit.add_nccl_ids(std::string(128, 'i'));
    if ((what & 2) != 0) {
      world_commit.mutable_state_source()->set_rank(
          static_cast<uint32_t>(feed_.Number()));
      world_commit.mutable_state_source()->set_step(feed_.Number());
    }
    if (feed_.Flag()) world_commit.add_nccl_ids(feed_.String());
    v1::DaemonMessage message;
    message.mutable_commit()->set_generation(Generation());
    message.mutable_commit()->set_world_commit(
        world_commit.SerializeAsString());
    rig_.FromDaemon(std::move(message));
  }

  void Abort() {
    v1::DaemonMessage message;
    message.mutable_abort()->set_generation(Generation());
    message.mutable_abort()->set_reason(feed_.String());
    // Half of the aborts blame a rank, which may not exist.
    const size_t size = message.abort().reason().size();
    if (size % 2 == 1) {
      message.mutable_abort()->set_hung_node("b");
      message.mutable_abort()->set_hung_local_rank(
          static_cast<uint32_t>(size / 2));
    }
    rig_.FromDaemon(std::move(message));
  }

  void End() {
    v1::DaemonMessage message;
    v1::End& end = *message.mutable_end();
    end.set_exit_code(static_cast<int32_t>(feed_.Number()));
    end.set_reason(feed_.String());
    const uint8_t what = feed_.Byte();
    end.set_now((what & 1) != 0);
    if ((what & 2) != 0) end.mutable_linger()->set_seconds(Seconds());
    end.mutable_root_cause()->set_node(feed_.String());
    end.mutable_root_cause()->set_stderr_tail(feed_.String());
    rig_.FromDaemon(std::move(message));
  }

  void Exchange() {
    v1::DaemonMessage message;
    v1::ExchangeOut& out = *message.mutable_exchange();
    out.set_generation(Generation());
    out.set_key("k" + std::to_string(feed_.Pick(4)));
    for (uint32_t i = feed_.Pick(10); i > 0; --i) out.add_values("v");
    out.set_code(feed_.Flag() ? static_cast<uint32_t>(feed_.Number()) : 0);
    out.set_error(feed_.String());
    rig_.FromDaemon(std::move(message));
  }

  void Waiting() {
    v1::DaemonMessage message;
    v1::Waiting& waiting = *message.mutable_waiting();
    waiting.set_present(feed_.Byte());
    waiting.add_missing(feed_.String());
    waiting.set_reason(feed_.String());
    waiting.set_spare(feed_.Flag());
    rig_.FromDaemon(std::move(message));
  }

  void Prepared() {
    PreparationDone done;
    done.master_port = feed_.Byte();
    for (uint32_t i = feed_.Pick(3); i > 0; --i) {
      done.nccl_ids.emplace_back(128, 'i');
    }
    rig_.PreparationDone(done);
  }

  void RankEnded() {
    rollcall::RankEnded ended;
    ended.local_rank = feed_.Byte();
    const uint8_t how = feed_.Byte();
    ended.code = how < 0x80 ? how : 0;
    ended.signal = how < 0x80 ? 0 : how & 0x1F;
    rig_.RankEnded(ended);
  }

  // Handles a rank's bytes as the service of the agent's socket does.
  void Rank() {
    if (feed_.Flag()) {
      rig_.Exchanged(feed_.Pick(4), "k" + std::to_string(feed_.Pick(4)), "v");
      return;
    }
    if (feed_.Flag()) return Linked();
    const bool progress = feed_.Flag();
    const std::string_view bytes = feed_.Text();
    const int size = static_cast<int>(bytes.size());
    if (progress) {
      v1::RankMessage message;
      // The service refuses a higher step, so the agent does not get it.
      if (message.ParseFromArray(bytes.data(), size) &&
          message.progress().step() <= Limits::step_max) {
        rig_.Progressed(static_cast<uint32_t>(size) & 1,
                        message.progress().step());
      }
      return;
    }
    v1::RankExchange request;
    if (!request.ParseFromArray(bytes.data(), size) ||
        !AdmitExchangeKey(request.key()).ok() ||
        request.value().size() > Limits::exchange_value_bytes_max) {
      return;
    }
    rig_.Exchanged(static_cast<uint32_t>(size) & 3, request.key(),
                   request.value());
  }

  void Linked() {
    const uint32_t local_rank = feed_.Pick(2);
    switch (feed_.Pick(7)) {
      case 0:
        return rig_.Attended(local_rank, feed_.Flag());
      case 1:
        return rig_.Unlinked(local_rank);
      case 2:
        return rig_.AtBoundary(local_rank);
      case 3:
        return rig_.AskedToLeave(local_rank);
      case 4:
        return rig_.Waits(local_rank, feed_.Byte(), feed_.Flag());
      case 5: {
        const uint64_t entered = feed_.Number();
        return rig_.Here(entered, feed_.Number(), feed_.Flag());
      }
      default: {
        const bool stopped = feed_.Flag();
        return rig_.Looked(stopped, feed_.String());
      }
    }
  }

  void Notice() {
    v1::DaemonMessage message;
    v1::Notice& notice = *message.mutable_notice();
    notice.set_notice(feed_.Byte());
    notice.set_kind(static_cast<v1::NoticeKind>(feed_.Pick(5)));
    notice.set_generation(Generation());
    notice.set_reason(feed_.String());
    const uint8_t what = feed_.Byte();
    if ((what & 1) != 0) notice.mutable_deadline()->set_seconds(Seconds());
    if ((what & 2) != 0) notice.add_nodes(feed_.String());
    if ((what & 4) != 0) notice.mutable_end()->set_reason(feed_.String());
    rig_.FromDaemon(std::move(message));
    if ((what & 8) == 0) return;
    v1::DaemonMessage checks;
    checks.mutable_check_request()->set_request(feed_.Number());
    rig_.FromDaemon(std::move(checks));
  }

  void Run() {
    rig_.StreamUp();
    v1::DaemonMessage message;
    message.mutable_welcome()->set_run("0badcafe");
    rig_.FromDaemon(message);
    const uint64_t generation = rig_.generation() + 1;
    const v1::World world = World(generation, 0);
    v1::Proposal& proposal = *message.mutable_proposal();
    proposal.set_generation(generation);
    proposal.set_world(EncodeWorld(world));
    rig_.FromDaemon(message);
    rig_.PreparationDone(PreparationDone{});
    rig_.RanksGone();
    v1::WorldCommit world_commit;
    world_commit.set_generation(generation);
    world_commit.set_master_address(world.members(0).address());
    message.mutable_commit()->set_generation(generation);
    message.mutable_commit()->set_world_commit(
        world_commit.SerializeAsString());
    rig_.FromDaemon(message);
  }

  Feed& feed_;
  AgentRig rig_;
};

}  // namespace
}  // namespace rollcall

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rollcall::Feed feed(data, size);
  rollcall::Script(feed).Play();
  return 0;
}
