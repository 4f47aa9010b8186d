#include "client/agent/hosts/hosts_entries.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/agent/hosts/hosts_block.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

// Limits the warnings of one write, so that thousands of rejected names do not
// fill a log.
constexpr size_t kWarningsMax = 8;
// Limits the addresses of one name in the file.
constexpr size_t kMeaningsMax = 16;
// Limits the names, or the addresses of one name, in one warning.
constexpr size_t kShownMax = 3;
constexpr size_t kAddressBytesShown = 64;

// The addresses of each name, spelled as in the text.
using Meanings = std::map<std::string, std::set<std::string>>;

// Adds the addresses that `text` gives to the `wanted` names.
void AddMeanings(absl::string_view text, const std::set<std::string>& wanted,
                 Meanings& meanings) {
  while (!text.empty()) {
    const std::vector<absl::string_view> words = HostsWords(TakeLine(text));
    if (words.size() < 2 || AddressKey(words[0]).empty()) continue;
    for (size_t i = 1; i < words.size(); ++i) {
      std::string name = absl::AsciiStrToLower(words[i]);
      if (!wanted.contains(name)) continue;
      std::set<std::string>& addresses = meanings[std::move(name)];
      if (addresses.size() < kMeaningsMax) addresses.emplace(words[0]);
    }
  }
}

// This machine from the view of one world.
struct ThisMachine {
  // The address in this node's row; empty: the world has no such row.
  std::string address;
  // The machine's hostname in lower case, with and without the domain.
  std::set<std::string> hostnames;
};

ThisMachine MachineOf(const v1::World& world, uint32_t node_rank,
                      absl::string_view hostname) {
  ThisMachine here;
  if (node_rank < static_cast<uint32_t>(world.members_size())) {
    here.address = world.members(static_cast<int>(node_rank)).address();
  }
  const std::string name = absl::AsciiStrToLower(hostname);
  here.hostnames = {name, name.substr(0, name.find('.'))};
  return here;
}

// Whether the member is on this machine. Only its address counts, because a
// node chooses its name itself.
bool IsOn(const ThisMachine& here, const v1::World& world,
          const v1::Member& member) {
  return world.one_machine() ||
         (!here.address.empty() &&
          AddressKey(member.address()) == AddressKey(here.address));
}

// The warnings of one write: at most kWarningsMax, and one line for each reason
// that many names share.
class LeftOut {
 public:
  LeftOut(const v1::World& world, const ThisMachine& here,
          std::vector<std::string>& warnings)
      : world_(world), here_(here), warnings_(warnings) {}

  void Row(const v1::Member& member) {
    Warn(absl::StrCat("hosts file: node rank ", member.node_rank(),
                      " left out: its name or address is not valid"));
  }

  void Name(const v1::Member& member, const NameCase& one,
            NameVerdict verdict) {
    switch (verdict) {
      case NameVerdict::kWrite:
        return;
      case NameVerdict::kLocalhost:
        return Warn(member, "it always means this machine");
      case NameVerdict::kIsAddress:
        return Warn(member, "it is an address itself");
      case NameVerdict::kTaken:
        return Warn(member,
                    "another row has it, or a name that differs only in case");
      case NameVerdict::kFileElsewhere:
        return Warn(member,
                    Elsewhere("the file gives it", one.in_file, member));
      case NameVerdict::kOurHostname:
        return Warn(member, Elsewhere("it is the hostname of this machine,",
                                      {here_.address}, member));
      case NameVerdict::kResolverElsewhere:
        return Warn(member, Elsewhere("the resolver gives it",
                                      one.answer.addresses, member));
      case NameVerdict::kDotted:
        return Join(dotted_, member);
      case NameVerdict::kUnclear:
        return Join(unclear_, member);
      case NameVerdict::kLargeWorld:
        return Join(large_, member);
    }
  }

  // Called after all rows.
  void Finish() {
    if (count_ > kWarningsMax) {
      warnings_.push_back(absl::StrCat("hosts file: ", count_ - kWarningsMax,
                                       " more names left out"));
    }
    Tell(dotted_, "a name with a dot is not written by itself");
    Tell(unclear_, "the resolver gave no clear answer in time");
    Tell(large_, absl::StrCat("the world has ", world_.members_size(),
                              " nodes, and names are looked up for at most ",
                              kAskedNodesMax));
  }

 private:
  struct Many {
    std::vector<std::string> shown;
    size_t count = 0;
  };

  std::string AliasOf(const v1::Member& member) const {
    return Alias(member.node_rank(), world_.job());
  }

  void Warn(std::string text) {
    if (++count_ <= kWarningsMax) warnings_.push_back(std::move(text));
  }
  void Warn(const v1::Member& member, const std::string& why) {
    Warn(absl::StrCat("hosts file: name ", member.node(), " left out: ", why,
                      "; use ", AliasOf(member)));
  }

  static std::string Elsewhere(const char* said,
                               const std::set<std::string>& addresses,
                               const v1::Member& member) {
    std::vector<std::string> shown;
    for (const std::string& address : addresses) {
      if (shown.size() == kShownMax) break;
      shown.push_back(Printable(address, kAddressBytesShown));
    }
    return absl::StrCat(said, " ", absl::StrJoin(shown, ", "),
                        ", and the node's address is ", member.address(),
                        " (--hosts-names ", member.node(),
                        " writes it all the same)");
  }

  static void Join(Many& many, const v1::Member& member) {
    if (++many.count > kShownMax) return;
    many.shown.push_back(
        absl::StrCat(member.node(), " (", member.address(), ")"));
  }

  void Tell(const Many& many, const std::string& why) {
    if (many.count == 0) return;
    const size_t more = many.count - many.shown.size();
    warnings_.push_back(absl::StrCat(
        "hosts file: ", many.count == 1 ? "name " : "names ",
        absl::StrJoin(many.shown, ", "),
        more == 0 ? "" : absl::StrCat(" and ", more, " more"),
        " left out: ", why, "; use node-<rank>.", world_.job(),
        ".rollcall, or list names that are to be written by --hosts-names"));
  }

  const v1::World& world_;
  const ThisMachine& here_;
  std::vector<std::string>& warnings_;
  size_t count_ = 0;
  Many dotted_;
  Many unclear_;
  Many large_;
};

}  // namespace

std::string MakeHostsEntries(const v1::World& world, uint32_t node_rank,
                             absl::string_view hostname,
                             absl::string_view others, const HostsNames& names,
                             std::vector<std::string>& warnings) {
  std::set<std::string> wanted;
  std::set<std::string> twice;
  std::set<std::string> taken;
  for (const v1::Member& member : world.members()) {
    const std::string name = absl::AsciiStrToLower(member.node());
    if (!wanted.insert(name).second) twice.insert(name);
    taken.insert(Alias(member.node_rank(), world.job()));
  }
  Meanings meanings;
  AddMeanings(others, wanted, meanings);
  const ThisMachine here = MachineOf(world, node_rank, hostname);
  std::string entries;
  LeftOut left_out(world, here, warnings);
  for (const v1::Member& member : world.members()) {
    if (!AdmitNodeName(member.node()).ok() ||
        AddressKey(member.address()).empty() ||
        member.address().find('%') != std::string::npos) {
      left_out.Row(member);
      continue;
    }
    NameCase one;
    one.name = absl::AsciiStrToLower(member.node());
    one.address = member.address();
    one.own = IsOn(here, world, member);
    one.our_hostname = !one.own && here.hostnames.contains(one.name);
    // If two nodes' names differ only in case, neither gets its name: the
    // second node might have joined to take over the first one's name.
    one.taken = taken.contains(one.name) || twice.contains(one.name);
    one.listed = names.listed.contains(one.name);
    one.nodes = static_cast<size_t>(world.members_size());
    if (const auto at = meanings.find(one.name); at != meanings.end()) {
      one.in_file = at->second;
    }
    if (const auto at = names.answers.find(one.name);
        at != names.answers.end()) {
      one.answer = at->second;
    }
    const NameVerdict verdict = DecideName(one);
    left_out.Name(member, one, verdict);
    const bool write = verdict == NameVerdict::kWrite;
    if (write) taken.insert(one.name);
    absl::StrAppend(&entries, member.address(), write ? " " : "",
                    write ? member.node() : "", " ",
                    Alias(member.node_rank(), world.job()), "\n");
  }
  left_out.Finish();
  return entries;
}

}  // namespace rollcall
