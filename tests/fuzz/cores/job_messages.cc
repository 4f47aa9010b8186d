#include "tests/fuzz/cores/job_messages.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

class Messages {
 public:
  Messages(Feed& feed, const JobRig& rig) : feed_(feed), rig_(rig) {}

  // The message that this op sends.
  v1::AgentMessage Read(JobOp op) {
    v1::AgentMessage message;
    switch (op) {
      case JobOp::kBeat: {
        const uint64_t step = feed_.Number();
        message.mutable_heartbeat()->set_step(step);
        message.mutable_heartbeat()->set_ranks_link(step % 2 == 1);
        break;
      }
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
      case JobOp::kNoticeSeen:
        FillNoticeSeen(*message.mutable_notice_seen());
        break;
      case JobOp::kCheckReport:
        FillCheckReport(*message.mutable_check_report());
        break;
      case JobOp::kPreparedStates:
        message = PreparedWithStates();
        break;
      case JobOp::kStalled:
        FillStalled(*message.mutable_rank_stalled());
        break;
      default:
        message.mutable_end_seen()->set_generation(Generation());
        break;
    }
    return message;
  }

 private:
  uint64_t Generation() { return ReadGeneration(feed_, rig_); }

  void FillExit(v1::RankExited& exited) {
    exited.set_generation(Generation());
    exited.set_local_rank(feed_.Pick(3));
    const uint8_t how = feed_.Byte();
    if (how >= 0x80) exited.set_signal(how & 0x0F);
    if (how < 0x40) exited.set_code(how);
    exited.set_stopped_by_agent(how == 0x41);
    if ((how & 0x20) != 0) exited.set_stderr_tail(feed_.String());
    if ((how & 0x10) != 0) exited.set_error_file(feed_.String());
  }

  // Mostly the latest notice or one next to it.
  void FillNoticeSeen(v1::NoticeSeen& seen) {
    const uint32_t how = feed_.Pick(8);
    seen.set_notice(how < 5   ? rig_.notice()
                    : how < 7 ? rig_.notice() + how - 4
                              : feed_.Number());
    seen.set_generation(Generation());
  }

  void FillCheckReport(v1::CheckReport& report) {
    report.set_request(feed_.Flag() ? feed_.Number() : rig_.check());
    for (uint32_t i = feed_.Pick(3); i > 0; --i) {
      v1::CheckFinding& finding = *report.add_findings();
      finding.set_check("disk");
      finding.set_severity(
          static_cast<v1::CheckFinding::Severity>(feed_.Pick(6)));
      finding.set_text(feed_.String());
    }
    // The facts of this node, of another one, or of none.
    if (report.findings_size() != 2) return;
    FillFacts(static_cast<uint32_t>(report.findings(0).text().size()) % 8,
              *report.mutable_facts());
  }

  void FillStalled(v1::RankStalled& stalled) {
    stalled.set_generation(Generation());
    stalled.set_local_rank(feed_.Pick(3));
    const uint8_t what = feed_.Byte();
    stalled.set_goes_on((what & 7) == 7);
    stalled.set_stopped((what & 8) != 0);
    if ((what & 16) != 0) stalled.set_answered((what & 32) != 0);
    if ((what & 64) != 0) {
      stalled.set_collective_entered(feed_.Byte());
      stalled.set_collective_left(feed_.Byte());
    }
    stalled.set_step(what);
    if ((what & 128) != 0) stalled.set_text(feed_.String());
    // The values include one that no version defines.
    stalled.set_nccl(static_cast<v1::NcclPlace>(what >> 3 & 3));
  }

  v1::AgentMessage PreparedWithStates() {
    v1::AgentMessage message = Prepared(rig_.generation());
    for (uint32_t i = feed_.Pick(4); i > 0; --i) {
      v1::RankState& state = *message.mutable_prepared()->add_states();
      state.set_local_rank(static_cast<uint32_t>(feed_.Number()));
      state.set_completed_step(feed_.Number());
      state.set_whole_state(feed_.Flag());
    }
    return message;
  }

  void FillExchange(v1::ExchangeIn& in) {
    in.set_generation(Generation());
    in.set_key(absl::StrCat("key", feed_.Byte()));
    for (uint32_t i = feed_.Pick(3); i > 0; --i) {
      in.add_values(std::string(1, static_cast<char>(feed_.Byte())));
    }
  }

  Feed& feed_;
  const JobRig& rig_;
};

}  // namespace

uint64_t ReadGeneration(Feed& feed, const JobRig& rig) {
  const uint32_t how = feed.Pick(8);
  if (how < 5) return rig.generation();
  if (how == 5) return rig.generation() + 1;
  if (how == 6) return rig.generation() - 1;
  return feed.Number();
}

void FillFacts(uint32_t node, v1::Facts& facts) {
  facts.set_boot_id(absl::StrCat("boot-", node));
  v1::Interface& eth0 = *facts.add_interfaces();
  eth0.set_name("eth0");
  eth0.set_up(true);
  v1::InterfaceAddress& address = *eth0.add_addresses();
  address.set_address(absl::StrCat("10.7.0.", node + 1));
  address.set_prefix_length(24);
}

v1::AgentMessage Prepared(uint64_t generation) {
  v1::AgentMessage message;
  message.mutable_prepared()->set_generation(generation);
  message.mutable_prepared()->set_master_port(23456);
  return message;
}

v1::AgentMessage ReadMessage(JobOp op, Feed& feed, const JobRig& rig) {
  return Messages(feed, rig).Read(op);
}

}  // namespace rollcall
