#include "client/agent/hosts/hosts_block.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/agent/hosts/hosts_names.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

constexpr char kBegin[] = "# rollcall begin ";
constexpr char kOwner[] = "# rollcall owner ";
constexpr char kEnd[] = "# rollcall end ";
constexpr size_t kOwnersMax = 256;

// --- Lines ------------------------------------------------------------------

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

// A line that only rollcall writes: an address, optionally a node's name, and
// an alias of the job. An editor may have changed the blanks.
bool IsEntry(const HostsBlock& block, absl::string_view line) {
  const std::vector<absl::string_view> words = HostsWords(line);
  if (words.size() < 2 || words.size() > 3) return false;
  // rollcall writes no comment after an entry, and no zone after an address.
  if (line.find_first_of("#%") != line.npos) return false;
  absl::string_view alias = words.back();
  const std::string tail = absl::StrCat(".", block.job, ".rollcall");
  return absl::ConsumePrefix(&alias, "node-") &&
         absl::ConsumeSuffix(&alias, tail) && !alias.empty() &&
         std::all_of(alias.begin(), alias.end(), absl::ascii_isdigit) &&
         !AddressKey(words[0]).empty() &&
         (words.size() == 2 || AdmitNodeName(std::string(words[1])).ok());
}

// --- Blocks -----------------------------------------------------------------

// Takes rollcall's own lines between the markers. Other lines there (for
// example, inserted by a program after the first line of the file) go to
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
      absl::StrAppend(&block.entries, absl::StrJoin(HostsWords(line), " "),
                      "\n");
    } else if (!Bare(line).empty()) {
      rest.append(line.data(), line.size());
    }
  }
}

std::string EndMarker(const HostsBlock& block) {
  return absl::StrCat(kEnd, "job=", block.job, " run=", block.run, "\n");
}

// The offset at which the body after a begin marker ends; nullopt: its end
// marker is missing, or another marker comes first.
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

// Returns how many bytes of `text` belong to a block without an end marker.
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

// Whether the line is a marker that was cut off at the end of the file.
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

}  // namespace

absl::string_view TakeLine(absl::string_view& text) {
  const size_t newline = text.find('\n');
  const size_t size =
      newline == absl::string_view::npos ? text.size() : newline + 1;
  const absl::string_view line = text.substr(0, size);
  text.remove_prefix(size);
  return line;
}

std::vector<absl::string_view> HostsWords(absl::string_view line) {
  return absl::StrSplit(line.substr(0, line.find('#')),
                        absl::ByAnyChar(" \t\r\n\v\f"), absl::SkipEmpty());
}

std::string Alias(uint32_t node_rank, absl::string_view job) {
  return absl::StrCat("node-", node_rank, ".", job, ".rollcall");
}

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
      const std::vector<absl::string_view> words =
          HostsWords(TakeLine(entries));
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

}  // namespace rollcall
