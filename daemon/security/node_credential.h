// Node credentials: what an agent shows instead of its token once it is in.
//
// A MAC over job, run, node, incarnation and whether it is the launcher's own
// agent: it speaks for nobody else and for nothing more, needs no table, and is
// as good after a restart of the daemon, whose key is kept with its state or
// derived from the shared secret. Pure; any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_NODE_CREDENTIAL_H_
#define ROLLCALL_DAEMON_SECURITY_NODE_CREDENTIAL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// 32 bytes.
std::string NodeCredential(std::string_view key, std::string_view job,
                           std::string_view run, std::string_view node,
                           uint64_t incarnation, bool launcher = false);

// Whether a Hello's node_credential is that of the job, run, node,
// incarnation and rank that it names. Not whether these still stand: that is
// the job's to say.
bool IsOwnCredential(std::string_view key, const v1::Hello& hello);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_NODE_CREDENTIAL_H_
