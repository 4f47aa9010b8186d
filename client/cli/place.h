// Place: what this process and this machine bring to a command: environment,
// node name, the job that the flags mean.
#ifndef ROLLCALL_CLIENT_CLI_PLACE_H_
#define ROLLCALL_CLIENT_CLI_PLACE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/admin/admin_client.h"
#include "client/cli/flags.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// "NAME=value". What opens a job was taken out before (TakeSecrets).
std::vector<std::string> PlainEnvironment();

// For this process and not for its ranks: before the first gRPC call, and after
// PlainEnvironment. Names are resolved as every other program here does it
// (nsswitch, not gRPC's own resolver), unless the user chose; and gRPC's
// traces, which print tokens, are off.
void PrepareGrpc();

// --name, else the hostname. INVALID_ARGUMENT: it is none; says what to do.
absl::StatusOr<std::string> NodeName(const std::string& flag);

// The address that the platform names for this node's peers; empty: none. On
// RunPod's clusters NODE_ADDR, beside PRIMARY_ADDR. Like any other address it
// is used only where peers reach it. Pure.
std::string AdvertisedAddress(const std::vector<std::string>& environment);

// The path as it is from every folder; empty stays empty. As it was given where
// there is no working folder.
std::string AbsolutePath(const std::string& path);

// --nproc-per-node: auto is one a GPU, else 1.
uint32_t RanksHere(const std::string& flag, const v1::Facts& facts);

// The job to join: the join string, ROLLCALL_JOIN, or endpoint, job and shared
// secret, whose token for `role` it takes. INVALID_ARGUMENT: something is
// missing or contradicts. UNAUTHENTICATED: a join string that was cut or
// altered.
absl::StatusOr<JobAddress> JobToJoin(const WhereFlags& where, v1::Role role);

// The job to look at or to steer: as above, or one that a launcher on this
// machine has left in its state folder, as its admin. NOT_FOUND: none; says
// what to try.
absl::StatusOr<JobAddress> JobToSee(const WhereFlags& where, v1::Role role);

// Fail, for a call to the job's daemon. Where no daemon answers because the
// launcher that would start it again is stopped, says so.
int FailAt(const JobAddress& address, const absl::Status& status);

// The join string that lets others in by `token`.
std::string JoinStringOf(const JobAddress& address, const std::string& job,
                         const v1::JoinToken& token);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_PLACE_H_
