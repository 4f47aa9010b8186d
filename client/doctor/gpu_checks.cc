// Checks of GPUs, their driver and NCCL.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/doctor/checks.h"

namespace rollcall {
namespace {

using Gpu = v1::Gpu;

constexpr char kNoGpu[] = "no NVIDIA GPU is known";

// A GPU can remap 512 rows, 8 per bank. If it needs more, or if a row cannot be
// remapped, it qualifies for replacement (NVIDIA GPU Memory Error Management,
// "RMA Policy"). An older GPU can retire 64 pages (the same document, "Row
// Remapping"), and DCGM's diagnostic fails it at 63
// (DCGM_LIMIT_MAX_RETIRED_PAGES). Our choice: the replacement should be planned
// at half of the smaller number.
constexpr uint32_t kRetiredMany = 32;

std::string Name(const Gpu& gpu) { return absl::StrCat("gpu ", gpu.index()); }

std::string Fact(const Gpu& gpu) { return absl::StrCat("gpus.", gpu.index()); }

uint32_t CountGpus(const v1::Facts& facts) {
  return std::max(facts.gpu_count(), static_cast<uint32_t>(facts.gpus_size()));
}

// The entry for a missing fact of this GPU, or of all GPUs if NVML lacks the
// call; null: none.
const v1::MissingFact* Missing(const Examined& node, const Gpu& gpu,
                               const char* field) {
  const v1::MissingFact* own =
      node.missing.Find(absl::StrCat(Fact(gpu), ".", field));
  return own != nullptr ? own : node.missing.Find(absl::StrCat("gpus.", field));
}

// Why NVML's list of GPUs is incomplete: there is no list, or NVML did not
// answer for the next GPU; null: it is complete.
const v1::MissingFact* WhyCut(const Examined& node) {
  const v1::MissingFact* all = node.missing.Find("gpus");
  return all != nullptr
             ? all
             : node.missing.Find(absl::StrCat("gpus.", node.facts.gpus_size()));
}

// "13.0" as {13, 0}, "2.28.9" as {2, 28, 9}; empty: not a version.
std::vector<uint32_t> Version(absl::string_view text) {
  std::vector<uint32_t> numbers;
  for (const absl::string_view piece : absl::StrSplit(text, '.')) {
    uint32_t number = 0;
    if (!absl::SimpleAtoi(piece, &number)) return {};
    numbers.push_back(number);
  }
  return numbers;
}

// True if there is no GPU to check; then the finding has been added and the
// check is complete.
bool NoDetails(const Examined& node, FindingList& to) {
  if (node.facts.gpus_size() > 0) return false;
  if (CountGpus(node.facts) == 0) {
    to.NotApplicable(kNoGpu);
  } else {
    to.Unknown(kNode, WhyCut(node), "NVML was not asked");
  }
  return true;
}

void CheckCount(const Examined& node, FindingList& to) {
  // The number of GPUs in the kernel's list that the environment variables
  // leave visible.
  const uint32_t visible = node.facts.gpu_count();
  const auto opened = static_cast<uint32_t>(node.facts.gpus_size());
  const v1::MissingFact* cut = WhyCut(node);
  constexpr char kWhy[] =
      "If a GPU has left the bus, every rank on it ends; the driver then logs "
      "an Xid, often 79.";
  constexpr char kMend[] =
      "Check dmesg for Xid errors, reset the GPU (`nvidia-smi --gpu-reset`) or "
      "the machine; if the error comes back, replace the GPU.";
  // WSL2 has no files for GPUs, so without NVML's answer there is no count.
  const bool counted = visible > 0 || cut == nullptr;
  if (counted && visible < node.options.gpus_expected) {
    return to.Add(
        Severity::kFatal, kNode, absl::StrCat(visible, " GPUs are left"),
        absl::StrCat(node.options.gpus_expected, ", as at the agent's start"),
        kWhy, kMend);
  }
  bool lost = false;
  for (const Gpu& gpu : node.facts.gpus()) {
    const v1::MissingFact* missing = node.missing.Find(Fact(gpu));
    if (missing == nullptr || missing == cut) continue;
    lost = true;
    // If some GPUs are hidden from the ranks, the lost GPU may be a hidden one.
    to.Add(visible < opened ? Severity::kWarning : Severity::kFatal, Name(gpu),
           missing->reason(), "NVML opens it", kWhy, kMend);
  }
  if (cut != nullptr) return to.Unknown(kNode, cut, "");
  if (opened > 0 && opened < visible) {
    return to.Add(
        Severity::kFatal, kNode, absl::StrCat("NVML opens ", opened, " GPUs"),
        absl::StrCat(visible, ", as in the driver's list"), kWhy, kMend);
  }
  if (lost) return;
  if (CountGpus(node.facts) == 0) return to.NotApplicable("no NVIDIA GPU here");
  to.Ok(kNode,
        visible < opened
            ? absl::StrCat(visible, " of ", opened, " GPUs, others are hidden")
            : absl::StrCat(visible, visible == 1 ? " GPU" : " GPUs"));
}

void CheckNvml(const Examined& node, FindingList& to) {
  if (CountGpus(node.facts) == 0) return to.NotApplicable(kNoGpu);
  const v1::MissingFact* missing = WhyCut(node);
  if (node.facts.gpus_size() > 0) {
    return missing == nullptr ? to.Ok(kNode, "NVML answers")
                              : to.Unknown(kNode, missing, "");
  }
  if (missing == nullptr) return to.Unknown(kNode, "NVML was not asked");
  // NVML's text for NVML_ERROR_LIB_RM_VERSION_MISMATCH. CUDA fails then, too.
  if (absl::StrContains(absl::AsciiStrToLower(missing->reason()),
                        "version mismatch")) {
    return to.Add(Severity::kFatal, kNode, missing->reason(),
                  "one version of driver and library",
                  "The driver's kernel module and its libraries have different "
                  "versions: no GPU can be used.",
                  "Load the new kernel module (reboot), or start the container "
                  "again so that it gets the host's libraries.");
  }
  to.Add(
      Severity::kWarning, kNode, missing->reason(), "NVML answers",
      "NCCL asks NVML for the GPUs and how they are connected, and cannot "
      "initialize without it.",
      !missing->remedy().empty()
          ? missing->remedy()
          : "Install the driver's libnvidia-ml.so.1; in a container, ask for "
            "it with NVIDIA_DRIVER_CAPABILITIES=compute,utility.");
}

void CheckEcc(const Examined& node, FindingList& to) {
  if (NoDetails(node, to)) return;
  for (const Gpu& gpu : node.facts.gpus()) {
    if (gpu.ecc_errors_uncorrected() > 0) {
      // NVIDIA GPU Memory Error Management: a process that hits a contained
      // error is ended, and other processes continue without a reset. A reset
      // remaps the row.
      to.Add(
          Severity::kWarning, Name(gpu),
          absl::StrCat(gpu.ecc_errors_uncorrected(),
                       " uncorrected ECC errors since the driver was loaded"),
          "none",
          "Each one ends the rank that hits it. Faulty rows are replaced at "
          "the next reset.",
          "Reset the GPU (`nvidia-smi --gpu-reset`) before the run; if errors "
          "come back, run NVIDIA's field diagnostic.");
    } else if (const auto* mode = Missing(node, gpu, "ecc")) {
      to.Unknown(Name(gpu), mode, "");
    } else if (const auto* count =
                   Missing(node, gpu, "ecc_errors_uncorrected")) {
      to.Unknown(Name(gpu), count, "");
    } else if (!gpu.ecc()) {
      to.Add(Severity::kNotApplicable, Name(gpu), "ECC is off", "", "", "");
    } else if (!gpu.has_ecc_errors_uncorrected()) {
      to.Unknown(Name(gpu), "its error count is not known");
    } else {
      to.Ok(Name(gpu), "no uncorrected error");
    }
  }
}

void CheckRetiredPages(const Examined& node, FindingList& to) {
  if (NoDetails(node, to)) return;
  for (const Gpu& gpu : node.facts.gpus()) {
    if (const auto* missing = Missing(node, gpu, "retired_pages")) {
      to.Unknown(Name(gpu), missing, "");
    } else if (!gpu.has_retired_pages()) {
      to.Add(Severity::kNotApplicable, Name(gpu),
             "it retires no pages and remaps no rows", "", "", "");
    } else if (gpu.retired_pages() < kRetiredMany) {
      to.Ok(Name(gpu), absl::StrCat(gpu.retired_pages(),
                                    " pages retired or rows remapped"));
    } else {
      to.Add(
          Severity::kWarning, Name(gpu),
          absl::StrCat(gpu.retired_pages(), " pages retired or rows remapped"),
          absl::StrCat("fewer than ", kRetiredMany),
          "Its memory wears out: at 63 retired pages NVIDIA's DCGM fails a "
          "GPU, and a GPU with a row that cannot be remapped must be replaced.",
          "Check `nvidia-smi -q -d PAGE_RETIREMENT,ROW_REMAPPER`, and plan the "
          "replacement.");
    }
  }
}

// NVML's reasons, by their names in nvml.h (nvmlClocksEventReason...). `bad`:
// the hardware protects itself; the other reasons occur in normal operation.
struct ThrottleReason {
  const char* name;
  bool bad;
  const char* mend;
};
constexpr char kCooling[] =
    "Check temperatures (`nvidia-smi -q -d TEMPERATURE`), fans, air flow and "
    "the coolant.";
constexpr char kPower[] =
    "Check the power supplies and their cables; the power brake is a signal "
    "from outside the GPU.";
constexpr ThrottleReason kThrottleReasons[] = {
    {"gpu_idle", false, ""},
    {"applications_clocks_setting", false, ""},
    // The work needs more power than the GPU may draw.
    {"sw_power_cap", false, ""},
    {"sync_boost", false, ""},
    {"display_clock_setting", false, ""},
    {"hw_slowdown", true, kCooling},
    {"hw_thermal_slowdown", true, kCooling},
    {"sw_thermal_slowdown", true, kCooling},
    {"hw_power_brake_slowdown", true, kPower},
};

void CheckThrottle(const Examined& node, FindingList& to) {
  if (NoDetails(node, to)) return;
  for (const Gpu& gpu : node.facts.gpus()) {
    if (const auto* missing = Missing(node, gpu, "throttle_reasons")) {
      to.Unknown(Name(gpu), missing, "");
      continue;
    }
    std::vector<std::string> bad, normal, unknown;
    const char* mend = "";
    for (const std::string& name : gpu.throttle_reasons()) {
      const auto* known = std::find_if(
          std::begin(kThrottleReasons), std::end(kThrottleReasons),
          [&](const ThrottleReason& reason) { return reason.name == name; });
      if (known == std::end(kThrottleReasons)) {
        unknown.push_back(name);
      } else {
        (known->bad ? bad : normal).push_back(name);
        if (known->bad) mend = known->mend;
      }
    }
    if (!bad.empty()) {
      to.Add(Severity::kWarning, Name(gpu), ListText(bad),
             "no slowdown by heat or the power brake",
             "The GPU lowers its clock to protect itself, and every step waits "
             "for the slowest GPU.",
             mend);
    } else if (!unknown.empty()) {
      to.Unknown(Name(gpu), absl::StrCat("slowed down by ", ListText(unknown)));
    } else {
      to.Ok(Name(gpu), normal.empty() ? "not slowed down" : ListText(normal));
    }
  }
}

// Compares GPUs of one model. On cards whose bridges use only some of the
// links, all cards have the same number of active links.
void CheckNvlink(const Examined& node, FindingList& to) {
  if (NoDetails(node, to)) return;
  std::map<std::string, std::map<uint32_t, int>> like;
  std::map<std::string, uint32_t> active_max;
  for (const Gpu& gpu : node.facts.gpus()) {
    if (!gpu.has_nvlinks_active()) continue;
    ++like[gpu.name()][gpu.nvlinks_active()];
    active_max[gpu.name()] =
        std::max(active_max[gpu.name()], gpu.nvlinks_active());
  }
  for (const Gpu& gpu : node.facts.gpus()) {
    if (gpu.has_nvlinks() && gpu.nvlinks() == 0) {
      to.Add(Severity::kNotApplicable, Name(gpu), "it has no NVLink", "", "",
             "");
      continue;
    }
    if (!gpu.has_nvlinks() || !gpu.has_nvlinks_active()) {
      to.Unknown(Name(gpu), Missing(node, gpu, "nvlinks"),
                 "its NVLinks are not known");
      continue;
    }
    const uint32_t active = gpu.nvlinks_active();
    const std::string found =
        absl::StrCat(active, " of ", gpu.nvlinks(), " NVLinks are active");
    const bool fewer = active < active_max[gpu.name()];
    const bool partly =
        active > 0 && active < gpu.nvlinks() && like[gpu.name()][active] == 1;
    if (!fewer && !partly) {
      to.Ok(Name(gpu), found);
      continue;
    }
    to.Add(Severity::kWarning, Name(gpu), found,
           absl::StrCat(fewer ? active_max[gpu.name()] : gpu.nvlinks(), " of ",
                        gpu.nvlinks()),
           "If a link is down, NCCL uses PCIe, or finds no ring at all.",
           "Check `nvidia-smi nvlink --status` and nvidia-fabricmanager, then "
           "reset the GPU; a link that stays down is a hardware fault.");
  }
}

// The oldest driver that supports this CUDA major version; from NVIDIA's CUDA
// Compatibility, "Minor Version Compatibility", table 1.
struct CudaDriver {
  uint32_t cuda;
  uint32_t driver;
};
constexpr CudaDriver kCudaDrivers[] = {{13, 580}, {12, 525}, {11, 450}};

void CheckDriver(const Examined& node, FindingList& to) {
  if (CountGpus(node.facts) == 0) return to.NotApplicable(kNoGpu);
  std::set<std::string> drivers;
  if (!node.facts.versions().driver().empty()) {
    drivers.insert(node.facts.versions().driver());
  }
  for (const Gpu& gpu : node.facts.gpus()) {
    if (!gpu.driver().empty()) drivers.insert(gpu.driver());
  }
  const std::string& cuda = node.facts.versions().cuda();
  if (drivers.empty() || cuda.empty()) {
    const char* fact = drivers.empty() ? "versions.driver" : "versions.cuda";
    return to.Unknown(kNode, node.missing.Find(fact),
                      "the version of the driver or of CUDA is not known");
  }
  const std::string found = absl::StrCat(
      "driver ", ListText({drivers.begin(), drivers.end()}), ", CUDA ", cuda);
  const std::vector<uint32_t> cuda_version = Version(cuda);
  const std::vector<uint32_t> version = Version(*drivers.begin());
  if (version.empty() || cuda_version.empty()) {
    return to.Unknown(kNode, absl::StrCat(found, " cannot be parsed"));
  }
  for (const CudaDriver& oldest : kCudaDrivers) {
    if (cuda_version[0] != oldest.cuda || version[0] >= oldest.driver) continue;
    return to.Add(Severity::kWarning, kNode, found,
                  absl::StrCat("driver ", oldest.driver, " or later"),
                  "The libcuda.so.1 that ranks load is newer than the kernel's "
                  "driver; that works only with NVIDIA's cuda-compat on data "
                  "center GPUs.",
                  "Update the driver, or use an image with an older CUDA.");
  }
  if (drivers.size() > 1) {
    return to.Add(Severity::kWarning, kNode, found, "one driver version",
                  "The driver reports two versions.",
                  "Load the installed driver (reboot).");
  }
  to.Ok(kNode, found);
}

void CheckNccl(const Examined& node, FindingList& to) {
  const v1::MissingFact* missing = node.missing.Find("versions.nccl");
  // Ranks without a GPU do not use NCCL.
  if (CountGpus(node.facts) == 0) return to.NotApplicable(kNoGpu);
  const v1::Versions& versions = node.facts.versions();
  if (!versions.nccl().empty()) {
    return to.Ok(
        kNode, absl::StrCat(versions.nccl(),
                            versions.nccl_path().empty()
                                ? ""
                                : absl::StrCat(" in ", versions.nccl_path())));
  }
  if (missing == nullptr) {
    return to.Unknown(kNode, "libnccl was not looked for");
  }
  to.Add(Severity::kWarning, kNode, missing->reason(), "a libnccl.so.2",
         "rollcall cannot make NCCL ids, and cannot compare the version with "
         "the other nodes. A command with its own NCCL, as in PyTorch's "
         "wheels, still works.",
         !missing->remedy().empty()
             ? missing->remedy()
             : "Name the library with --nccl-lib, or install libnccl2.");
}

// The first NCCL release with code for an architecture, from
// makefiles/common.mk of its tags: compute_80, compute_90, compute_100 with
// compute_120. Older releases have no kernel that such a GPU can run without a
// translation.
struct FirstNccl {
  uint32_t major;
  std::vector<uint32_t> nccl;
};

void CheckNcclVersion(const Examined& node, FindingList& to) {
  static const std::vector<FirstNccl> kFirst = {
      {8, {2, 7, 3}}, {9, {2, 15, 1}}, {10, {2, 25, 1}}, {12, {2, 25, 1}}};
  if (NoDetails(node, to)) return;
  const std::string& text = node.facts.versions().nccl();
  // The check `nccl` reports the reason.
  if (text.empty()) return to.NotApplicable("no NCCL is known");
  const std::vector<uint32_t> nccl = Version(text);
  if (nccl.empty()) {
    return to.Unknown(kNode, absl::StrCat("NCCL ", text, " is not a version"));
  }
  std::set<std::string> seen;
  for (const Gpu& gpu : node.facts.gpus()) {
    if (!seen.insert(gpu.compute_capability()).second) continue;
    const std::vector<uint32_t> capability = Version(gpu.compute_capability());
    if (gpu.compute_capability().empty() || capability.empty()) {
      to.Unknown(Name(gpu), Missing(node, gpu, "compute_capability"),
                 "its compute capability is not known");
      continue;
    }
    const auto first = std::find_if(
        kFirst.begin(), kFirst.end(),
        [&](const FirstNccl& f) { return f.major == capability[0]; });
    const std::string found =
        absl::StrCat("NCCL ", text, ", compute ", gpu.compute_capability());
    if (first == kFirst.end() || nccl >= first->nccl) {
      to.Ok(Name(gpu), found);
      continue;
    }
    to.Add(Severity::kWarning, Name(gpu), found,
           absl::StrCat("NCCL ", first->nccl[0], ".", first->nccl[1], ".",
                        first->nccl[2], " or later"),
           "This NCCL was released before this GPU, and has no code for it.",
           "Install a newer libnccl2, or an image with a newer CUDA.");
  }
}

}  // namespace

std::vector<NamedCheck> GpuChecks() {
  return {{"gpus", CheckCount},
          {"gpu-nvml", CheckNvml},
          {"gpu-driver", CheckDriver},
          {"gpu-ecc", CheckEcc},
          {"gpu-retired-pages", CheckRetiredPages},
          {"gpu-throttle", CheckThrottle},
          {"gpu-nvlink", CheckNvlink},
          {"nccl", CheckNccl},
          {"nccl-version", CheckNcclVersion}};
}

}  // namespace rollcall
