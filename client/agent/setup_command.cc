#include "client/agent/setup_command.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/processes/process_tree/fork_exec.h"
#include "client/facts/same_files.h"

namespace rollcall {
namespace {

// To the processes of this node, the set-up command is a rank of a generation
// that no world has. It ends before a rank is started.
constexpr RankIncarnation kSetupIncarnation = {0, 0};

}  // namespace

SetupCommand::SetupCommand(std::string command,
                           std::shared_ptr<LaterSameFiles> files, Post post)
    : command_(std::move(command)),
      post_(std::move(post)),
      files_(std::move(files)) {}

void SetupCommand::Start(Processes& processes,
                         std::vector<std::string> environment) {
  RankCommand command;
  command.local_rank = kSetupIncarnation.local_rank;
  command.label = "setup";
  command.argv = {"/bin/sh", "-c", "--", command_};
  command.environment = std::move(environment);
  const absl::Status began =
      processes.Start(kSetupIncarnation.generation, {command});
  if (began.ok()) return;
  post_(SetupShellEnded{.code = kNodeCannotStart,
                        .stderr_tail = std::string(began.message())});
  post_(SetupGone{});
}

void SetupCommand::Stop(Processes& processes, absl::Duration grace) {
  processes.Stop({kSetupIncarnation}, grace);
  if (files_ != nullptr) files_->Cancel();
}

bool SetupCommand::TakeEnded(RankEnded& ended) {
  if (ended.generation != kSetupIncarnation.generation) return false;
  if (!ended.out_of_memory.empty()) {
    absl::StrAppend(&ended.stderr_tail, "\n", ended.out_of_memory);
  }
  succeeded_ = ended.code == 0 && ended.signal == 0;
  post_(
      SetupShellEnded{ended.code, ended.signal, std::move(ended.stderr_tail)});
  return true;
}

void SetupCommand::TakeGone(RanksGone& gone) {
  if (std::erase(gone.ranks, kSetupIncarnation) == 0) return;
  // Stop was called meanwhile, so Processes says it again.
  if (reads_) return;
  if (!succeeded_ || files_ == nullptr) return post_(SetupGone{});
  reads_ = true;
  files_->Read([this](std::vector<v1::SameFile> files) {
    std::string unusable = UnusableFileText(files);
    post_(SetupGone{std::move(files), std::move(unusable)});
  });
}

}  // namespace rollcall
