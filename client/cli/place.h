// Place: what this process and this machine bring to a command: environment,
// node name, the job that the flags mean.
#ifndef ROLLCALL_CLIENT_CLI_PLACE_H_
#define ROLLCALL_CLIENT_CLI_PLACE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/flags.h"
#include "client/launch/admin_client.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// "NAME=value", without what opens a job (ROLLCALL_JOIN, ROLLCALL_TOKEN).
std::vector<std::string> PlainEnvironment();

// Names are to be resolved as every other program here does it (nsswitch, not
// gRPC's own resolver), unless the user chose. Before the first gRPC call, and
// after PlainEnvironment, since ranks are not to inherit it.
void UseSystemResolver();

// --name, else the hostname. INVALID_ARGUMENT: it is none; says what to do.
absl::StatusOr<std::string> NodeName(const std::string& flag);

// --nproc-per-node: auto is one a GPU, else 1.
uint32_t RanksHere(const std::string& flag, const v1::Facts& facts);

// The token that a file or else ROLLCALL_TOKEN holds; nothing: neither is
// given. INVALID_ARGUMENT: it is none.
absl::StatusOr<std::optional<v1::JoinToken>> GivenToken(
    const std::string& file);

// The job to join: the join string, ROLLCALL_JOIN, or endpoint, job and token.
absl::StatusOr<JobAddress> JobToJoin(const WhereFlags& where);

// The job to look at or to end: as above, or one that a launcher on this
// machine has left in its state folder. NOT_FOUND: none; says what to try.
absl::StatusOr<JobAddress> JobToSee(const WhereFlags& where);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_PLACE_H_
