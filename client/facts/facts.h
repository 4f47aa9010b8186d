// Facts: what this node reports about itself in its Hello.
//
// Gathering never fails: a fact that cannot be read stays unset, and `missing`
// has the reason. No name is resolved, and nothing is sent to another machine.
// Each part (network, infiniband, gpu, system) fills its own fields.
//
// Any thread. The result is within limits.h (addresses_per_node_max,
// facts_bytes_max) and FactsLimits, and passes AdmitFacts.
#ifndef ROLLCALL_CLIENT_FACTS_FACTS_H_
#define ROLLCALL_CLIENT_FACTS_FACTS_H_

#include <string>
#include <vector>

#include "client/facts/device_facts.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The facts that come from the kernel alone and are read in this process:
// network, system, and how many GPUs the driver shows. Takes about a
// millisecond.
v1::Facts GatherFacts(const std::string& sysroot = "/");

struct NodeFactsOptions {
  // The binary that runs `rollcall facts`.
  std::string self = "/proc/self/exe";
  // The environment of the ranks' command; it decides which libraries and GPUs
  // the command finds.
  std::vector<std::string> environment;
  // The settings in NCCL's configuration files, "NAME=value".
  std::vector<std::string> nccl_conf;
  DeviceFactsOptions devices;
};

// All facts: those of GatherFacts and, if this node has devices, those of
// AskDeviceFacts. Takes at most devices.timeout plus one second. If folders are
// asked for, the process must have one thread.
v1::Facts GatherNodeFacts(const NodeFactsOptions& options);

// Adds the device facts to those of the kernel, and bounds the result.
void AddDeviceFacts(const v1::Facts& devices, v1::Facts& facts);

// Replaces the interfaces in `facts`, and the missing facts about interfaces,
// by those of `now`. Values that the kernel did not report this time stay.
// Pure.
void TakeNetwork(const v1::Facts& now, v1::Facts& facts);

// Does the same for all facts that the node checks gather; node checks do not
// read folders or files of --same. If a device library hung or crashed, all
// devices stay as they were. Pure.
void TakeChecked(const v1::Facts& checked, v1::Facts& facts);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_FACTS_H_
