// Job lookup: finds what a command takes from this process and this machine:
// the environment, the node name, and the job that the flags mean.
#ifndef ROLLCALL_CLIENT_CLI_JOB_LOOKUP_H_
#define ROLLCALL_CLIENT_CLI_JOB_LOOKUP_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/admin/admin_client.h"
#include "client/cli/flags/flags.h"
#include "daemon/base/processes/system_user.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// This process's environment, as "NAME=value". TakeSecrets has removed the
// secrets.
std::vector<std::string> PlainEnvironment();

// Sets the variables of --env NAME to this process's own values, before the
// settings are used. INVALID_ARGUMENT: one of them is not set here, or its
// value cannot be sent.
absl::Status TakeOwnVariables(v1::JobSettings& settings);

// Sets ROLLCALL_ATTEMPT from the platform, for the agents that this process
// starts or becomes; a value that the user has set stays. Call it before any
// thread is started. INVALID_ARGUMENT: the user's own value is not a number.
absl::Status PassAttempt();

// Prepares gRPC in this process; ranks must not inherit its settings. Call it
// after PlainEnvironment and before the first gRPC call. Names are resolved by
// the system (nsswitch) instead of gRPC's own resolver, unless the user has
// chosen that one. gRPC's traces, which print tokens, are switched off.
void PrepareGrpc();

// --name, else the hostname. INVALID_ARGUMENT: not a valid node name; the
// message has the remedy.
absl::StatusOr<std::string> NodeName(const std::string& flag);

// The address that the platform gives for this node's peers (NODE_ADDR on
// RunPod clusters, for example); empty: none. As with any address, it is used
// only if peers reach it. Pure.
std::string AdvertisedAddress(const std::vector<std::string>& environment);

// `path` as an absolute path; an empty path stays empty. If the process has no
// working folder, the path is returned unchanged.
std::string AbsolutePath(const std::string& path);

// --nproc-per-node; auto: one per GPU, else 1.
uint32_t RanksHere(const std::string& flag, const v1::Facts& facts);

// --rank-user; nullopt: not given. INVALID_ARGUMENT: there is no such user, or
// this process cannot run ranks as another user.
absl::StatusOr<std::optional<SystemUser>> RankUser(const std::string& flag);

// --nccl-lib; empty: not given. INVALID_ARGUMENT: the file cannot be read, so
// no NCCL ids could be minted with it.
absl::Status CheckLibrary(const std::string& path);

// The job to join: the join string, ROLLCALL_JOIN, or endpoint, job and shared
// secret, from which the token for `role` is derived. INVALID_ARGUMENT:
// something is missing or contradictory. UNAUTHENTICATED: the join string was
// cut or altered.
absl::StatusOr<JobAddress> JobToJoin(const WhereFlags& where, v1::Role role);

// The job to show or control: found as in JobToJoin, or, with the admin token,
// a job whose state folder a launcher on this machine has. NOT_FOUND: there is
// none; the message has what to try.
absl::StatusOr<JobAddress> JobToSee(const WhereFlags& where, v1::Role role);

// Like Fail, for a call to the job's daemon. If no daemon answers because the
// launcher that would restart it is stopped, the message says so.
int FailAt(const JobAddress& address, const absl::Status& status);

// The join string with `token`.
std::string JoinStringOf(const JobAddress& address, const std::string& job,
                         const v1::JoinToken& token);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_JOB_LOOKUP_H_
