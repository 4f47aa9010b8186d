// Node credentials: what an agent shows instead of its token once it is in.
//
// A MAC over job, run, node, incarnation, the node's epoch and whether it is
// the launcher's own agent, followed by the epoch where that is above 0: it is
// good for one life of one node, needs no table, and is as good after a restart
// of the daemon, whose key is kept with its state or derived from the shared
// secret. Whether its epoch is still the node's is for the job to say. Pure;
// any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_NODE_CREDENTIAL_H_
#define ROLLCALL_DAEMON_SECURITY_NODE_CREDENTIAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// 32 bytes; 40 where the epoch is not 0 (credentials of epoch 0 are those that
// daemons made before there were epochs).
std::string NodeCredential(std::string_view key, std::string_view job,
                           std::string_view run, std::string_view node,
                           uint64_t incarnation, uint64_t epoch = 0,
                           bool launcher = false);

// The epoch that a Hello's node_credential was made for, where it is that of
// the job, run, node, incarnation and rank that the Hello names; otherwise
// nothing. Not whether these still stand: that is the job's to say.
std::optional<uint64_t> EpochOfCredential(std::string_view key,
                                          const v1::Hello& hello);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_NODE_CREDENTIAL_H_
