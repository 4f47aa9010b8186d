// Admission of free text in messages: makes it printable and cuts it to its
// bound, instead of refusing it.
#include <algorithm>
#include <string>
#include <string_view>

#include "daemon/base/text/printable.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr size_t kReasonBytesMax = 4 << 10;

std::string Reason(const std::string& text) {
  return Printable(text, kReasonBytesMax);
}

// Keeps the last bytes: a program usually prints the reason of its failure
// last.
std::string Tail(std::string_view text) {
  const size_t most = Limits::stderr_tail_bytes;
  return Printable(text.substr(text.size() - std::min(text.size(), most)), most,
                   /*multiline=*/true);
}

void CleanExit(v1::RankExited& exited) {
  exited.set_stderr_tail(Tail(exited.stderr_tail()));
  exited.set_error_file(Tail(exited.error_file()));
  exited.set_out_of_memory(
      Printable(exited.out_of_memory(), Limits::oom_text_bytes_max));
}

void CleanCause(v1::RootCause& cause) {
  cause.set_node(Printable(cause.node(), Limits::node_name_bytes_max));
  cause.set_detail(Tail(cause.detail()));
  cause.set_node_changes(Reason(cause.node_changes()));
  cause.set_stderr_tail(Tail(cause.stderr_tail()));
}

}  // namespace

void CleanHello(v1::Hello& hello) {
  // Unknown fields could be most of a message, and would stay in memory as long
  // as the node.
  hello.DiscardUnknownFields();
  hello.set_version(
      Printable(hello.version(), FactsLimits::short_text_bytes_max));
}

void CleanDaemonMessage(v1::DaemonMessage& message) {
  switch (message.kind_case()) {
    case v1::DaemonMessage::kWaiting: {
      v1::Waiting& waiting = *message.mutable_waiting();
      waiting.set_reason(Reason(waiting.reason()));
      for (std::string& name : *waiting.mutable_missing()) {
        name = Printable(name, Limits::node_name_bytes_max);
      }
      break;
    }
    case v1::DaemonMessage::kAbort:
      message.mutable_abort()->set_reason(Reason(message.abort().reason()));
      break;
    case v1::DaemonMessage::kNotice:
      message.mutable_notice()->set_reason(Reason(message.notice().reason()));
      for (std::string& name : *message.mutable_notice()->mutable_nodes()) {
        name = Printable(name, Limits::node_name_bytes_max);
      }
      break;
    case v1::DaemonMessage::kEnd: {
      v1::End& end = *message.mutable_end();
      end.set_reason(Reason(end.reason()));
      if (end.has_root_cause()) CleanCause(*end.mutable_root_cause());
      for (v1::RootCause& cause : *end.mutable_causes()) CleanCause(cause);
      break;
    }
    default:
      break;
  }
}

void CleanWorldCommit(v1::WorldCommit& world_commit) {
  world_commit.set_nccl_absent(Reason(world_commit.nccl_absent()));
}

void CleanMessage(v1::AgentMessage& message) {
  message.DiscardUnknownFields();
  switch (message.kind_case()) {
    case v1::AgentMessage::kProbed:
      for (auto& result : *message.mutable_probed()->mutable_results()) {
        result.set_error(
            Printable(result.error(), FactsLimits::short_text_bytes_max));
      }
      break;
    case v1::AgentMessage::kPrepared: {
      v1::Prepared& prepared = *message.mutable_prepared();
      prepared.set_nccl_absent(Reason(prepared.nccl_absent()));
      for (std::string& text : *prepared.mutable_warnings()) {
        text = Reason(text);
      }
      break;
    }
    case v1::AgentMessage::kRefused:
      message.mutable_refused()->set_reason(Reason(message.refused().reason()));
      break;
    case v1::AgentMessage::kRankExited:
      CleanExit(*message.mutable_rank_exited());
      break;
    case v1::AgentMessage::kSetupEnded:
      message.mutable_setup_ended()->set_stderr_tail(
          Tail(message.setup_ended().stderr_tail()));
      break;
    case v1::AgentMessage::kRankStalled: {
      v1::RankStalled& stalled = *message.mutable_rank_stalled();
      stalled.set_text(Printable(stalled.text(), Limits::stall_text_bytes_max));
      break;
    }
    case v1::AgentMessage::kFactChange: {
      constexpr size_t kMost = Limits::fact_text_bytes_max;
      v1::FactChange& change = *message.mutable_fact_change();
      change.set_subject(Printable(change.subject(), kMost));
      change.set_before(Printable(change.before(), kMost));
      change.set_after(Printable(change.after(), kMost));
      break;
    }
    case v1::AgentMessage::kGroupChecked: {
      v1::GroupChecked& checked = *message.mutable_group_checked();
      checked.set_error(Reason(checked.error()));
      break;
    }
    case v1::AgentMessage::kLeaving:
      message.mutable_leaving()->set_reason(Reason(message.leaving().reason()));
      break;
    case v1::AgentMessage::kCheckReport:
      for (auto& finding :
           *message.mutable_check_report()->mutable_findings()) {
        finding.set_text(Reason(finding.text()));
      }
      break;
    default:
      break;
  }
}

}  // namespace rollcall
