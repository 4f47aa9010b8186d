#include "client/agent/hosts/hosts_file.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/facts/system/system.h"
#include "daemon/base/processes/proc_stat.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

std::string Hostname() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0) return "";
  return name;
}

// The run is written in marker lines, so it must contain no space.
absl::Status CheckRun(const std::string& run) {
  const bool plain = !run.empty() && run.size() <= 128 &&
                     std::all_of(run.begin(), run.end(), [](unsigned char c) {
                       return absl::ascii_isalnum(c) || c == '-';
                     });
  if (plain) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "hosts file: run: expected 1 to 128 of [A-Za-z0-9-]");
}

}  // namespace

HostsOwner ThisOwner(const std::string& node) {
  HostsOwner owner;
  owner.pid = getpid();
  owner.boot_id = BootId();
  owner.pid_namespace = NamespaceInode("pid");
  owner.node = node;
  const auto state = ReadProcStat(static_cast<pid_t>(owner.pid));
  if (state.has_value()) {
    owner.start_ticks = state->start_ticks;
  }
  return owner;
}

bool HostsOwnerLives(const HostsOwner& owner) {
  const std::string boot_id = BootId();
  if (!boot_id.empty() && owner.boot_id != boot_id) return false;
  if (owner.pid_namespace != NamespaceInode("pid")) return true;
  if (owner.pid <= 0) return false;
  const auto state = ReadProcStat(static_cast<pid_t>(owner.pid));
  if (state.has_value()) {
    return state->start_ticks == owner.start_ticks && state->Alive();
  }
  // The process has gone, or this process may not see it (hidepid).
  return kill(static_cast<pid_t>(owner.pid), 0) == 0 || errno != ESRCH;
}

HostsFile::HostsFile(std::string path, EditFileOptions options)
    : path_(std::move(path)), options_(std::move(options)) {}

absl::Status HostsFile::Write(const v1::World& world, uint32_t node_rank,
                              const HostsNames& names, const HostsOwner& owner,
                              std::vector<std::string>* warnings) {
  if (absl::Status status = AdmitJobId(world.job()); !status.ok()) {
    return status;
  }
  if (absl::Status status = AdmitNodeName(owner.node); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckRun(world.run()); !status.ok()) return status;
  HostsChange change;
  const absl::Status status =
      EditFile(path_, options_, [&](const std::string& text, bool exists) {
        change = WriteHostsBlock(text, !exists, world, node_rank, Hostname(),
                                 names, owner, HostsOwnerLives);
        return EditedText{change.text, false};
      });
  warnings->insert(warnings->end(), change.warnings.begin(),
                   change.warnings.end());
  return status;
}

std::set<std::string> HostsFile::NamesOf(const std::string& job) const {
  return NamesInBlock(ReadSmallFile(path_, options_.bytes_max), job);
}

std::vector<HostsBlock> HostsFile::DeadBlocks() const {
  std::vector<HostsBlock> dead =
      ParseHosts(ReadSmallFile(path_, options_.bytes_max)).blocks;
  std::erase_if(dead, [](const HostsBlock& block) {
    return std::any_of(block.owners.begin(), block.owners.end(),
                       HostsOwnerLives);
  });
  return dead;
}

std::vector<std::string> HostsFile::RemoveDead() {
  std::vector<std::string> warnings;
  if (DeadBlocks().empty()) return warnings;
  // Every edit of the file removes dead blocks, also an edit by an owner that
  // has no block in it.
  const absl::Status removed = RemoveOwner(HostsOwner(), &warnings);
  if (!removed.ok()) {
    warnings.push_back(
        absl::StrCat("hosts file: lines of an agent that has died stay in it: ",
                     removed.message()));
  }
  return warnings;
}

absl::Status HostsFile::Remove(const std::string& job, const std::string& run,
                               const HostsOwner& owner,
                               std::vector<std::string>* warnings) {
  return TakeOut(
      [&](const std::string& text) {
        return RemoveHostsBlock(text, job, run, owner, HostsOwnerLives);
      },
      warnings);
}

absl::Status HostsFile::RemoveOwner(const HostsOwner& owner,
                                    std::vector<std::string>* warnings) {
  return TakeOut(
      [&](const std::string& text) {
        return RemoveHostsOwner(text, owner, HostsOwnerLives);
      },
      warnings);
}

absl::Status HostsFile::TakeOut(const MakeChange& make,
                                std::vector<std::string>* warnings) {
  HostsChange change;
  const absl::Status status =
      EditFile(path_, options_, [&](const std::string& text, bool exists) {
        change = make(text);
        return EditedText{change.text, exists && change.remove_file};
      });
  warnings->insert(warnings->end(), change.warnings.begin(),
                   change.warnings.end());
  return status;
}

}  // namespace rollcall
