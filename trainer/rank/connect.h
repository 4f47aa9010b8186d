// AgreeOnDevice and Connect: a rank's device and its collective in its current
// world.
//
// A rank finds its peers through the agent's Exchange. The end of the world
// interrupts a blocked collective. Nothing is trained here.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_RANK_CONNECT_H_
#define ROLLCALL_TRAINER_RANK_CONNECT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/rank/rank.h"
#include "trainer/collective/collective.h"
#include "trainer/rank/options.h"
#include "trainer/rank/rank_device.h"

namespace rollcall {

// "rank 2 on node-b": how messages name a rank.
std::string RankName(const v1::World& world, int which);

// Tells all ranks of the world which devices this one has, and takes the device
// that ChooseDevices gives it. Rank 0 warns if ranks compute on GPUs of
// different models. All ranks call it in each world, before Connect,
// also those that have a device. FAILED_PRECONDITION: this rank demands a GPU
// and all that it sees are taken; or some ranks have a GPU and others do not,
// and the message names two of them. UNAVAILABLE: some have a GPU and others do
// not, or some are of another version of rollcall-train, but this rank is like
// the rank with the state, so the other ranks will leave.
absl::Status AgreeOnDevice(Rank* rank, RankDevice& device);

// Connects the ranks with NCCL on GPUs, otherwise with Gloo. If `rank` is null
// or the world has one rank, it connects nothing. `rank` and `device` must
// outlive the collective. For errors see ConnectGloo and ConnectNccl. Not to be
// retried within a generation.
absl::StatusOr<std::unique_ptr<Collective>> Connect(const TrainOptions& options,
                                                    Rank* rank,
                                                    RankDevice& device);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_RANK_CONNECT_H_
