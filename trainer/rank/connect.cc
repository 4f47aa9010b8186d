#include "trainer/rank/connect.h"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"
#include "trainer/collective/gloo.h"
#include "trainer/collective/single.h"
#include "trainer/cuda/nccl/nccl_collective.h"

namespace rollcall {

std::string RankName(const v1::World& world, int which) {
  for (const v1::Member& member : world.members()) {
    const int first = member.first_rank();
    if (which >= first && which < first + static_cast<int>(member.ranks())) {
      return absl::StrCat("rank ", which, " on ", member.node());
    }
  }
  return absl::StrCat("rank ", which);
}

namespace {

// The timeout is not the collectives' one, because the daemon may be away for a
// while, and a slow node may start late. The end of the generation ends this
// wait too.
Exchange ExchangeOf(Rank* rank) {
  return [rank](const std::string& key, const std::string& value) {
    return rank->Exchange(key, value, Limits().daemon_grace);
  };
}

std::shared_ptr<Interruption> InterruptedBy(Rank* rank) {
  auto interruption = std::make_shared<Interruption>();
  rank->WhenOver([interruption] { interruption->Raise(); });
  return interruption;
}

std::string NameOf(const DeviceChoice& choice) {
  return choice.gpu.has_value() ? "a GPU" : "the CPU";
}

// Whether there is a rank with the state, and this rank understands it. Then
// ranks of other versions leave, and this one stays.
bool IsOfSourcesVersion(const Rank& rank,
                        const std::vector<std::string>& offers) {
  const v1::WorldCommit& commit = rank.world().world_commit();
  if (!commit.has_state_source()) return false;
  const size_t source = commit.state_source().rank();
  return source < offers.size() && DeviceOffer::Decode(offers[source]).ok();
}

// The offers of all ranks of the world, by rank.
absl::StatusOr<std::vector<DeviceOffer>> OffersOf(Rank* rank,
                                                  const RankDevice& device) {
  if (rank == nullptr || rank->world_size() == 1) {
    return std::vector<DeviceOffer>{device.offer()};
  }
  const absl::StatusOr<std::vector<std::string>> texts =
      ExchangeOf(rank)("device", device.offer().Encode());
  if (!texts.ok()) return texts.status();
  std::vector<DeviceOffer> offers;
  for (const std::string& text : *texts) {
    absl::StatusOr<DeviceOffer> offer = DeviceOffer::Decode(text);
    if (!offer.ok()) {
      const std::string what = absl::StrCat(
          RankName(rank->world().world(), static_cast<int>(offers.size())),
          ": ", offer.status().message(), "; give all nodes the same rollcall");
      return IsOfSourcesVersion(*rank, *texts)
                 ? absl::UnavailableError(what)
                 : absl::FailedPreconditionError(what);
    }
    offers.push_back(*std::move(offer));
  }
  return offers;
}

// Whether this rank stays if some ranks are on GPUs and others on CPUs: the
// kind of the rank that is the source of the state stays. Without a source,
// those stay that had a device before (`held`).
bool KindStays(const Rank& rank, const std::vector<DeviceChoice>& choices,
               bool held) {
  const v1::WorldCommit& commit = rank.world().world_commit();
  if (!commit.has_state_source()) return held;
  const size_t source = commit.state_source().rank();
  return source < choices.size() && choices[source].gpu.has_value() ==
                                        choices[rank.rank()].gpu.has_value();
}

// If some ranks used NCCL and others Gloo, all would wait forever. So ranks of
// one of the two kinds fail for good; see KindStays.
absl::Status CheckSameKind(const Rank& rank,
                           const std::vector<DeviceChoice>& choices,
                           const RankDevice& device, bool held) {
  const std::string mine = NameOf(choices[rank.rank()]);
  for (size_t i = 0; i < choices.size(); ++i) {
    if (NameOf(choices[i]) == mine) continue;
    const std::string what = absl::StrCat(
        RankName(rank.world().world(), static_cast<int>(rank.rank())),
        " is on ", mine, ", and ",
        RankName(rank.world().world(), static_cast<int>(i)), " on ",
        NameOf(choices[i]),
        device.reason().empty() ? "" : "; here: ", device.reason(),
        "; fix that, or give every node --device cpu");
    return KindStays(rank, choices, held) ? absl::UnavailableError(what)
                                          : absl::FailedPreconditionError(what);
  }
  return absl::OkStatus();
}

// Reports why rank 0 does not take a GPU with --device auto. The other ranks
// then compute on CPUs too, or CheckSameKind reports that they do not.
void TellOfCpu(const Rank* rank, const std::vector<DeviceOffer>& offers,
               const std::vector<DeviceChoice>& choices,
               const std::string& missing) {
  const std::string why =
      WhyCpu(offers, choices, 0, missing, [rank](int which) {
        return RankName(rank == nullptr ? v1::World() : rank->world().world(),
                        which);
      });
  if (why.empty()) return;
  std::fprintf(stderr, "rollcall-train: --device auto chose the CPU: %s\n",
               why.c_str());
}

// Warns of GPUs of different models, which each rank alone cannot see.
void TellOfDifferentModels(const Rank& rank,
                           const std::vector<DeviceOffer>& offers,
                           const std::vector<DeviceChoice>& choices) {
  const std::string models = DifferentModels(
      offers, choices,
      [&rank](int which) { return RankName(rank.world().world(), which); });
  if (models.empty()) return;
  std::fprintf(
      stderr,
      "rollcall-train: warning: the ranks compute on GPUs of different "
      "models: %s. A step takes as long as on the slowest of them, and "
      "results are rounded differently than on GPUs of one model; to "
      "avoid that, train on nodes with the same GPUs\n",
      models.c_str());
}

absl::StatusOr<std::unique_ptr<Collective>> OverGloo(
    const TrainOptions& options, Rank* rank) {
  GlooOptions gloo;
  gloo.rank = rank->rank();
  gloo.size = rank->world_size();
  gloo.address = rank->member().address();
  gloo.timeout = options.collective_timeout;
  gloo.exchange = ExchangeOf(rank);
  gloo.name = [world = rank->world().world()](int which) {
    return RankName(world, which);
  };
  gloo.interruption = InterruptedBy(rank);
  return ConnectGloo(std::move(gloo));
}

absl::StatusOr<std::unique_ptr<Collective>> OverNccl(
    const TrainOptions& options, Rank* rank, RankDevice& device) {
  if (device.nccl() == nullptr) {
    const absl::StatusOr<NcclLibrary> missing = NcclLibrary::Open("");
    return missing.ok() ? absl::FailedPreconditionError(
                              "NCCL was not available when this rank started")
                        : missing.status();
  }
  const v1::WorldCommit& world_commit = rank->world().world_commit();
  NcclOptions nccl;
  nccl.rank = rank->rank();
  nccl.size = rank->world_size();
  nccl.ids.assign(world_commit.nccl_ids().begin(),
                  world_commit.nccl_ids().end());
  nccl.ids_version = world_commit.nccl_version();
  nccl.exchange = ExchangeOf(rank);
  nccl.timeout = options.collective_timeout;
  nccl.name = [world = rank->world().world()](int which) {
    return RankName(world, which);
  };
  nccl.interruption = InterruptedBy(rank);
  nccl.streams = device.gpu();
  nccl.log = device.nccl_log();
  return ConnectNccl(*device.nccl(), std::move(nccl));
}

}  // namespace

absl::Status AgreeOnDevice(Rank* rank, RankDevice& device) {
  const absl::StatusOr<std::vector<DeviceOffer>> offers =
      OffersOf(rank, device);
  if (!offers.ok()) return offers.status();
  const std::vector<DeviceChoice> choices = ChooseDevices(*offers);
  const size_t mine = choices.size() == 1 ? 0 : rank->rank();
  const bool held = !device.offer().held.empty();
  if (choices[mine].all_taken && device.offer().wanted == DeviceKind::kCuda) {
    const size_t gpus = device.offer().gpus.size();
    return absl::FailedPreconditionError(absl::StrCat(
        RankName(rank->world().world(), static_cast<int>(mine)),
        ": other ranks of this world use ",
        gpus == 1 ? "the only GPU" : absl::StrCat("all ", gpus, " GPUs"),
        " that it sees; start one rank a GPU, or give every node --device "
        "cpu"));
  }
  if (mine == 0) TellOfCpu(rank, *offers, choices, device.reason());
  if (absl::Status s = device.Take(choices[mine]); !s.ok()) return s;
  if (choices.size() == 1) return absl::OkStatus();
  if (mine == 0) TellOfDifferentModels(*rank, *offers, choices);
  return CheckSameKind(*rank, choices, device, held);
}

absl::StatusOr<std::unique_ptr<Collective>> Connect(const TrainOptions& options,
                                                    Rank* rank,
                                                    RankDevice& device) {
  if (rank == nullptr || rank->world_size() == 1) {
    return std::make_unique<SingleCollective>();
  }
  return device.is_gpu() ? OverNccl(options, rank, device)
                         : OverGloo(options, rank);
}

}  // namespace rollcall
