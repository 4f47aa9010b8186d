// HostsNames: which bare node names a hosts file may give.
//
// A node chooses its own name and says its own address, so a bare name is
// written only where that changes nothing that the name means already: it is
// one label, the rest of the file gives it no other address, it is not the
// hostname of this machine while the node is another one, and the resolver does
// not know it or gives it the node's address. A name that the operator listed
// is written whatever it means elsewhere. Everything that is left out still has
// its alias, node-<rank>.<job>.rollcall.
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

// In a larger world no name is asked for and no bare name is written.
inline constexpr size_t kAskedNodesMax = 64;

// What a resolver said of a name.
struct NameAnswer {
  enum class Kind {
    kUnclear,   // No answer in time, or a temporary failure.
    kNotFound,  // The name does not exist.
    kFound,
  };
  Kind kind = Kind::kUnclear;
  // kFound: all of its addresses, as text.
  std::set<std::string> addresses;

  bool operator==(const NameAnswer&) const = default;
};

// What a write of a world's names goes by, beside the file itself.
struct HostsNames {
  // Names that the operator listed, in lower case.
  std::set<std::string> listed;
  // By name in lower case; a name without an answer is unclear.
  std::map<std::string, NameAnswer> answers;
};

// All that is known of one member's bare name.
struct NameCase {
  // In lower case.
  std::string name;
  // Of the node, as text.
  std::string address;
  // The node is on this machine, so loopback is no other address.
  bool own = false;
  // The node is on another machine and has the hostname of this one.
  bool our_hostname = false;
  // Another row of the block has it, or a name that differs by case alone.
  bool taken = false;
  bool listed = false;
  // Of the world.
  size_t nodes = 1;
  // What the rest of the file gives it, as text.
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
  kLargeWorld,         // the world is too large to ask for all names.
  kUnclear,            // the resolver gave no clear answer.
};

NameVerdict DecideName(const NameCase& one);

// The names of the world that are to be asked for, in lower case, each once;
// empty for a world of more than kAskedNodesMax nodes.
std::vector<std::string> NamesToAsk(const v1::World& world,
                                    const std::set<std::string>& listed);

// An address in its one binary form, so that spellings compare; empty: not an
// address. A zone ("%eth0") is passed over.
std::string AddressKey(absl::string_view text);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_NAMES_H_
