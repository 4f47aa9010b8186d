#include "client/facts/devices/verbs_merge.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/facts/devices/infiniband.h"
#include "client/facts/system/missing.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/ranking.h"

namespace rollcall {
namespace {

bool PortLess(const v1::InfinibandPort& a, const v1::InfinibandPort& b) {
  if (a.device() != b.device()) return NaturalLess(a.device(), b.device());
  return a.port() < b.port();
}

// Fields that libibverbs did not report are unset in `verbs`.
void MergePort(const v1::InfinibandPort& verbs, v1::InfinibandPort& port) {
  port.MergeFrom(verbs);
  SetNetDevice(port);
}

// What a user can do about an unusable device; empty: unknown.
std::string UnusableRemedy(Unusable::Why why, absl::string_view driver) {
  switch (why) {
    case Unusable::Why::kNoLibrary:
    case Unusable::Why::kNoSymbol:
      return "install libibverbs1 and ibverbs-providers (Debian, Ubuntu), or "
             "libibverbs (Fedora, RHEL), in the image that the ranks run in";
    case Unusable::Why::kNoKernel:
      return "load the module ib_uverbs on the host: modprobe ib_uverbs";
    case Unusable::Why::kNoNode:
      return "give the container the device nodes: docker run "
             "--device=/dev/infiniband, or an RDMA device plugin in Kubernetes";
    case Unusable::Why::kNotPermitted:
      return "give this user read and write access to /dev/infiniband/uverbs*: "
             "group rdma, or docker run --device=/dev/infiniband";
    case Unusable::Why::kNoProvider: {
      const std::string provider = ProviderOf(driver);
      return absl::StrCat(
          "install ibverbs-providers (Debian, Ubuntu",
          provider == "mlx5" || provider == "mlx4"
              ? absl::StrCat("; older images: lib", provider, "-1")
              : "",
          "), or libibverbs (Fedora, RHEL), in the image that the ranks run "
          "in");
    }
    case Unusable::Why::kMemlock:
      return "raise the limit: ulimit -l unlimited, LimitMEMLOCK=infinity, or "
             "docker run --ulimit memlock=-1";
    case Unusable::Why::kUsable:
    case Unusable::Why::kOther:
      break;
  }
  return "";
}

// Adds the MissingFacts that MergeVerbs documents.
void AddUnusable(const std::map<std::string, Unusable>& unusable,
                 size_t devices, v1::Facts& facts) {
  if (unusable.empty()) return;
  const Unusable& first = unusable.begin()->second;
  const bool alike =
      unusable.size() == devices && devices > 1 &&
      std::all_of(unusable.begin(), unusable.end(), [&](const auto& other) {
        // The text may name the device, so texts are compared only for kOther.
        return other.second.why == first.why &&
               (first.why != Unusable::Why::kOther ||
                other.second.text == first.text);
      });
  for (const v1::InfinibandPort& port : facts.infiniband()) {
    const auto at = unusable.find(port.device());
    if (at == unusable.end()) continue;
    const std::string fact =
        at->second.why == Unusable::Why::kMemlock
            ? "infiniband.memlock"
            : absl::StrCat("infiniband.", alike ? "unusable" : port.device());
    AddMissing(facts, fact, at->second.text,
               UnusableRemedy(at->second.why, port.driver()));
    if (alike) return;
  }
}

}  // namespace

std::string ProviderOf(absl::string_view driver) {
  if (absl::StartsWith(driver, "mlx5")) return "mlx5";
  if (absl::StartsWith(driver, "mlx4")) return "mlx4";
  if (driver == "rdma_rxe") return "rxe";
  if (driver == "bnxt_en") return "bnxt_re";
  if (driver == "ice" || driver == "i40e") return "irdma";
  return std::string(driver);
}

void MergeVerbs(
    const VerbsAnswer& answer,
    const std::function<Unusable(const v1::InfinibandPort&)>& why_not_listed,
    v1::Facts& facts) {
  std::map<std::pair<std::string, uint32_t>, v1::InfinibandPort> ports;
  for (v1::InfinibandPort& port : *facts.mutable_infiniband()) {
    auto key = std::pair(port.device(), port.port());
    ports.emplace(std::move(key), std::move(port));
  }
  facts.clear_infiniband();
  std::map<std::string, Unusable> asked;
  for (const VerbsDevice& device : answer.devices) {
    asked.emplace(device.name, device.unusable);
    for (const v1::InfinibandPort& verbs : device.ports) {
      v1::InfinibandPort& port = ports[{device.name, verbs.port()}];
      // A port that is not in sysfs has an unknown NUMA node.
      if (port.device().empty()) port.set_numa_node(-1);
      MergePort(verbs, port);
    }
  }
  std::vector<v1::InfinibandPort> sorted;
  for (auto& [key, port] : ports) sorted.push_back(std::move(port));
  std::sort(sorted.begin(), sorted.end(), PortLess);
  std::map<std::string, Unusable> unusable;
  std::string last;
  size_t devices = 0;
  for (v1::InfinibandPort& port : sorted) {
    if (facts.infiniband_size() >= static_cast<int>(FactsLimits::devices_max)) {
      break;
    }
    if (port.device() != last) {
      last = port.device();
      ++devices;
      const auto at = asked.find(last);
      Unusable reason = answer.failure.why != Unusable::Why::kUsable
                            ? answer.failure
                        : at != asked.end() ? at->second
                                            : why_not_listed(port);
      if (reason.why != Unusable::Why::kUsable) {
        unusable.emplace(last, std::move(reason));
      }
    }
    if (const auto at = unusable.find(last); at != unusable.end()) {
      port.set_unusable(
          PlainText(at->second.text, FactsLimits::missing_text_bytes_max));
    }
    *facts.add_infiniband() = std::move(port);
  }
  AddUnusable(unusable, devices, facts);
}

}  // namespace rollcall
