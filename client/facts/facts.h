// Facts: what this node says of itself in its Hello.
//
// Gathering never fails: what cannot be read stays unset, and `missing` says
// why. No name is resolved, and nothing is sent to another machine. Each part
// (network, infiniband, gpu, system) fills its own fields.
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

// Of the kernel alone, in this process: network, system, and how many GPUs the
// driver shows. About a millisecond.
v1::Facts GatherFacts(const std::string& sysroot = "/");

struct NodeFactsOptions {
  // The rollcall binary, which `rollcall facts` is run by.
  std::string self = "/proc/self/exe";
  // Of the command that the ranks run: which libraries it finds, which GPUs it
  // sees.
  std::vector<std::string> environment;
  DeviceFactsOptions devices;
};

// All facts: the above and those of AskDeviceFacts, where this node has
// devices. Takes at most devices.timeout and a second. With folders: for a
// process with one thread.
v1::Facts GatherNodeFacts(const NodeFactsOptions& options);

// Adds the device facts to those of the kernel, and bounds the whole.
void AddDeviceFacts(const v1::Facts& devices, v1::Facts& facts);

// Puts the interfaces of `now`, and what is missing of them, in the place of
// those that `facts` has. What the kernel did not tell stays as it was. Pure.
void TakeNetwork(const v1::Facts& now, v1::Facts& facts);

// The same of all that checks found, which ask for no folder. Where a device
// library hung or crashed, all devices stay as they were. Pure.
void TakeChecked(const v1::Facts& checked, v1::Facts& facts);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_FACTS_H_
