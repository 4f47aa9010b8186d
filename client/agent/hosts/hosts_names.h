// HostsNames: which bare node names may be written to a hosts file.
//
// A node chooses its own name and reports its own address. So a bare name is
// written only if this does not change what the name already means. That is the
// case if the name is one label, the rest of the file gives it no other
// address, it is not this machine's hostname while the node is another machine,
// and the resolver does not know it or gives it the node's address. A name that
// the operator listed is written even if these conditions do not hold. Every
// node also has its alias, node-<rank>.<job>.rollcall.
//
// Pure; any thread. hosts_resolver asks the resolver, hosts_text applies the
// verdicts.
#ifndef ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_NAMES_H_
#define ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_NAMES_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// In a larger world no name is looked up and no bare name is written.
inline constexpr size_t kAskedNodesMax = 64;

// The resolver's answer for a name.
struct NameAnswer {
  enum class Kind {
    kUnclear,   // No answer in time, or a temporary failure.
    kNotFound,  // The name does not exist.
    kFound,
  };
  Kind kind = Kind::kUnclear;
  // kFound: all addresses of the name, as text.
  std::set<std::string> addresses;

  bool operator==(const NameAnswer&) const = default;
};

// The inputs that decide about the names of a world, besides the file itself.
struct HostsNames {
  // Names that the operator listed, in lower case.
  std::set<std::string> listed;
  // Answers by name in lower case. A name without an answer counts as unclear.
  std::map<std::string, NameAnswer> answers;
};

// Everything known about one member's bare name.
struct NameCase {
  // In lower case.
  std::string name;
  // The node's address, as text.
  std::string address;
  // The node is on this machine, so a loopback address is also its address.
  bool own = false;
  // The node is another machine but has this machine's hostname.
  bool our_hostname = false;
  // Another row of the block has this name, or one that differs only in case.
  bool taken = false;
  bool listed = false;
  // The number of nodes in the world.
  size_t nodes = 1;
  // The addresses that the rest of the file gives the name, as text.
  std::set<std::string> in_file;
  NameAnswer answer;
};

enum class NameVerdict {
  kWrite,
  // Left out because...
  kLocalhost,          // it always means this machine.
  kIsAddress,          // it is an address itself.
  kTaken,              // another row has it, perhaps in another case.
  kDotted,             // it has more than one label.
  kFileElsewhere,      // the rest of the file gives it another address.
  kOurHostname,        // it means this machine, and the node is another one.
  kResolverElsewhere,  // the resolver gives it another address.
  kLargeWorld,         // the world is too large to look up all names.
  kUnclear,            // the resolver gave no clear answer.
};

NameVerdict DecideName(const NameCase& one);

// The node names of the world to look up, in lower case, each once: names of
// one label, except localhost and names that the operator listed. Empty for a
// world of more than kAskedNodesMax nodes.
std::vector<std::string> NamesToAsk(const v1::World& world,
                                    const std::set<std::string>& listed);

// The binary form of an address, so that different spellings compare equal;
// empty: not an address. A zone ("%eth0") is ignored.
std::string AddressKey(absl::string_view text);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_NAMES_H_
