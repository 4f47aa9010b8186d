#include "client/agent/hosts/hosts_text.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/base/printable.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

constexpr char kBegin[] = "# rollcall begin ";
constexpr char kOwner[] = "# rollcall owner ";
constexpr char kEnd[] = "# rollcall end ";
// Per write, so that thousands of rejected names do not flood a log.
constexpr size_t kWarningsMax = 8;
constexpr size_t kOwnersMax = 256;
// Addresses of one name in the file.
constexpr size_t kMeaningsMax = 16;
// Names, or addresses of one name, in one warning.
constexpr size_t kShownMax = 3;
constexpr size_t kAddressBytesShown = 64;

// --- Lines ------------------------------------------------------------------

// Removes the next line, with its newline, from `text` and returns it.
absl::string_view TakeLine(absl::string_view& text) {
  const size_t newline = text.find('\n');
  const size_t size =
      newline == absl::string_view::npos ? text.size() : newline + 1;
  const absl::string_view line = text.substr(0, size);
  text.remove_prefix(size);
  return line;
}

// The line without its line end, including a carriage return that an editor
// added.
absl::string_view Bare(absl::string_view line) {
  absl::ConsumeSuffix(&line, "\n");
  absl::ConsumeSuffix(&line, "\r");
  return line;
}

using Fields = std::map<std::string, std::string>;

// Parses "a=1 b=2" after `prefix`; nullopt: another kind of line.
std::optional<Fields> ReadFields(absl::string_view line, const char* prefix) {
  line = Bare(line);
  if (!absl::ConsumePrefix(&line, prefix)) return std::nullopt;
  Fields fields;
  for (absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
    const size_t equals = word.find('=');
    if (equals == absl::string_view::npos) return std::nullopt;
    fields.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return fields;
}

template <typename T>
bool Number(const Fields& fields, const char* name, T& value) {
  const auto at = fields.find(name);
  return at != fields.end() && absl::SimpleAtoi(at->second, &value);
}

std::string Text(const Fields& fields, const char* name) {
  const auto at = fields.find(name);
  return at == fields.end() ? "" : at->second;
}

struct Begin {
  HostsBlock block;
  uint64_t size = 0;
};

std::optional<Begin> ReadBegin(absl::string_view line) {
  const auto fields = ReadFields(line, kBegin);
  if (!fields.has_value()) return std::nullopt;
  Begin begin;
  begin.block.job = Text(*fields, "job");
  begin.block.run = Text(*fields, "run");
  begin.block.created_file = Text(*fields, "file") == "new";
  if (begin.block.job.empty() || begin.block.run.empty() ||
      !Number(*fields, "generation", begin.block.generation) ||
      !Number(*fields, "size", begin.size)) {
    return std::nullopt;
  }
  return begin;
}

bool IsEndMarker(absl::string_view line) {
  const auto fields = ReadFields(line, kEnd);
  return fields.has_value() && !Text(*fields, "job").empty();
}

bool IsEndOf(const HostsBlock& block, absl::string_view line) {
  const auto fields = ReadFields(line, kEnd);
  return fields.has_value() && Text(*fields, "job") == block.job &&
         Text(*fields, "run") == block.run;
}

// `prefix`: the text before an owner's fields.
std::optional<HostsOwner> ReadOwner(absl::string_view line,
                                    const char* prefix = kOwner) {
  const auto fields = ReadFields(line, prefix);
  HostsOwner owner;
  if (!fields.has_value() || !Number(*fields, "pid", owner.pid) ||
      !Number(*fields, "start", owner.start_ticks) ||
      !Number(*fields, "pidns", owner.pid_namespace)) {
    return std::nullopt;
  }
  owner.boot_id = Text(*fields, "boot");
  owner.node = Text(*fields, "node");
  return owner;
}

std::vector<absl::string_view> Words(absl::string_view line) {
  return absl::StrSplit(line.substr(0, line.find('#')),
                        absl::ByAnyChar(" \t\r\n\v\f"), absl::SkipEmpty());
}

std::string Alias(uint32_t node_rank, absl::string_view job) {
  return absl::StrCat("node-", node_rank, ".", job, ".rollcall");
}

// A line that only rollcall writes: it ends in an alias of the job.
bool IsEntry(const HostsBlock& block, absl::string_view line) {
  const std::vector<absl::string_view> words = Words(line);
  if (words.size() < 2 || words.size() > 3) return false;
  absl::string_view alias = words.back();
  const std::string tail = absl::StrCat(".", block.job, ".rollcall");
  return absl::ConsumePrefix(&alias, "node-") &&
         absl::ConsumeSuffix(&alias, tail) && !alias.empty() &&
         std::all_of(alias.begin(), alias.end(), absl::ascii_isdigit) &&
         !AddressKey(words[0]).empty();
}

// --- Blocks -----------------------------------------------------------------

// Takes rollcall's own lines from between the markers. Other lines there
// (inserted after the file's first line, for example) are not ours and go to
// `rest`.
void TakeBody(HostsBlock& block, absl::string_view body, std::string& rest) {
  while (!body.empty()) {
    const absl::string_view line = TakeLine(body);
    // A cut line could be read as another owner or address.
    if (!absl::EndsWith(line, "\n")) break;
    if (auto owner = ReadOwner(line); owner.has_value()) {
      if (block.owners.size() < kOwnersMax) {
        block.owners.push_back(*std::move(owner));
      }
    } else if (IsEntry(block, line)) {
      absl::StrAppend(&block.entries, Bare(line), "\n");
    } else if (!Bare(line).empty()) {
      rest.append(line.data(), line.size());
    }
  }
}

std::string EndMarker(const HostsBlock& block) {
  return absl::StrCat(kEnd, "job=", block.job, " run=", block.run, "\n");
}

// Where the body after a begin marker ends; nullopt: its end marker is missing,
// or another marker comes first.
std::optional<size_t> FindEnd(const HostsBlock& block, absl::string_view text) {
  const size_t size = text.size();
  while (!text.empty()) {
    const size_t at = size - text.size();
    const absl::string_view line = TakeLine(text);
    if (IsEndOf(block, line)) return at;
    if (IsEndMarker(line) || ReadBegin(line).has_value()) return std::nullopt;
  }
  return std::nullopt;
}

// How many bytes of `text` belong to a block that has no end.
size_t DamagedSize(const Begin& begin, absl::string_view text) {
  const size_t size = text.size();
  const bool cut = size < begin.size + EndMarker(begin.block).size();
  absl::string_view left = text;
  while (!left.empty()) {
    absl::string_view next = left;
    const absl::string_view line = TakeLine(next);
    const bool ours = ReadOwner(line).has_value() || IsEntry(begin.block, line);
    // The file was cut in the middle of this line.
    const bool last = cut && next.empty() && !absl::EndsWith(line, "\n");
    if (!ours && !last) break;
    left = next;
  }
  return size - left.size();
}

// A marker that was cut off at the end of the file.
bool IsCutMarker(absl::string_view line) {
  return !absl::EndsWith(line, "\n") &&
         (absl::StartsWith(line, kBegin) || absl::StartsWith(line, kEnd));
}

std::string FormatBlock(const HostsBlock& block) {
  std::string body;
  for (const HostsOwner& owner : block.owners) {
    absl::StrAppend(&body, kOwner, FormatHostsOwner(owner), "\n");
  }
  absl::StrAppend(&body, block.entries);
  return absl::StrCat(kBegin, "job=", block.job, " run=", block.run,
                      " generation=", block.generation, " size=", body.size(),
                      block.created_file ? " file=new\n" : "\n", body,
                      EndMarker(block));
}

// --- Names ------------------------------------------------------------------

// The addresses of a name, as the text has them.
using Meanings = std::map<std::string, std::set<std::string>>;

// Adds what each of the `wanted` names means in `text`.
void AddMeanings(absl::string_view text, const std::set<std::string>& wanted,
                 Meanings& meanings) {
  while (!text.empty()) {
    const std::vector<absl::string_view> words = Words(TakeLine(text));
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
  // Of its own row; empty: the world has no such row.
  std::string address;
  // In lower case; with and without the domain.
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

// Decided by the address only, because a node chooses its name itself.
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

// The block's lines. `others`: all text outside this block.
std::string MakeEntries(const v1::World& world, uint32_t node_rank,
                        absl::string_view hostname, absl::string_view others,
                        const HostsNames& names,
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

// --- Owners -----------------------------------------------------------------

void DropDead(HostsBlock& block, const OwnerLives& lives) {
  block.owners.erase(
      std::remove_if(block.owners.begin(), block.owners.end(),
                     [&](const HostsOwner& owner) { return !lives(owner); }),
      block.owners.end());
}

// Removes blocks without a living owner. Returns whether one of them had
// created the file.
bool Sweep(HostsText& hosts, const OwnerLives& lives) {
  bool created_file = false;
  std::vector<HostsBlock> kept;
  for (HostsBlock& block : hosts.blocks) {
    if (std::any_of(block.owners.begin(), block.owners.end(), lives)) {
      kept.push_back(std::move(block));
    } else {
      created_file |= block.created_file;
    }
  }
  hosts.blocks = std::move(kept);
  return created_file;
}

HostsText Parse(absl::string_view text, std::vector<std::string>& warnings) {
  HostsText hosts = ParseHosts(text);
  if (hosts.damaged) {
    warnings.push_back(
        "hosts file: found a block whose writing was cut off, and repaired it; "
        "check that no line of your own is missing");
  }
  return hosts;
}

using IsBlock = std::function<bool(const HostsBlock&)>;

// Removes `owner` from the blocks for which `which` holds, and removes dead
// blocks.
HostsChange TakeOff(absl::string_view text, const HostsOwner& owner,
                    const OwnerLives& lives, const IsBlock& which) {
  HostsChange change;
  HostsText hosts = Parse(text, change.warnings);
  const OwnerLives lives_on = [&](const HostsOwner& other) {
    return !(other == owner) && lives(other);
  };
  bool created_file = false;
  for (HostsBlock& block : hosts.blocks) {
    if (!which(block)) continue;
    DropDead(block, lives_on);
    created_file |= block.created_file && block.owners.empty();
  }
  created_file |= Sweep(hosts, lives);
  if (!hosts.blocks.empty()) {
    hosts.blocks.front().created_file |= created_file;
  }
  change.text = FormatHosts(hosts);
  change.remove_file = created_file && change.text.empty();
  return change;
}

}  // namespace

HostsText ParseHosts(absl::string_view text) {
  HostsText hosts;
  while (!text.empty()) {
    const absl::string_view line = TakeLine(text);
    auto begin = ReadBegin(line);
    if (!begin.has_value()) {
      if (IsEndMarker(line) || IsCutMarker(line)) {
        hosts.damaged = true;
      } else {
        hosts.rest.append(line.data(), line.size());
      }
      continue;
    }
    HostsBlock& block = begin->block;
    const auto end = FindEnd(block, text);
    hosts.damaged |= !end.has_value();
    const size_t size = end.has_value() ? *end : DamagedSize(*begin, text);
    TakeBody(block, text.substr(0, size), hosts.rest);
    text.remove_prefix(size);
    if (end.has_value()) TakeLine(text);
    hosts.blocks.push_back(std::move(block));
  }
  return hosts;
}

std::string FormatHostsOwner(const HostsOwner& owner) {
  return absl::StrCat("pid=", owner.pid, " start=", owner.start_ticks,
                      " boot=", owner.boot_id, " pidns=", owner.pid_namespace,
                      " node=", owner.node);
}

std::optional<HostsOwner> ParseHostsOwner(absl::string_view text) {
  return ReadOwner(text, "");
}

std::set<std::string> NamesInBlock(absl::string_view text,
                                   absl::string_view job) {
  std::set<std::string> names;
  for (const HostsBlock& block : ParseHosts(text).blocks) {
    if (block.job != job) continue;
    absl::string_view entries = block.entries;
    while (!entries.empty()) {
      const std::vector<absl::string_view> words = Words(TakeLine(entries));
      if (words.size() > 2) names.insert(absl::AsciiStrToLower(words[1]));
    }
  }
  return names;
}

std::string FormatHosts(const HostsText& hosts) {
  std::string text;
  for (const HostsBlock& block : hosts.blocks) text += FormatBlock(block);
  return text + hosts.rest;
}

HostsChange WriteHostsBlock(absl::string_view text, bool created_file,
                            const v1::World& world, uint32_t node_rank,
                            absl::string_view hostname, const HostsNames& names,
                            const HostsOwner& owner, const OwnerLives& lives) {
  HostsChange change;
  HostsText hosts = Parse(text, change.warnings);
  HostsBlock block;
  block.job = world.job();
  block.run = world.run();
  block.generation = world.generation();
  block.created_file = created_file || Sweep(hosts, lives);
  std::optional<HostsBlock> newer;
  for (auto it = hosts.blocks.begin(); it != hosts.blocks.end();) {
    if (it->job != world.job()) {
      ++it;
      continue;
    }
    block.created_file |= it->created_file;
    if (it->run != world.run()) {
      change.warnings.push_back(absl::StrCat(
          "hosts file: took the place of run ", it->run, " of job ", it->job,
          ", which still had a living owner"));
    } else {
      DropDead(*it, lives);
      block.owners.insert(block.owners.end(), it->owners.begin(),
                          it->owners.end());
      if (it->generation > block.generation) newer = *it;
    }
    it = hosts.blocks.erase(it);
  }
  if (std::find(block.owners.begin(), block.owners.end(), owner) ==
      block.owners.end()) {
    block.owners.push_back(owner);
  }
  if (newer.has_value()) {
    block.generation = newer->generation;
    block.entries = newer->entries;
  } else {
    block.entries = MakeEntries(world, node_rank, hostname, FormatHosts(hosts),
                                names, change.warnings);
  }
  hosts.blocks.insert(hosts.blocks.begin(), std::move(block));
  change.text = FormatHosts(hosts);
  return change;
}

HostsChange RemoveHostsBlock(absl::string_view text, absl::string_view job,
                             absl::string_view run, const HostsOwner& owner,
                             const OwnerLives& lives) {
  return TakeOff(text, owner, lives, [&](const HostsBlock& block) {
    return block.job == job && block.run == run;
  });
}

HostsChange RemoveHostsOwner(absl::string_view text, const HostsOwner& owner,
                             const OwnerLives& lives) {
  return TakeOff(text, owner, lives, [&](const HostsBlock& block) {
    return std::find(block.owners.begin(), block.owners.end(), owner) !=
           block.owners.end();
  });
}

}  // namespace rollcall
