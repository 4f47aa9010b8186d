#include "trainer/check_worlds.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/check/memory.h"
#include "trainer/check/run_check.h"
#include "trainer/check/used_ports.h"
#include "trainer/rank/connect.h"
#include "trainer/rank/world_end.h"

namespace rollcall {
namespace {

CheckedNode NodeFrom(const v1::Member& member) {
  CheckedNode node;
  node.name = member.node();
  node.first_rank = static_cast<int>(member.first_rank());
  node.ranks = static_cast<int>(member.ranks());
  for (const v1::MemberGpus& gpus : member.gpus()) {
    node.gpus += static_cast<int>(gpus.count());
  }
  for (const v1::MemberPort& port : member.ports()) {
    node.ports.push_back({absl::StrCat(port.device(), ":", port.port()),
                          port.active(), port.rate_gbps()});
  }
  return node;
}

// Only after the collective is connected: NCCL then has set the variables of
// its configuration files in this process's environment. Those of the network
// plan were set before (SetNetwork).
CheckedWorld WorldOf(const Rank* rank) {
  CheckedWorld checked;
  if (rank == nullptr) return checked;
  const v1::World& world = rank->world().world();
  for (const v1::Member& member : world.members()) {
    checked.nodes.push_back(NodeFrom(member));
  }
  checked.one_machine = world.one_machine();
  const char* list = std::getenv("NCCL_IB_HCA");
  if (list != nullptr) {
    checked.ports_used = UsedPorts(NodeFrom(rank->member()).ports, list);
  }
  checked.noticed = [rank] { return rank->noticed(); };
  return checked;
}

void PrintLine(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

absl::StatusOr<Verdict> CheckInWorld(const TrainOptions& options, Rank* rank,
                                     RankDevice& device) {
  if (absl::Status s = AgreeOnDevice(rank, device); !s.ok()) return s;
  absl::StatusOr<std::unique_ptr<Collective>> collective =
      Connect(options, rank, device);
  if (!collective.ok()) return collective.status();
  // The collective of one rank copies in host memory.
  const std::unique_ptr<CheckMemory> memory =
      (*collective)->size() == 1 ? std::make_unique<HostMemory>()
                                 : device.MakeCheckMemory();
  absl::StatusOr<Verdict> verdict =
      RunCheck(options.check, **collective, *memory, WorldOf(rank), PrintLine);
  if (absl::IsCancelled(verdict.status()) && rank != nullptr) {
    return WaitAtBoundary(*rank, 0);
  }
  if (!verdict.ok()) return verdict;
  if (absl::Status s = (*collective)->Finish(); !s.ok()) return s;
  return verdict;
}

// A missing peer may be back at the next try. Other failures do not go away by
// themselves.
VerdictLevel LevelOf(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
                 absl::IsAborted(status)
             ? VerdictLevel::kRetryable
             : VerdictLevel::kFatal;
}

Verdict CheckUntilDone(const TrainOptions& options, Rank* rank) {
  absl::StatusOr<std::unique_ptr<RankDevice>> device =
      RankDevice::Find(options.device, rank);
  if (!device.ok()) {
    return {VerdictLevel::kFatal, {std::string(device.status().message())}};
  }
  for (;;) {
    absl::StatusOr<Verdict> verdict = CheckInWorld(options, rank, **device);
    if (verdict.ok()) return *std::move(verdict);
    absl::Status status = verdict.status();
    if (rank != nullptr && MayBeWorldEnd(status, rank->aborted()) &&
        rank->AwaitAbort(options.collective_timeout).ok()) {
      std::fprintf(stderr,
                   "rollcall-train: generation %llu has ended during its "
                   "check: %s\n",
                   static_cast<unsigned long long>(rank->generation()),
                   rank->abort().value_or(v1::RankAbort()).reason().c_str());
      rank->Stopped(0, false);
      status = rank->NextWorld();
      if (status.ok()) continue;
    }
    return {LevelOf(status),
            {absl::StrCat("the check could not be completed: ",
                          status.ToString())}};
  }
}

}  // namespace

RankEnd CheckInWorlds(const TrainOptions& options, Rank* rank) {
  const Verdict verdict = CheckUntilDone(options, rank);
  for (const std::string& reason : verdict.reasons) {
    std::fprintf(stderr, "rollcall-train: check: %s: %s\n",
                 NameOf(verdict.level), reason.c_str());
  }
  const bool permanent = verdict.level == VerdictLevel::kWarning ||
                         verdict.level == VerdictLevel::kFatal;
  return {static_cast<int>(verdict.level),
          permanent ? absl::StrJoin(verdict.reasons, "\n") : ""};
}

}  // namespace rollcall
