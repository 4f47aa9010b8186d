// Admission of a node's facts.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/admission/communication_variables.h"
#include "daemon/core/admission/message_parts.h"

namespace rollcall {
namespace {

constexpr size_t kInterfaceNameBytesMax = 15;
constexpr size_t kDevicesMax = FactsLimits::devices_max;
constexpr int32_t kNumaNodeMax = 65535;
constexpr uint32_t kGidIndexMax = 65535;

// In memory, the parts of admitted facts take at most a small multiple of the
// encoded bytes, whatever they contain.
static_assert(Limits::interfaces_per_node_max * sizeof(v1::Interface) +
                  kDevicesMax * (sizeof(v1::InfinibandPort) + sizeof(v1::Gpu)) +
                  FactsLimits::gids_of_node_max * sizeof(v1::Gid) +
                  FactsLimits::words_of_node_max * sizeof(std::string) +
                  Limits::communication_variables_max *
                      sizeof(v1::CommunicationVariable) <=
              6 * Limits::facts_bytes_max);

absl::Status AdmitInterfaceName(const char* field, std::string_view name) {
  bool fits = !name.empty() && name.size() <= kInterfaceNameBytesMax;
  for (unsigned char c : name) {
    fits = fits && absl::ascii_isgraph(c) && c != '/' && c != ',';
  }
  if (fits) return absl::OkStatus();
  return Unfit(field, "an interface name of 1 to 15 bytes", name);
}

// The same as AdmitInterfaceName, but the name may be empty.
absl::Status AdmitOtherInterface(const char* field, std::string_view name) {
  return name.empty() ? absl::OkStatus() : AdmitInterfaceName(field, name);
}

// A NUMA node, or -1.
absl::Status AdmitNumaNode(const char* field, int32_t node) {
  return AdmitRange(field, node, -1, kNumaNodeMax);
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

absl::Status AdmitCommunication(const v1::CommunicationVariables& all) {
  constexpr char kField[] = "facts.communication.variables";
  RETURN_IF_REFUSED(AdmitCount(kField, all.variables_size(),
                               Limits::communication_variables_max));
  std::string_view before;
  for (const v1::CommunicationVariable& variable : all.variables()) {
    const std::string& name = variable.name();
    if (!IsCommunicationVariable(name) || name <= before) {
      return Unfit(kField,
                   "names of communication variables, each once, sorted", name);
    }
    before = name;
    RETURN_IF_REFUSED(AdmitPlainText(kField, variable.value(),
                                     Limits::variable_value_bytes_max));
    if (variable.has_digest() ? variable.digest().size() != kVariableDigestBytes
                              : variable.value().empty()) {
      return Unfit(kField, "a value, or a digest of 4 bytes", name);
    }
  }
  return absl::OkStatus();
}

absl::Status AdmitSameFiles(const v1::Facts& facts) {
  constexpr char kField[] = "facts.same_files";
  RETURN_IF_REFUSED(
      AdmitCount(kField, facts.same_files_size(), Limits::same_files_max));
  std::set<std::string_view> paths;
  for (const v1::SameFile& file : facts.same_files()) {
    RETURN_IF_REFUSED(
        AdmitPlainText(kField, file.path(), Limits::same_path_bytes_max));
    if (file.path().empty() || file.path()[0] != '/' ||
        !paths.insert(file.path()).second) {
      return Unfit(kField, "absolute paths, each once", file.path());
    }
    RETURN_IF_REFUSED(AdmitDigest("facts.same_files.sha256", file.sha256()));
    RETURN_IF_REFUSED(AdmitPlainText("facts.same_files.error", file.error(),
                                     FactsLimits::missing_text_bytes_max));
  }
  return absl::OkStatus();
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
    return Unfit("facts.probe_port", "0, or 1024 to 65535", facts.probe_port());
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

}  // namespace

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

absl::Status AdmitFacts(const v1::Facts& facts) {
  RETURN_IF_REFUSED(AdmitCount("bytes of facts", facts.ByteSizeLong(),
                               Limits::facts_bytes_max));
  RETURN_IF_REFUSED(AdmitFactsTexts(facts));
  RETURN_IF_REFUSED(AdmitCommunication(facts.communication()));
  RETURN_IF_REFUSED(AdmitSameFiles(facts));
  RETURN_IF_REFUSED(AdmitInterfaces(facts));
  RETURN_IF_REFUSED(AdmitInfinibandPorts(facts));
  return AdmitGpus(facts);
}

}  // namespace rollcall
