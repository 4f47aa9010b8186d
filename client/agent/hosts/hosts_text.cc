#include "client/agent/hosts/hosts_text.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/hosts/hosts_entries.h"

namespace rollcall {
namespace {

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

// Removes `owner` from the blocks for which `which` is true, and removes dead
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
    block.entries = MakeHostsEntries(
        world, node_rank, hostname, FormatHosts(hosts), names, change.warnings);
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
