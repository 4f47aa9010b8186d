#include "daemon/core/admission/admission.h"

#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/core/admission/message_parts.h"

namespace rollcall {
namespace {

constexpr size_t kWarningsMax = 64;
constexpr size_t kFindingsMax = 256;

absl::Status AdmitToken(const v1::JoinToken& token) {
  RETURN_IF_REFUSED(AdmitLowerId("token.id", token.id(), kSecretBytesMax));
  // The error shows only the secret's length, never the secret.
  return AdmitRange("length of token.secret", token.secret().size(), 1,
                    kSecretBytesMax);
}

absl::Status AdmitCredential(const v1::Hello& hello) {
  switch (hello.credential_case()) {
    case v1::Hello::kToken:
      return AdmitToken(hello.token());
    case v1::Hello::kNodeCredential:
      return AdmitRange("length of node_credential",
                        hello.node_credential().size(), 1, kSecretBytesMax);
    case v1::Hello::CREDENTIAL_NOT_SET:
      break;
  }
  // A missing token or credential is not an error of grammar.
  return absl::OkStatus();
}

absl::Status AdmitExit(const v1::RankExited& exited) {
  RETURN_IF_REFUSED(AdmitGeneration("generation", exited.generation()));
  RETURN_IF_REFUSED(AdmitCount("local_rank", exited.local_rank(),
                               Limits::ranks_per_node_max - 1));
  RETURN_IF_REFUSED(AdmitRange("code", exited.code(), 0, 255));
  RETURN_IF_REFUSED(AdmitRange("signal", exited.signal(), 0, 127));
  if (exited.code() != 0 && exited.signal() != 0) {
    return Unfit("code", "0 if a signal ended the rank",
                 absl::StrCat(exited.code()));
  }
  return absl::OkStatus();
}

absl::Status AdmitStalled(const v1::RankStalled& stalled) {
  RETURN_IF_REFUSED(AdmitGeneration("generation", stalled.generation()));
  RETURN_IF_REFUSED(AdmitCount("local_rank", stalled.local_rank(),
                               Limits::ranks_per_node_max - 1));
  RETURN_IF_REFUSED(AdmitCount("step", stalled.step(), Limits::step_max));
  if (stalled.collective_left() > stalled.collective_entered()) {
    return Unfit("collective_left",
                 absl::StrCat("at most collective_entered ",
                              stalled.collective_entered()),
                 stalled.collective_left());
  }
  return absl::OkStatus();
}

absl::Status AdmitFactChange(const v1::FactChange& change) {
  // A kind that this daemon does not know is of a newer agent.
  if (change.kind() == v1::FACT_KIND_UNSPECIFIED) {
    return Unfit("fact_change.kind", "a kind", "none");
  }
  if (change.subject().empty()) {
    return Unfit("fact_change.subject", "a text", "none");
  }
  if (change.count() == 0) {
    return Unfit("fact_change.count", "at least 1", "0");
  }
  return absl::OkStatus();
}

absl::Status AdmitSetupEnded(const v1::SetupEnded& ended) {
  RETURN_IF_REFUSED(AdmitRange("code", ended.code(), 0, 255));
  RETURN_IF_REFUSED(AdmitRange("signal", ended.signal(), 0, 127));
  if (ended.code() != 0 && ended.signal() != 0) {
    return Unfit("code", "0 if a signal ended the set-up command",
                 absl::StrCat(ended.code()));
  }
  if (ended.timed_out() && ended.code() == 0 && ended.signal() == 0) {
    return Unfit("code", "not 0 if the time of the set-up command was over",
                 "0");
  }
  return AdmitRange("tries", ended.tries(), 1, Limits::setup_retries_max + 1);
}

absl::Status AdmitResumeState(const v1::ResumeState& resume_state) {
  RETURN_IF_REFUSED(AdmitGeneration("resume_state.prepared_generation",
                                    resume_state.prepared_generation()));
  RETURN_IF_REFUSED(AdmitGeneration("resume_state.running_generation",
                                    resume_state.running_generation()));
  return AdmitCount("length of resume_state.proof", resume_state.proof().size(),
                    kSecretBytesMax);
}

absl::Status AdmitProbed(const v1::Probed& probed) {
  RETURN_IF_REFUSED(
      AdmitCount("results", probed.results_size(),
                 Limits::probe_targets_max * Limits::probe_addresses_max));
  for (const v1::ProbeResult& result : probed.results()) {
    RETURN_IF_REFUSED(AdmitNodeName(result.node()));
    RETURN_IF_REFUSED(AdmitAddress(result.address()));
    RETURN_IF_REFUSED(AdmitCount("length of results.answer",
                                 result.answer().size(), Limits::probe_bytes));
    if (result.has_round_trip()) {
      RETURN_IF_REFUSED(
          AdmitDuration("results.round_trip", result.round_trip(), 0));
    }
  }
  return absl::OkStatus();
}

absl::Status AdmitPrepared(const v1::Prepared& prepared) {
  RETURN_IF_REFUSED(AdmitGeneration("generation", prepared.generation()));
  RETURN_IF_REFUSED(AdmitCount("master_port", prepared.master_port(), 65535));
  RETURN_IF_REFUSED(AdmitNcclIds(prepared.nccl_ids()));
  RETURN_IF_REFUSED(
      AdmitCount("states", prepared.states_size(), Limits::ranks_per_node_max));
  for (const v1::RankState& state : prepared.states()) {
    RETURN_IF_REFUSED(AdmitCount("states.local_rank", state.local_rank(),
                                 Limits::ranks_per_node_max - 1));
    RETURN_IF_REFUSED(AdmitCount("states.completed_step",
                                 state.completed_step(), Limits::step_max));
  }
  return AdmitCount("warnings", prepared.warnings_size(), kWarningsMax);
}

absl::Status AdmitExchange(const v1::ExchangeIn& exchange) {
  RETURN_IF_REFUSED(AdmitGeneration("generation", exchange.generation()));
  RETURN_IF_REFUSED(AdmitExchangeKey(exchange.key()));
  if (exchange.values_size() == 0) {
    return Unfit("values", "one for each rank of the node", uint64_t{0});
  }
  RETURN_IF_REFUSED(
      AdmitCount("values", exchange.values_size(), Limits::ranks_per_node_max));
  for (const std::string& value : exchange.values()) {
    RETURN_IF_REFUSED(AdmitCount("length of values", value.size(),
                                 Limits::exchange_value_bytes_max));
  }
  return absl::OkStatus();
}

absl::Status AdmitStoreRecord(const v1::StoreRecord& record) {
  RETURN_IF_REFUSED(AdmitRange("length of records.key", record.key().size(), 1,
                               Limits::store_key_bytes_max));
  RETURN_IF_REFUSED(AdmitCount("length of records.value", record.value().size(),
                               Limits::store_value_bytes_max));
  return AdmitCount("records.done", record.done_size(), Limits::nodes_max);
}

absl::Status AdmitStore(const v1::StoreIn& store) {
  RETURN_IF_REFUSED(AdmitGeneration("generation", store.generation()));
  RETURN_IF_REFUSED(AdmitCount(
      "asked", store.asked_size(),
      Limits::store_asked_per_node_max + Limits::store_waits_per_node_max));
  for (const v1::StoreAsked& asked : store.asked()) {
    RETURN_IF_REFUSED(AdmitStoreOperation(asked.what()));
  }
  RETURN_IF_REFUSED(AdmitCount("cancelled", store.cancelled_size(),
                               Limits::store_waits_per_node_max));
  for (const v1::StoreRecord& record : store.records()) {
    RETURN_IF_REFUSED(AdmitStoreRecord(record));
  }
  return absl::OkStatus();
}

absl::Status AdmitCheckReport(const v1::CheckReport& report) {
  RETURN_IF_REFUSED(
      AdmitCount("findings", report.findings_size(), kFindingsMax));
  for (const v1::CheckFinding& finding : report.findings()) {
    RETURN_IF_REFUSED(
        AdmitPlainText("findings.check", finding.check(), kShortTextBytesMax));
    if (!v1::CheckFinding::Severity_IsValid(finding.severity())) {
      return Unfit("findings.severity", "a known severity",
                   absl::StrCat(static_cast<int>(finding.severity())));
    }
  }
  return AdmitFacts(report.facts());
}

absl::Status AdmitPace(const v1::Pace& pace) {
  for (const double value : {pace.loss(), pace.tokens_per_second()}) {
    if (!std::isfinite(value)) {
      return Unfit("pace", "finite numbers", absl::StrCat(value));
    }
  }
  for (const double value : {pace.gradient_norm(), pace.flops_utilization(),
                             pace.validation_loss()}) {
    if (!std::isfinite(value) || value < 0) {
      return Unfit("pace", "finite numbers from 0 on", absl::StrCat(value));
    }
  }
  if (pace.flops_utilization() > 1) {
    return Unfit("pace.flops_utilization", "0 to 1",
                 absl::StrCat(pace.flops_utilization()));
  }
  return AdmitCount("pace.steps", pace.steps(), Limits::step_max);
}

absl::Status AdmitHeartbeat(const v1::Heartbeat& heartbeat) {
  RETURN_IF_REFUSED(AdmitPace(heartbeat.pace()));
  RETURN_IF_REFUSED(AdmitCount("step", heartbeat.step(), Limits::step_max));
  RETURN_IF_REFUSED(
      AdmitCount("saved_step", heartbeat.saved_step(), Limits::step_max));
  RETURN_IF_REFUSED(
      AdmitDuration("start_took", heartbeat.start_took(), 0, Limits::wait_max));
  return AdmitGeneration("generation", heartbeat.generation());
}

}  // namespace

absl::Status AdmitStoreOperation(const v1::StoreOperation& what) {
  if (what.kind() == v1::STORE_KIND_NUM_KEYS) {
    RETURN_IF_REFUSED(AdmitCount("length of key", what.key().size(), 0));
  } else {
    RETURN_IF_REFUSED(AdmitRange("length of key", what.key().size(), 1,
                                 Limits::store_key_bytes_max));
  }
  return AdmitCount("length of value and expected",
                    what.value().size() + what.expected().size(),
                    Limits::store_value_bytes_max);
}

absl::Status AdmitGroupChecked(const v1::GroupChecked& checked) {
  if (!checked.error().empty()) {
    if (!checked.has_product() && !checked.has_all_reduce()) {
      return absl::OkStatus();
    }
    return Unfit("product and all_reduce", "unset beside an error", "a value");
  }
  if (!checked.has_product()) {
    return Unfit("product", "set, or an error", "none");
  }
  // Zero would make every other node slow.
  RETURN_IF_REFUSED(AdmitDuration("product", checked.product(), 1e-9));
  if (!checked.has_all_reduce()) return absl::OkStatus();  // Checked alone.
  return AdmitDuration("all_reduce", checked.all_reduce(), 1e-9);
}

absl::Status AdmitIntroduction(const v1::Hello& hello) {
  RETURN_IF_REFUSED(AdmitJobId(hello.job()));
  if (!hello.run().empty()) {
    RETURN_IF_REFUSED(AdmitLowerId("run", hello.run(), kRunBytesMax));
  }
  RETURN_IF_REFUSED(AdmitNodeName(hello.node()));
  if (hello.incarnation() == 0) {
    return Unfit("incarnation", "a random number above 0", uint64_t{0});
  }
  return AdmitCredential(hello);
}

absl::Status AdmitHello(const v1::Hello& hello) {
  RETURN_IF_REFUSED(AdmitIntroduction(hello));
  RETURN_IF_REFUSED(AdmitFacts(hello.facts()));
  RETURN_IF_REFUSED(
      AdmitRange("ranks", hello.ranks(), 1, Limits::ranks_per_node_max));
  RETURN_IF_REFUSED(
      AdmitDigest("length of command_digest", hello.command_digest()));
  RETURN_IF_REFUSED(AdmitSettings(hello.settings()));
  RETURN_IF_REFUSED(
      AdmitGeneration("generation_seen", hello.generation_seen()));
  RETURN_IF_REFUSED(
      AdmitCount("swept_nonces", hello.swept_nonces_size(), Limits::swept_max));
  for (const std::string& nonce : hello.swept_nonces()) {
    if (nonce.size() == Limits::incarnation_nonce_bytes) continue;
    return Unfit("length of swept_nonces",
                 absl::StrCat(Limits::incarnation_nonce_bytes, " bytes each"),
                 nonce.size());
  }
  return AdmitResumeState(hello.resume_state());
}

absl::Status AdmitMessage(const v1::AgentMessage& message) {
  switch (message.kind_case()) {
    case v1::AgentMessage::kHeartbeat:
      return AdmitHeartbeat(message.heartbeat());
    case v1::AgentMessage::kProbed:
      return AdmitProbed(message.probed());
    case v1::AgentMessage::kPrepared:
      return AdmitPrepared(message.prepared());
    case v1::AgentMessage::kRefused:
      return AdmitGeneration("generation", message.refused().generation());
    case v1::AgentMessage::kStopped:
      return AdmitGeneration("generation", message.stopped().generation());
    case v1::AgentMessage::kRankExited:
      return AdmitExit(message.rank_exited());
    case v1::AgentMessage::kLeaving:
      if (!message.leaving().has_deadline()) return absl::OkStatus();
      return AdmitDuration("deadline", message.leaving().deadline(), 0);
    case v1::AgentMessage::kExchange:
      return AdmitExchange(message.exchange());
    case v1::AgentMessage::kStore:
      return AdmitStore(message.store());
    case v1::AgentMessage::kEndSeen:
      return AdmitGeneration("generation", message.end_seen().generation());
    case v1::AgentMessage::kNoticeSeen:
      return absl::OkStatus();
    case v1::AgentMessage::kCheckReport:
      return AdmitCheckReport(message.check_report());
    case v1::AgentMessage::kRankStalled:
      return AdmitStalled(message.rank_stalled());
    case v1::AgentMessage::kFactChange:
      return AdmitFactChange(message.fact_change());
    case v1::AgentMessage::kHello:
    case v1::AgentMessage::kIntroduction:
      return absl::InvalidArgumentError(
          "Hello: expected once, as the first message of a stream, got "
          "another one; open a new stream");
    case v1::AgentMessage::kSetupEnded:
      return AdmitSetupEnded(message.setup_ended());
    case v1::AgentMessage::kGroupListening:
      return AdmitRange("port", message.group_listening().port(), 1,
                        UINT16_MAX);
    case v1::AgentMessage::kGroupChecked:
      return AdmitGroupChecked(message.group_checked());
    case v1::AgentMessage::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "message: expected a kind that this daemon knows, got none; the agent "
      "may be of another version");
}

}  // namespace rollcall
