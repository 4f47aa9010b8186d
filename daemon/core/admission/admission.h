// Admission: the grammar of everything that comes in, checked once at the edge.
//
// What passes may be used as it is by the core, in files, environments and on
// terminals. What people wrote (reasons, stderr tails) is not refused but
// cleaned. Pure; any thread.
#ifndef ROLLCALL_DAEMON_CORE_ADMISSION_ADMISSION_H_
#define ROLLCALL_DAEMON_CORE_ADMISSION_ADMISSION_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Bounds of the parts of a node's facts, beside facts_bytes_max,
// addresses_per_node_max and interfaces_per_node_max of limits.h. An empty part
// takes two bytes of a message and some hundred of the daemon's memory, so each
// kind of part has a bound of its own. Who gathers facts keeps to them.
struct FactsLimits {
  // RDMA ports, GPUs, and GIDs of one port.
  static constexpr size_t devices_max = 256;
  // RDMA devices near a GPU, and reasons why its clock is low.
  static constexpr size_t words_max = 256;
  // The same of all ports, and of all GPUs.
  static constexpr size_t gids_of_node_max = 1024;
  static constexpr size_t words_of_node_max = 1024;
  static constexpr size_t missing_max = 64;
  static constexpr size_t folders_max = 16;
  // Of a name, a version or another short text; of a reason or a remedy; of a
  // path.
  static constexpr size_t short_text_bytes_max = 256;
  static constexpr size_t missing_text_bytes_max = 512;
  static constexpr size_t path_bytes_max = 4096;
};

// All return INVALID_ARGUMENT naming field, what was expected and what was
// found (escaped and cut).

// 1 to 63 of [a-z0-9-], not beginning or ending with '-'.
absl::Status AdmitJobId(std::string_view job);
// Hostname grammar: labels of [A-Za-z0-9_-], 1 to 63 bytes, neither beginning
// nor ending with '-'; dots between; 1 to 253 bytes in all.
absl::Status AdmitNodeName(std::string_view node);
// The text form of an IPv4 or IPv6 address, without zone, prefix or port.
absl::Status AdmitAddress(std::string_view address);
// 1 to limits' exchange_key_bytes_max of printable ASCII.
absl::Status AdmitExchangeKey(std::string_view key);
absl::Status AdmitSettings(const v1::JobSettings& settings);
// Also refuses facts that contradict themselves: one interface name, port of an
// InfiniBand device or GPU index twice.
absl::Status AdmitFacts(const v1::Facts& facts);
// A world's grammar and bounds: names, addresses, texts, counts, generation.
// That its ranks are dense is DecodeWorld's business.
absl::Status AdmitWorld(const v1::World& world);
// Against the world it belongs to: generation, node rank 0's address, port,
// NCCL ids. What is said for want of ids is cleaned, not refused: CleanSeal.
absl::Status AdmitSeal(const v1::Seal& seal, const v1::World& world);
absl::Status AdmitHello(const v1::Hello& hello);
// Everything but Hello. Checks sizes and grammar; whether a message fits the
// state of the job is the core's business.
absl::Status AdmitMessage(const v1::AgentMessage& message);

// Makes every free text of an admitted message printable and cuts it to its
// bound.
void CleanHello(v1::Hello& hello);
void CleanMessage(v1::AgentMessage& message);
void CleanSeal(v1::Seal& seal);
// For the agent: what a daemon says of the roll call, of an abort and of the
// end. Worlds, seals and exchanged values pass as they are.
void CleanDaemonMessage(v1::DaemonMessage& message);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_ADMISSION_ADMISSION_H_
