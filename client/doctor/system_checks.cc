// Checks of limits, memory, clock, folders and /proc.
//
// The comment of each threshold has its source, or says that the value is our
// choice.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/doctor/checks.h"
#include "daemon/core/limits.h"
#include "daemon/core/network_plan/comparison/thresholds.h"

namespace rollcall {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

constexpr uint64_t kMemlockOldDefault = 64 << 10;

// Ray's "Best practices for deploying large clusters" asks for at least 65535.
// NCCL's user guide ("File Descriptors") counts more than 32 Ki descriptors per
// process for 144 ranks with 16 GIN contexts, and raises the limit to 131072.
constexpr uint64_t kNofileMin = 65535;

// Docker's own default is 64 MiB (docker run, --shm-size).
constexpr uint64_t kShmDockerDefault = 64 << 20;

// Swapped-out pages of idle services do no harm. Our choice: the amount that a
// few such services have.
constexpr uint64_t kSwapIdle = 64 << 20;

// Kubernetes evicts pods when less than 10% of a node's file system is free
// ("Node-pressure Eviction", nodefs.available<10%). On a large file system a
// smaller share is enough. Our choice: space for a checkpoint of 7.5 billion
// parameters with 16 bytes each, as for Adam in mixed precision (ZeRO, arXiv
// 1910.02054, section 3.1).
constexpr uint64_t kFreeShare = 10;
constexpr uint64_t kFreeEnough = uint64_t{120} * 1000 * 1000 * 1000;
// With less free space a run cannot even write its world file, hostfile and
// ids. Our choice; the trials that write to a folder (client/agent/node_trials)
// use the same value.
constexpr uint64_t kFreeMin = 16 << 20;

// Whether NCCL's use of a port fails with this limit: registering memory has
// already failed, or the limit is at most the kernel's default.
bool StopsNccl(const Examined& node, uint64_t limit) {
  const auto& ports = node.facts.infiniband();
  return std::any_of(
      ports.begin(), ports.end(), [&](const v1::InfinibandPort& port) {
        return port.state() == "ACTIVE" &&
               (IsShortOfMemlock(node, port) ||
                (port.unusable().empty() && limit <= kMemlockDefault));
      });
}

void CheckMemlock(const Examined& node, FindingList& to) {
  const v1::MissingFact* missing = node.missing.Find("limits.memlock_bytes");
  if (missing != nullptr || !node.facts.has_limits()) {
    return to.Unknown(kNode, missing, "the limit is not known");
  }
  const uint64_t limit = node.facts.limits().memlock_bytes();
  const std::string found = BytesText(limit);
  // mlock(2): the limit does not apply to a process with CAP_IPC_LOCK. RDMA
  // drivers check the same capability.
  if (limit == kUnlimited) return to.Ok(kNode, found);
  if (node.options.may_lock_memory) {
    return to.Ok(kNode, absl::StrCat(found, ", not binding (CAP_IPC_LOCK)"));
  }
  const std::string mend = absl::StrCat(
      node.facts.container().empty()
          ? "Put `* - memlock unlimited` into /etc/security/limits.d/, or "
            "LimitMEMLOCK=infinity into the service's unit, and log in again."
          : "Start the container with --ulimit memlock=-1 (Kubernetes: "
            "capability "
            "IPC_LOCK).",
      " `ulimit -l` shows it.");
  if (node.facts.infiniband().empty()) {
    if (const auto* unknown = node.missing.Find("infiniband")) {
      return to.Unknown(kNode, absl::StrCat(found, "; ", unknown->reason()),
                        unknown->remedy());
    }
    if (limit >= kMemlockOldDefault) {
      return to.Ok(kNode, absl::StrCat(found, ", no RDMA device here"));
    }
    return to.Add(Severity::kWarning, kNode, found,
                  absl::StrCat("at least ", BytesText(kMemlockOldDefault)),
                  "It is below the default of every kernel. If this node gets "
                  "an RDMA device, it cannot be used.",
                  mend);
  }
  // NCCL's user guide, "Troubleshooting NCCL errors" for InfiniBand: if the
  // limit is too low, ibv_reg_mr and ibv_create_qp fail; the limit should be
  // unlimited.
  to.Add(StopsNccl(node, limit) ? Severity::kFatal : Severity::kWarning, kNode,
         found, "unlimited",
         "NCCL registers its buffers with the RDMA device; above the limit "
         "ibv_reg_mr fails and the communicator is not made.",
         mend);
}

void CheckNofile(const Examined& node, FindingList& to) {
  const v1::MissingFact* missing = node.missing.Find("limits.nofile");
  const uint64_t limit = node.facts.limits().nofile();
  // A process with a limit of 0 could not open a file, so 0 means unknown.
  if (missing != nullptr || limit == 0) {
    return to.Unknown(kNode, missing, "the limit is not known");
  }
  const std::string found =
      limit == kUnlimited ? "unlimited" : absl::StrCat(limit);
  if (limit >= kNofileMin) return to.Ok(kNode, found);
  to.Add(Severity::kWarning, kNode, found,
         absl::StrCat("at least ", kNofileMin),
         "NCCL and Gloo hold several descriptors for each peer; a large world "
         "fails with \"too many open files\".",
         absl::StrCat("Run `ulimit -n ", kNofileMin + 1,
                      "` before rollcall starts; permanently: `* - nofile "
                      "131072` in /etc/security/limits.d/, LimitNOFILE= in a "
                      "service's unit, or --ulimit nofile= of a container."));
}

void CheckShm(const Examined& node, FindingList& to) {
  const v1::MissingFact* missing = node.missing.Find("limits.shm_bytes");
  const uint64_t size = node.facts.limits().shm_bytes();
  if (missing != nullptr || size == 0) {
    return to.Unknown(kNode, missing,
                      "the size of /dev/shm is not known; is it mounted?");
  }
  std::string found = BytesText(size);
  if (size >= kShmMin) return to.Ok(kNode, found);
  if (size == kShmDockerDefault) found += ", Docker's default";
  // NCCL's user guide ("Shared memory"): each connection needs a segment of 4
  // MiB, and without space NCCL's initialization fails. PyTorch's README
  // recommends --ipc=host or --shm-size for data loaders with workers.
  to.Add(
      Severity::kWarning, kNode, found,
      absl::StrCat("at least ", BytesText(kShmMin)),
      "NCCL and PyTorch's data loaders keep shared segments in /dev/shm; "
      "when it is full, they fail or die of SIGBUS.",
      node.facts.container().empty()
          ? "`mount -o remount,size=50% /dev/shm`; in a container --ipc=host "
            "or --shm-size=1g and more (Kubernetes: an emptyDir of medium "
            "Memory at /dev/shm)."
          : "Start the container with --ipc=host, or --shm-size=1g and more "
            "(Kubernetes: an emptyDir of medium Memory at /dev/shm).");
}

void CheckSwap(const Examined& node, FindingList& to) {
  const v1::SystemLimits& limits = node.facts.limits();
  if (limits.has_swap_bytes() && limits.swap_bytes() == 0) {
    return to.Ok(kNode, "no swap");
  }
  if (!limits.has_swap_used_bytes()) {
    return to.Unknown(kNode, node.missing.Find("limits.swap_used_bytes"),
                      "the use of swap is not known");
  }
  const uint64_t used = limits.swap_used_bytes();
  const std::string found = absl::StrCat(BytesText(used), " used");
  if (used <= kSwapIdle) return to.Ok(kNode, found);
  to.Add(Severity::kWarning, kNode, found,
         absl::StrCat("at most ", BytesText(kSwapIdle)),
         "A rank whose pages are read back from disk is slow, and every step "
         "waits for the slowest rank. (By default Kubernetes' kubelet refuses "
         "to start with swap.)",
         "Find what uses the memory (`smem`, `top`), end it, then run `swapoff "
         "-a && swapon -a`, or leave swap off.");
}

void CheckHugepages(const Examined& node, FindingList& to) {
  const std::string& mode = node.facts.limits().transparent_hugepages();
  if (const auto* missing = node.missing.Find("limits.transparent_hugepages")) {
    return to.Unknown(kNode, missing, "");
  }
  if (mode.empty()) return to.NotApplicable("the kernel has none");
  if (mode == "always" || mode == "madvise") return to.Ok(kNode, mode);
  if (mode != "never") return to.Unknown(kNode, mode);
  // The kernel's admin-guide/mm/transhuge describes the modes. PyTorch's
  // tutorial on tuning for AWS Graviton turns huge pages on with
  // THP_MEM_ALLOC_ENABLE=1, which requests them with madvise(2).
  to.Add(Severity::kWarning, kNode, mode, "madvise or always",
         "Large host buffers then need 512 times as many page table entries; "
         "PyTorch's THP_MEM_ALLOC_ENABLE has no effect.",
         "Run `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`.");
}

void CheckClock(const Examined& node, FindingList& to) {
  if (!node.options.clock) {
    return to.NotApplicable("no daemon was asked for its time");
  }
  const DaemonClock& clock = *node.options.clock;
  if (!clock.offset) return to.Unknown(kNode, clock.unknown_reason);
  const absl::Duration apart = absl::AbsDuration(*clock.offset);
  const std::string found = absl::StrCat(
      absl::FormatDuration(absl::Trunc(apart, absl::Milliseconds(1))),
      *clock.offset < absl::ZeroDuration() ? " behind" : " ahead of",
      " the daemon, to within ",
      absl::FormatDuration(absl::Ceil(clock.error, absl::Milliseconds(1))));
  if (apart + clock.error <= Limits::clock_offset_max)
    return to.Ok(kNode, found);
  if (apart - clock.error <= Limits::clock_offset_max) {
    return to.Unknown(kNode, found,
                      "Try again when the daemon answers faster.");
  }
  to.Add(
      Severity::kWarning, kNode, found,
      absl::StrCat("at most ", absl::FormatDuration(Limits::clock_offset_max)),
      "Log times of the nodes cannot be compared, checkpoints look older or "
      "newer than they are, and certificates may not be valid yet.",
      "Run chrony or systemd-timesyncd on every node (`chronyc tracking`, "
      "`timedatectl`).");
}

void CheckFolders(const Examined& node, FindingList& to) {
  if (node.facts.folders().empty()) {
    if (const auto* missing = node.missing.FindBelow("folders")) {
      return to.Unknown(kNode, missing, "");
    }
    return to.NotApplicable("no folder was named");
  }
  constexpr char kMend[] = "Remove what is not needed, or name another folder.";
  for (const v1::FolderSpace& folder : node.facts.folders()) {
    const v1::MissingFact* missing =
        node.missing.Find(absl::StrCat("folders.", folder.path()));
    if (missing != nullptr || folder.size_bytes() == 0) {
      to.Unknown(folder.path(), missing, "its free space is not known");
      continue;
    }
    const uint64_t free = folder.free_bytes();
    const std::string found = absl::StrCat(BytesText(free), " free of ",
                                           BytesText(folder.size_bytes()));
    if (free < kFreeMin) {
      to.Add(Severity::kRetryable, folder.path(), found,
             absl::StrCat("at least ", BytesText(kFreeMin)),
             "It is full: no file can be written there.", kMend);
    } else if (free < folder.size_bytes() / 100 * kFreeShare &&
               free < kFreeEnough) {
      to.Add(Severity::kWarning, folder.path(), found,
             absl::StrCat(kFreeShare, "% of it, or ", BytesText(kFreeEnough)),
             "Checkpoints and logs grow during a run; below 10% Kubernetes "
             "evicts the pods of the node.",
             kMend);
    } else {
      to.Ok(folder.path(), found);
    }
  }
}

void CheckProc(const Examined& node, FindingList& to) {
  const bool boot_id = !node.facts.boot_id().empty();
  const bool spaces = node.facts.network_namespace() != 0;
  if (boot_id && spaces) return to.Ok(kNode, "mounted");
  const v1::MissingFact* no_boot_id = node.missing.Find("boot_id");
  const v1::MissingFact* no_space = node.missing.Find("network_namespace");
  if (boot_id || spaces) {
    return to.Unknown(kNode, boot_id ? no_space : no_boot_id,
                      "a file of /proc does not exist");
  }
  to.Add(Severity::kFatal, kNode, "/proc is not mounted", "a mounted /proc",
         "rollcall starts itself through /proc/self/exe, and needs /proc to "
         "find processes that ranks left running.",
         "Run `mount -t proc proc /proc`.");
}

}  // namespace

std::vector<NamedCheck> SystemChecks() {
  return {{"proc", CheckProc},     {"memlock", CheckMemlock},
          {"nofile", CheckNofile}, {"shm", CheckShm},
          {"swap", CheckSwap},     {"transparent-hugepages", CheckHugepages},
          {"clock", CheckClock},   {"free-space", CheckFolders}};
}

}  // namespace rollcall
