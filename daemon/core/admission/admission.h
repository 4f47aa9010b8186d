// Admission: checks the grammar and the bounds of all input once, on arrival.
//
// The core may use input that passes unchanged, also in files, in environments
// and on terminals. Free text of people (reasons, stderr tails) is not refused
// but cleaned. Pure; any thread.
#ifndef ROLLCALL_DAEMON_CORE_ADMISSION_ADMISSION_H_
#define ROLLCALL_DAEMON_CORE_ADMISSION_ADMISSION_H_

#include "absl/status/status.h"
#include "daemon/core/admission/facts_limits.h"
#include "daemon/core/admission/grammar.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// All Admit... functions, here and in grammar.h, return INVALID_ARGUMENT with
// the field, what was expected and what was found (escaped and cut).

absl::Status AdmitSettings(const v1::JobSettings& settings);
// Also refuses facts that contradict themselves: a repeated interface name,
// port of an InfiniBand device or GPU index.
absl::Status AdmitFacts(const v1::Facts& facts);
// Checks a world's grammar and bounds: names, addresses, texts, counts,
// generation. DecodeWorld checks that its ranks are dense.
absl::Status AdmitWorld(const v1::World& world);
// Checks a world commit against its world: generation, node rank 0's address,
// port and NCCL ids. The text that explains why there are no ids is not
// refused; CleanWorldCommit cleans it.
absl::Status AdmitWorldCommit(const v1::WorldCommit& world_commit,
                              const v1::World& world);
absl::Status AdmitHello(const v1::Hello& hello);
// For AgentMessage.introduction, which has only some of the fields.
absl::Status AdmitIntroduction(const v1::Hello& hello);
// For all messages except Hello. Checks sizes and grammar; the core checks
// whether a message fits the state of the job.
absl::Status AdmitMessage(const v1::AgentMessage& message);
// Checks the sizes of the key and the values; the kind may be unknown.
absl::Status AdmitStoreOperation(const v1::StoreOperation& what);

// Makes every free text of an admitted message printable and cuts it to its
// bound.
void CleanHello(v1::Hello& hello);
void CleanMessage(v1::AgentMessage& message);
void CleanWorldCommit(v1::WorldCommit& world_commit);
// For the agent: cleans the texts of a daemon's messages about waiting, abort
// and end. Worlds, world commits and exchanged values pass unchanged.
void CleanDaemonMessage(v1::DaemonMessage& message);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_ADMISSION_ADMISSION_H_
