#include "daemon/core/admission/admission.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/admission/grammar.h"

namespace rollcall {
namespace {

constexpr size_t kInterfaceNameBytesMax = 15;
constexpr size_t kShortTextBytesMax = FactsLimits::short_text_bytes_max;
constexpr size_t kWarningsMax = 64;
constexpr size_t kFindingsMax = 256;
constexpr size_t kDevicesMax = FactsLimits::devices_max;
constexpr int32_t kNumaNodeMax = 65535;
constexpr uint32_t kGidIndexMax = 65535;
constexpr size_t kPlannedMax = 64;
constexpr size_t kPlannedBytesMax = 8 << 10;
constexpr size_t kSecretBytesMax = 64;
constexpr size_t kRunBytesMax = 64;
constexpr size_t kNcclIdsMax = size_t{Limits::nodes_max} *
                               Limits::ranks_per_node_max /
                               Limits::ranks_per_nccl_id;

// The parts of admitted facts take a small multiple of their encoded bytes in
// memory, whatever they contain.
static_assert(Limits::interfaces_per_node_max * sizeof(v1::Interface) +
                  kDevicesMax * (sizeof(v1::InfinibandPort) + sizeof(v1::Gpu)) +
                  FactsLimits::gids_of_node_max * sizeof(v1::Gid) +
                  FactsLimits::words_of_node_max * sizeof(std::string) <=
              6 * Limits::facts_bytes_max);

// Returns the first refusal from the enclosing function.
#define RETURN_IF_REFUSED(expression)                       \
  if (absl::Status refused = (expression); !refused.ok()) { \
    return refused;                                         \
  }

// Whether all of `text` is one label of a hostname.
bool IsLabel(std::string_view text) {
  if (text.empty() || text.size() > 63) return false;
  if (text.front() == '-' || text.back() == '-') return false;
  for (unsigned char c : text) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_') return false;
  }
  return true;
}

bool IsLowerId(std::string_view text, size_t bytes_max) {
  if (text.empty() || text.size() > bytes_max) return false;
  for (unsigned char c : text) {
    if (!absl::ascii_islower(c) && !absl::ascii_isdigit(c) && c != '-') {
      return false;
    }
  }
  return true;
}

absl::Status AdmitInterfaceName(const char* field, std::string_view name) {
  bool fits = !name.empty() && name.size() <= kInterfaceNameBytesMax;
  for (unsigned char c : name) {
    fits = fits && absl::ascii_isgraph(c) && c != '/' && c != ',';
  }
  if (fits) return absl::OkStatus();
  return Unfit(field, "an interface name of 1 to 15 bytes", name);
}

// As AdmitInterfaceName, but may be empty.
absl::Status AdmitOtherInterface(const char* field, std::string_view name) {
  return name.empty() ? absl::OkStatus() : AdmitInterfaceName(field, name);
}

// A NUMA node, or -1.
absl::Status AdmitNumaNode(const char* field, int32_t node) {
  if (node >= -1 && node <= kNumaNodeMax) return absl::OkStatus();
  return Unfit(field, absl::StrCat("-1 to ", kNumaNodeMax), absl::StrCat(node));
}

absl::Status AdmitInterface(const v1::Interface& interface) {
  RETURN_IF_REFUSED(
      AdmitInterfaceName("facts.interfaces.name", interface.name()));
  RETURN_IF_REFUSED(
      AdmitOtherInterface("facts.interfaces.master", interface.master()));
  RETURN_IF_REFUSED(AdmitPlainText("facts.interfaces.device_type",
                                   interface.device_type(),
                                   kShortTextBytesMax));
  for (const v1::InterfaceAddress& address : interface.addresses()) {
    RETURN_IF_REFUSED(AdmitAddress(address.address()));
    const uint32_t bits = IsIpv4(address.address()) ? 32 : 128;
    RETURN_IF_REFUSED(AdmitCount("facts.interfaces.addresses.prefix_length",
                                 address.prefix_length(), bits));
  }
  return absl::OkStatus();
}

absl::Status AdmitGid(const v1::Gid& gid) {
  RETURN_IF_REFUSED(
      AdmitCount("facts.infiniband.gids.index", gid.index(), kGidIndexMax));
  RETURN_IF_REFUSED(AdmitPlainText("facts.infiniband.gids.type", gid.type(),
                                   kShortTextBytesMax));
  if (!gid.address().empty() && !IsIpv6(gid.address())) {
    return Unfit("facts.infiniband.gids.address", "an IPv6 address",
                 gid.address());
  }
  return AdmitOtherInterface("facts.infiniband.gids.net_device",
                             gid.net_device());
}

absl::Status AdmitInfiniband(const v1::InfinibandPort& port) {
  for (const std::string* text :
       {&port.device(), &port.state(), &port.link_layer(), &port.pci(),
        &port.phys_state(), &port.driver(), &port.firmware()}) {
    RETURN_IF_REFUSED(
        AdmitPlainText("facts.infiniband", *text, kShortTextBytesMax));
  }
  RETURN_IF_REFUSED(AdmitPlainText("facts.infiniband.unusable", port.unusable(),
                                   FactsLimits::missing_text_bytes_max));
  RETURN_IF_REFUSED(
      AdmitOtherInterface("facts.infiniband.net_device", port.net_device()));
  for (const auto& [field, value] :
       {std::pair("facts.infiniband.port", port.port()),
        std::pair("facts.infiniband.lid", port.lid()),
        std::pair("facts.infiniband.sm_lid", port.sm_lid()),
        std::pair("facts.infiniband.active_mtu", port.active_mtu())}) {
    RETURN_IF_REFUSED(AdmitCount(field, value, UINT16_MAX));
  }
  RETURN_IF_REFUSED(
      AdmitNumaNode("facts.infiniband.numa_node", port.numa_node()));
  RETURN_IF_REFUSED(
      AdmitCount("facts.infiniband.gids", port.gids_size(), kDevicesMax));
  for (const v1::Gid& gid : port.gids()) RETURN_IF_REFUSED(AdmitGid(gid));
  return absl::OkStatus();
}

absl::Status AdmitGpu(const v1::Gpu& gpu) {
  for (const std::string* text :
       {&gpu.name(), &gpu.uuid(), &gpu.pci(), &gpu.driver(),
        &gpu.nvlink_domain(), &gpu.compute_capability()}) {
    RETURN_IF_REFUSED(AdmitPlainText("facts.gpus", *text, kShortTextBytesMax));
  }
  RETURN_IF_REFUSED(
      AdmitCount("facts.gpus.index", gpu.index(), kDevicesMax - 1));
  RETURN_IF_REFUSED(AdmitNumaNode("facts.gpus.numa_node", gpu.numa_node()));
  for (const auto& [field, words] :
       {std::pair("facts.gpus.near_hcas", &gpu.near_hcas()),
        std::pair("facts.gpus.throttle_reasons", &gpu.throttle_reasons())}) {
    RETURN_IF_REFUSED(AdmitCount(field, words->size(), FactsLimits::words_max));
    for (const std::string& word : *words) {
      RETURN_IF_REFUSED(AdmitPlainText(field, word, kShortTextBytesMax));
    }
  }
  return absl::OkStatus();
}

absl::Status AdmitInterfaces(const v1::Facts& facts) {
  RETURN_IF_REFUSED(AdmitCount("facts.interfaces", facts.interfaces_size(),
                               Limits::interfaces_per_node_max));
  std::set<std::string_view> names;
  size_t addresses = 0;
  for (const v1::Interface& interface : facts.interfaces()) {
    RETURN_IF_REFUSED(AdmitInterface(interface));
    if (!names.insert(interface.name()).second) {
      return Unfit("facts.interfaces.name", "each name once", interface.name());
    }
    addresses += interface.addresses_size();
  }
  return AdmitCount("addresses of the node", addresses,
                    Limits::addresses_per_node_max);
}

absl::Status AdmitInfinibandPorts(const v1::Facts& facts) {
  RETURN_IF_REFUSED(
      AdmitCount("facts.infiniband", facts.infiniband_size(), kDevicesMax));
  std::set<std::pair<std::string_view, uint32_t>> ports;
  size_t gids = 0;
  for (const v1::InfinibandPort& port : facts.infiniband()) {
    RETURN_IF_REFUSED(AdmitInfiniband(port));
    if (!ports.emplace(port.device(), port.port()).second) {
      return Unfit("facts.infiniband.port", "each port of a device once",
                   absl::StrCat(port.device(), ":", port.port()));
    }
    gids += port.gids_size();
  }
  return AdmitCount("facts.infiniband.gids of all ports", gids,
                    FactsLimits::gids_of_node_max);
}

absl::Status AdmitGpus(const v1::Facts& facts) {
  RETURN_IF_REFUSED(AdmitCount("facts.gpus", facts.gpus_size(), kDevicesMax));
  std::set<uint32_t> indices;
  size_t words = 0;
  for (const v1::Gpu& gpu : facts.gpus()) {
    RETURN_IF_REFUSED(AdmitGpu(gpu));
    if (!indices.insert(gpu.index()).second) {
      return Unfit("facts.gpus.index", "each index once", gpu.index());
    }
    words += gpu.near_hcas_size() + gpu.throttle_reasons_size();
  }
  return AdmitCount("near_hcas and throttle_reasons of all facts.gpus", words,
                    FactsLimits::words_of_node_max);
}

absl::Status AdmitMissing(const v1::MissingFact& missing) {
  RETURN_IF_REFUSED(
      AdmitPlainText("facts.missing.fact", missing.fact(), kShortTextBytesMax));
  RETURN_IF_REFUSED(AdmitPlainText("facts.missing.reason", missing.reason(),
                                   FactsLimits::missing_text_bytes_max));
  return AdmitPlainText("facts.missing.remedy", missing.remedy(),
                        FactsLimits::missing_text_bytes_max);
}

absl::Status AdmitFactsTexts(const v1::Facts& facts) {
  const v1::Versions& versions = facts.versions();
  for (const std::string* text :
       {&facts.hostname(), &facts.boot_id(), &versions.rollcall(),
        &versions.kernel(), &versions.nccl(), &versions.cuda(),
        &versions.driver(), &facts.limits().transparent_hugepages(),
        &facts.container()}) {
    RETURN_IF_REFUSED(AdmitPlainText("facts", *text, kShortTextBytesMax));
  }
  RETURN_IF_REFUSED(AdmitPlainText("facts.versions.nccl_path",
                                   versions.nccl_path(),
                                   FactsLimits::path_bytes_max));
  if (!facts.advertised_address().empty()) {
    RETURN_IF_REFUSED(AdmitAddress(facts.advertised_address()));
  }
  RETURN_IF_REFUSED(
      AdmitCount("facts.probe_port", facts.probe_port(), UINT16_MAX));
  // Other nodes connect to this port, so a port of a system service is refused.
  if (facts.probe_port() > 0 && facts.probe_port() < 1024) {
    return Unfit("facts.probe_port", "0, or 1024 to 65535",
                 absl::StrCat(facts.probe_port()));
  }
  RETURN_IF_REFUSED(AdmitCount("facts.missing", facts.missing_size(),
                               FactsLimits::missing_max));
  for (const v1::MissingFact& missing : facts.missing()) {
    RETURN_IF_REFUSED(AdmitMissing(missing));
  }
  RETURN_IF_REFUSED(AdmitCount("facts.folders", facts.folders_size(),
                               FactsLimits::folders_max));
  for (const v1::FolderSpace& folder : facts.folders()) {
    RETURN_IF_REFUSED(AdmitPlainText("facts.folders.path", folder.path(),
                                     FactsLimits::path_bytes_max));
  }
  return absl::OkStatus();
}

absl::Status AdmitToken(const v1::JoinToken& token) {
  if (!IsLowerId(token.id(), kSecretBytesMax)) {
    return Unfit("token.id", "1 to 64 of [a-z0-9-]", token.id());
  }
  // The message has only its length: a secret is never shown.
  if (token.secret().empty() || token.secret().size() > kSecretBytesMax) {
    return Unfit("length of token.secret", "1 to 64 bytes",
                 token.secret().size());
  }
  return absl::OkStatus();
}

absl::Status AdmitCredential(const v1::Hello& hello) {
  switch (hello.credential_case()) {
    case v1::Hello::kToken:
      return AdmitToken(hello.token());
    case v1::Hello::kNodeCredential:
      if (hello.node_credential().empty() ||
          hello.node_credential().size() > kSecretBytesMax) {
        return Unfit("length of node_credential", "1 to 64 bytes",
                     hello.node_credential().size());
      }
      return absl::OkStatus();
    case v1::Hello::CREDENTIAL_NOT_SET:
      break;
  }
  // A Hello without a token or credential is not a matter of grammar.
  return absl::OkStatus();
}

absl::Status AdmitExit(const v1::RankExited& exited) {
  RETURN_IF_REFUSED(AdmitGeneration("generation", exited.generation()));
  if (exited.local_rank() >= Limits::ranks_per_node_max) {
    return Unfit("local_rank", "0 to 63", exited.local_rank());
  }
  if (exited.code() < 0 || exited.code() > 255) {
    return Unfit("code", "an exit code of 0 to 255",
                 absl::StrCat(exited.code()));
  }
  if (exited.signal() < 0 || exited.signal() > 127) {
    return Unfit("signal", "a signal number of 0 to 127",
                 absl::StrCat(exited.signal()));
  }
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

absl::Status AdmitHeld(const v1::Held& held) {
  RETURN_IF_REFUSED(
      AdmitGeneration("held.prepared_generation", held.prepared_generation()));
  RETURN_IF_REFUSED(
      AdmitGeneration("held.running_generation", held.running_generation()));
  if (held.proof().size() > kSecretBytesMax) {
    return Unfit("length of held.proof", "0 to 64 bytes", held.proof().size());
  }
  return absl::OkStatus();
}

absl::Status AdmitProbed(const v1::Probed& probed) {
  RETURN_IF_REFUSED(
      AdmitCount("results", probed.results_size(),
                 Limits::probe_targets_max * Limits::probe_addresses_max));
  for (const v1::ProbeResult& result : probed.results()) {
    RETURN_IF_REFUSED(AdmitNodeName(result.node()));
    RETURN_IF_REFUSED(AdmitAddress(result.address()));
    if (result.answer().size() > Limits::probe_bytes) {
      return Unfit("length of results.answer",
                   absl::StrCat("0 to ", Limits::probe_bytes, " bytes"),
                   result.answer().size());
    }
    if (result.has_round_trip()) {
      RETURN_IF_REFUSED(
          AdmitDuration("results.round_trip", result.round_trip(), 0));
    }
  }
  return absl::OkStatus();
}

absl::Status AdmitNcclIds(
    const google::protobuf::RepeatedPtrField<std::string>& ids) {
  RETURN_IF_REFUSED(AdmitCount("nccl_ids", ids.size(), kNcclIdsMax));
  for (const std::string& id : ids) {
    if (id.size() != Limits::nccl_id_bytes) {
      return Unfit("length of nccl_ids", "exactly 128 bytes each", id.size());
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

absl::Status AdmitStopped(const v1::Stopped& stopped) {
  return AdmitGeneration("generation", stopped.generation());
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

absl::Status AdmitMember(const v1::Member& member) {
  RETURN_IF_REFUSED(AdmitNodeName(member.node()));
  RETURN_IF_REFUSED(AdmitAddress(member.address()));
  if (member.ranks() < 1 || member.ranks() > Limits::ranks_per_node_max) {
    return Unfit("members.ranks",
                 absl::StrCat("1 to ", Limits::ranks_per_node_max),
                 member.ranks());
  }
  RETURN_IF_REFUSED(
      AdmitCount("members.seat", member.seat(), Limits::nodes_max - 1));
  RETURN_IF_REFUSED(AdmitCount("members.addresses", member.addresses_size(),
                               Limits::addresses_per_node_max));
  for (const std::string& address : member.addresses()) {
    RETURN_IF_REFUSED(AdmitAddress(address));
  }
  RETURN_IF_REFUSED(AdmitPlainText("members.hostname", member.hostname(),
                                   Limits::node_name_bytes_max));
  RETURN_IF_REFUSED(
      AdmitCount("members.ports", member.ports_size(), kDevicesMax));
  for (const v1::MemberPort& port : member.ports()) {
    for (const std::string* text : {&port.device(), &port.link_layer()}) {
      RETURN_IF_REFUSED(
          AdmitPlainText("members.ports", *text, kShortTextBytesMax));
    }
    RETURN_IF_REFUSED(AdmitGid(port.gid()));
  }
  RETURN_IF_REFUSED(
      AdmitCount("members.gpus", member.gpus_size(), kDevicesMax));
  for (const v1::MemberGpus& gpus : member.gpus()) {
    RETURN_IF_REFUSED(
        AdmitPlainText("members.gpus", gpus.model(), kShortTextBytesMax));
  }
  RETURN_IF_REFUSED(
      AdmitCount("members.plan", member.plan_size(), kPlannedMax));
  for (const v1::PlannedVariable& variable : member.plan()) {
    for (const std::string* text :
         {&variable.name(), &variable.value(), &variable.reason()}) {
      RETURN_IF_REFUSED(
          AdmitPlainText("members.plan", *text, kPlannedBytesMax));
    }
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

}  // namespace

absl::Status AdmitJobId(std::string_view job) {
  if (IsLowerId(job, Limits::job_id_bytes_max) && job.front() != '-' &&
      job.back() != '-') {
    return absl::OkStatus();
  }
  return Unfit("job", "1 to 63 of [a-z0-9-], no '-' at either end", job);
}

absl::Status AdmitNodeName(std::string_view node) {
  bool fits = node.size() <= Limits::node_name_bytes_max;
  for (size_t begin = 0; fits;) {
    const size_t dot = node.find('.', begin);
    fits = IsLabel(node.substr(begin, dot - begin));
    if (dot == std::string_view::npos) break;
    begin = dot + 1;
  }
  if (fits) return absl::OkStatus();
  return Unfit("node",
               "a host name: labels of [A-Za-z0-9_-] with dots between, 1 to "
               "253 bytes",
               node);
}

absl::Status AdmitAddress(std::string_view address) {
  if (IsIpv4(address) || IsIpv6(address)) return absl::OkStatus();
  return Unfit("address",
               "an IPv4 or IPv6 address without zone, prefix or port", address);
}

absl::Status AdmitExchangeKey(std::string_view key) {
  if (key.empty()) return Unfit("key", "1 to 128 bytes", key);
  return AdmitPlainText("key", key, Limits::exchange_key_bytes_max);
}

absl::Status AdmitSettings(const v1::JobSettings& s) {
  for (const auto& [field, set, value] :
       {std::tuple("nodes_min", s.has_nodes_min(), s.nodes_min()),
        std::tuple("nodes_max", s.has_nodes_max(), s.nodes_max())}) {
    if (set && (value < 1 || value > Limits::nodes_max)) {
      return Unfit(field, absl::StrCat("1 to ", Limits::nodes_max), value);
    }
  }
  if (s.has_nodes_min() && s.has_nodes_max() && s.nodes_min() > s.nodes_max()) {
    return Unfit("nodes_min", absl::StrCat("at most nodes_max ", s.nodes_max()),
                 s.nodes_min());
  }
  RETURN_IF_REFUSED(AdmitCount("max_restarts", s.max_restarts(), INT32_MAX));
  if (!v1::Grow_IsValid(s.grow())) {
    return Unfit("grow", "boundary or never",
                 absl::StrCat(static_cast<int>(s.grow())));
  }
  if (!v1::Preflight_IsValid(s.preflight())) {
    return Unfit("preflight", "off, warn or strict",
                 absl::StrCat(static_cast<int>(s.preflight())));
  }
  // 0 would report success for work that was not done.
  if (s.has_requeue_exit_code() &&
      (s.requeue_exit_code() < 1 || s.requeue_exit_code() > 255)) {
    return Unfit("requeue_exit_code", "1 to 255",
                 absl::StrCat(s.requeue_exit_code()));
  }
  // An unset duration reads as zero, which may not be valid.
  const auto duration = [](const char* field, bool set,
                           const google::protobuf::Duration& value,
                           double least_seconds, absl::Duration most) {
    return set ? AdmitDuration(field, value, least_seconds, most)
               : absl::OkStatus();
  };
  constexpr absl::Duration kWaitMax = Limits::wait_max;
  constexpr absl::Duration kGraceMax = Limits::grace_max;
  for (const absl::Status& status :
       {duration("join_timeout", s.has_join_timeout(), s.join_timeout(), 0,
                 kWaitMax),
        duration("stop_grace", s.has_stop_grace(), s.stop_grace(), 0, kWaitMax),
        duration("notice_time", s.has_notice_time(), s.notice_time(), 0,
                 kWaitMax),
        duration("hang_timeout", s.has_hang_timeout(), s.hang_timeout(), 0,
                 kWaitMax),
        duration("start_timeout", s.has_start_timeout(), s.start_timeout(), 0,
                 kWaitMax),
        duration("last_call", s.has_last_call(), s.last_call(), 0, kGraceMax),
        duration("lease", s.has_lease(), s.lease(), 0.1, kGraceMax),
        duration("prepare_timeout", s.has_prepare_timeout(),
                 s.prepare_timeout(), 0.1, kGraceMax),
        duration("daemon_grace", s.has_daemon_grace(), s.daemon_grace(), 0,
                 kWaitMax),
        duration("reconnect_grace", s.has_reconnect_grace(),
                 s.reconnect_grace(), 0, kGraceMax),
        duration("reattach_grace", s.has_reattach_grace(), s.reattach_grace(),
                 0, kGraceMax),
        duration("linger", s.has_linger(), s.linger(), 0, kWaitMax),
        duration("ping_interval", s.has_ping_interval(), s.ping_interval(), 0,
                 kWaitMax)}) {
    if (!status.ok()) return status;
  }
  RETURN_IF_REFUSED(AdmitCount("expected_nodes", s.expected_nodes_size(),
                               Limits::expected_nodes_max));
  for (const std::string& node : s.expected_nodes()) {
    RETURN_IF_REFUSED(AdmitNodeName(node));
  }
  return absl::OkStatus();
}

absl::Status AdmitFacts(const v1::Facts& facts) {
  RETURN_IF_REFUSED(AdmitCount("bytes of facts", facts.ByteSizeLong(),
                               Limits::facts_bytes_max));
  RETURN_IF_REFUSED(AdmitFactsTexts(facts));
  RETURN_IF_REFUSED(AdmitInterfaces(facts));
  RETURN_IF_REFUSED(AdmitInfinibandPorts(facts));
  return AdmitGpus(facts);
}

absl::Status AdmitWorld(const v1::World& world) {
  RETURN_IF_REFUSED(AdmitJobId(world.job()));
  if (!IsLowerId(world.run(), kRunBytesMax)) {
    return Unfit("run", "1 to 64 of [a-z0-9-]", world.run());
  }
  RETURN_IF_REFUSED(AdmitGeneration("generation", world.generation()));
  RETURN_IF_REFUSED(
      AdmitCount("members", world.members_size(), Limits::nodes_max));
  for (const v1::Member& member : world.members()) {
    RETURN_IF_REFUSED(AdmitMember(member));
  }
  return absl::OkStatus();
}

namespace {

absl::Status AdmitDigest(const char* field, const std::string& digest) {
  if (digest.empty() || digest.size() == 32) return absl::OkStatus();
  return Unfit(field, "0 or 32 bytes", digest.size());
}

// How members were admitted: one row for each, or none at all.
absl::Status AdmitRows(const v1::Seal& seal, int members) {
  for (const int rows :
       {seal.incarnations_size(), seal.epochs_size(), seal.token_of_size()}) {
    if (rows != 0 && rows != members) {
      return Unfit("rows of seal", absl::StrCat("0 or ", members),
                   static_cast<uint64_t>(rows));
    }
  }
  RETURN_IF_REFUSED(AdmitCount("seal.token_ids", seal.token_ids_size(),
                               static_cast<uint64_t>(members)));
  for (const std::string& id : seal.token_ids()) {
    if (!IsLowerId(id, kSecretBytesMax)) {
      return Unfit("seal.token_ids", "1 to 64 of [a-z0-9-]", id);
    }
  }
  for (const uint32_t place : seal.token_of()) {
    RETURN_IF_REFUSED(AdmitCount("seal.token_of", place,
                                 static_cast<uint64_t>(seal.token_ids_size())));
  }
  for (const uint64_t epoch : seal.epochs()) {
    RETURN_IF_REFUSED(AdmitGeneration("seal.epochs", epoch));
  }
  return AdmitGeneration("seal.epoch_highest", seal.epoch_highest());
}

}  // namespace

absl::Status AdmitSeal(const v1::Seal& seal, const v1::World& world) {
  if (seal.generation() != world.generation()) {
    return Unfit("seal.generation", absl::StrCat(world.generation()),
                 seal.generation());
  }
  const std::string expected =
      world.members().empty() ? "" : world.members(0).address();
  if (seal.master_address() != expected) {
    return Unfit("seal.master_address", expected, seal.master_address());
  }
  RETURN_IF_REFUSED(AdmitCount("seal.master_port", seal.master_port(), 65535));
  if (seal.has_state_source() &&
      seal.state_source().rank() >= world.world_size()) {
    return Unfit("seal.state_source.rank",
                 absl::StrCat("below ", world.world_size()),
                 seal.state_source().rank());
  }
  RETURN_IF_REFUSED(AdmitRows(seal, world.members_size()));
  RETURN_IF_REFUSED(
      AdmitDigest("length of seal.common_digest", seal.common_digest()));
  return AdmitNcclIds(seal.nccl_ids());
}

absl::Status AdmitHello(const v1::Hello& hello) {
  RETURN_IF_REFUSED(AdmitJobId(hello.job()));
  if (!hello.run().empty() && !IsLowerId(hello.run(), kRunBytesMax)) {
    return Unfit("run", "empty, or 1 to 64 of [a-z0-9-]", hello.run());
  }
  RETURN_IF_REFUSED(AdmitNodeName(hello.node()));
  if (hello.incarnation() == 0) {
    return Unfit("incarnation", "a random number above 0", uint64_t{0});
  }
  RETURN_IF_REFUSED(AdmitCredential(hello));
  RETURN_IF_REFUSED(AdmitFacts(hello.facts()));
  if (hello.ranks() < 1 || hello.ranks() > Limits::ranks_per_node_max) {
    return Unfit("ranks", absl::StrCat("1 to ", Limits::ranks_per_node_max),
                 hello.ranks());
  }
  RETURN_IF_REFUSED(
      AdmitDigest("length of command_digest", hello.command_digest()));
  RETURN_IF_REFUSED(AdmitSettings(hello.settings()));
  RETURN_IF_REFUSED(
      AdmitGeneration("generation_seen", hello.generation_seen()));
  RETURN_IF_REFUSED(
      AdmitCount("swept_nonces", hello.swept_nonces_size(), Limits::swept_max));
  for (const std::string& nonce : hello.swept_nonces()) {
    if (nonce.size() == Limits::life_nonce_bytes) continue;
    return Unfit("length of swept_nonces",
                 absl::StrCat(Limits::life_nonce_bytes, " bytes each"),
                 nonce.size());
  }
  return AdmitHeld(hello.held());
}

namespace {

absl::Status AdmitHeartbeat(const v1::Heartbeat& heartbeat) {
  for (const double value :
       {heartbeat.pace().loss(), heartbeat.pace().tokens_per_second()}) {
    if (!std::isfinite(value)) {
      return Unfit("pace", "finite numbers", absl::StrCat(value));
    }
  }
  RETURN_IF_REFUSED(AdmitCount("step", heartbeat.step(), Limits::step_max));
  RETURN_IF_REFUSED(
      AdmitDuration("start_took", heartbeat.start_took(), 0, Limits::wait_max));
  return AdmitGeneration("generation", heartbeat.generation());
}

}  // namespace

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
      return AdmitStopped(message.stopped());
    case v1::AgentMessage::kRankExited:
      return AdmitExit(message.rank_exited());
    case v1::AgentMessage::kLeaving:
      if (!message.leaving().has_deadline()) return absl::OkStatus();
      return AdmitDuration("deadline", message.leaving().deadline(), 0);
    case v1::AgentMessage::kExchange:
      return AdmitExchange(message.exchange());
    case v1::AgentMessage::kEndSeen:
      return AdmitGeneration("generation", message.end_seen().generation());
    case v1::AgentMessage::kNoticeSeen:
      return absl::OkStatus();
    case v1::AgentMessage::kCheckReport:
      return AdmitCheckReport(message.check_report());
    case v1::AgentMessage::kRankStalled:
      return AdmitStalled(message.rank_stalled());
    case v1::AgentMessage::kHello:
      return absl::InvalidArgumentError(
          "Hello: expected once, as the first message of a stream, got "
          "another one; open a new stream");
    case v1::AgentMessage::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "message: expected a kind that this daemon knows, got none; the agent "
      "may be of another version");
}

#undef RETURN_IF_REFUSED

}  // namespace rollcall
