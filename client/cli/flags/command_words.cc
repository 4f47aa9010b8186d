#include "client/cli/flags/command_words.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace rollcall {
namespace {

using Words = std::vector<std::string>;

std::string BaseName(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

bool IsOneOf(absl::string_view word,
             std::initializer_list<absl::string_view> all) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

// The argv from the program on, without `env NAME=VALUE`, `sudo` and `nohup`
// before it.
Words ProgramOf(const Words& command) {
  auto at = command.begin();
  while (at != command.end() &&
         IsOneOf(BaseName(*at), {"env", "sudo", "nohup"})) {
    ++at;
    while (at != command.end() &&
           (absl::StartsWith(*at, "-") || absl::StrContains(*at, "="))) {
      // -u is followed by a variable's name (env) or a user's name (sudo).
      const bool with_value = *at == "-u";
      ++at;
      if (with_value && at != command.end()) ++at;
    }
  }
  return Words(at, command.end());
}

// The name of the program that starts ranks: the command's own program, or the
// module of `python -m MODULE`; "": it starts none.
std::string RankStarter(const Words& command) {
  if (command.empty()) return "";
  const std::string program = BaseName(command.front());
  if (IsOneOf(program, {"torchrun", "deepspeed", "accelerate", "mpirun",
                        "mpiexec", "srun"})) {
    return program;
  }
  if (!absl::StartsWith(program, "python")) return "";
  for (size_t i = 1; i + 1 < command.size(); ++i) {
    if (command[i] != "-m") continue;
    const bool starts =
        IsOneOf(command[i + 1],
                {"torch.distributed.run", "torch.distributed.launch",
                 "accelerate.commands.launch", "deepspeed.launcher.runner"});
    return starts ? command[i + 1] : "";
  }
  return "";
}

// A command line that starts the same ranks. `starter`: the result of
// RankStarter.
std::string LineFor(const std::string& starter) {
  const auto once = [](absl::string_view program) {
    return absl::StrCat("give --once, and the world's hostfile: `-- sh -c '",
                        program, " --hostfile $ROLLCALL_HOSTFILE ...'`");
  };
  if (absl::StartsWith(starter, "mpi")) return once(starter);
  if (starter == "srun") {
    return "let srun start rollcall: `srun --ntasks-per-node=1 rollcall run "
           "--nproc-per-node N -- python train.py`";
  }
  const std::string itself = "run the program itself (`-- python train.py`), ";
  if (absl::StartsWith(starter, "deepspeed")) {
    return absl::StrCat(itself, "or ", once("deepspeed"));
  }
  return absl::StrCat(
      itself, "or one per node: `--nproc-per-node 1 -- sh -c '",
      absl::StartsWith(starter, "accelerate")
          ? "accelerate launch --num_machines $NNODES --machine_rank "
            "$NODE_RANK --main_process_ip $MASTER_ADDR --main_process_port "
            "$MASTER_PORT ...'`"
          : "torchrun --nnodes=$NNODES --node_rank=$NODE_RANK "
            "--master_addr=$MASTER_ADDR --master_port=$MASTER_PORT "
            "--nproc_per_node=N ...'`");
}

using Names = std::initializer_list<absl::string_view>;

// The options before a container's image, including the values of the options
// in `with_value` that are separate arguments.
Words OptionsOf(const Words& words, size_t at, Names with_value) {
  Words options;
  for (; at < words.size() && absl::StartsWith(words[at], "-"); ++at) {
    options.push_back(words[at]);
    if (IsOneOf(words[at], with_value) && at + 1 < words.size()) {
      options.push_back(words[++at]);
    }
  }
  return options;
}

// The first of `options` that is one of `names`, alone or as `--name=value`;
// "": none is.
std::string FirstOf(const Words& options, Names names) {
  for (const std::string& option : options) {
    if (IsOneOf(option.substr(0, option.find('=')), names)) return option;
  }
  return "";
}

std::string ApptainerAdvice(const Words& words, size_t at,
                            const std::string& runtime_dir) {
  const Words options = OptionsOf(
      words, at,
      {"-B", "--bind", "--mount", "--no-mount", "--env", "--env-file", "-H",
       "--home", "-W", "--workdir", "--pwd", "--cwd", "-o", "--overlay"});
  const std::string cleans =
      FirstOf(options, {"-e", "--cleanenv", "-C", "--containall"});
  if (!cleans.empty()) {
    return absl::StrCat(words.front(), " ", cleans,
                        " hides RANK and all other variables of a rank from "
                        "the command; leave it out");
  }
  // Without these options the container sees /tmp, /etc/hosts and the working
  // folder.
  const bool contained = !FirstOf(options, {"-c", "--contain"}).empty();
  const std::string folder = runtime_dir.empty() ? "/tmp" : runtime_dir;
  const bool shown =
      !contained && (folder == "/tmp" || absl::StartsWith(folder, "/tmp/"));
  const bool bound = std::any_of(options.begin(), options.end(),
                                 [&](const std::string& option) {
                                   return absl::StrContains(option, folder);
                                 });
  if (shown || bound) return "";
  return absl::StrCat("the container does not show ", folder,
                      ", where the files and the socket of a rank are; give `",
                      words.front(), " ", words[at - 1], " --bind ", folder,
                      " ...`");
}

std::string EnrootAdvice(const Words& words, size_t at) {
  const Words options = OptionsOf(
      words, at, {"-c", "--conf", "-e", "--env", "-m", "--mount", "--rc"});
  if (!FirstOf(options, {"-c", "--conf"}).empty()) return "";
  return "enroot passes neither variables nor the folder of a rank's files on; "
         "give `enroot start --conf FILE ...` with these two lines in FILE: "
         "environ() { env; } and mounts() { d=${ROLLCALL_SOCKET%/*}; echo \"$d "
         "$d none x-create=dir,bind\"; }";
}

}  // namespace

absl::Status CheckRankStarter(const std::vector<std::string>& command,
                              const std::string& nproc_per_node, bool once) {
  if (nproc_per_node == "1" || once) return absl::OkStatus();
  const std::string starter = RankStarter(ProgramOf(command));
  if (starter.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(starter, " starts ranks itself, and with --nproc-per-node ",
                   nproc_per_node, " each rank would be a ", starter,
                   " of its own; ", LineFor(starter)));
}

absl::Status CheckContainer(const std::vector<std::string>& command) {
  const Words words = ProgramOf(command);
  if (words.empty()) return absl::OkStatus();
  const std::string program = BaseName(words.front());
  const auto refuse = [](absl::string_view what, absl::string_view line) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`", what,
        "` starts a container that is not below this agent: its "
        "processes get neither the variables nor the signals of a rank, and "
        "may outlive the agent; start rollcall in the container instead: ",
        line));
  };
  if (IsOneOf(program, {"docker", "podman", "nerdctl"})) {
    return refuse(
        program,
        absl::StrCat(
            "`", program,
            " run --init --network host ... IMAGE rollcall join "
            "JOINSTRING -- CMD...` (`rollcall launch ...` on the first node)"));
  }
  const bool pyxis =
      std::any_of(words.begin() + 1, words.end(), [](const std::string& word) {
        return absl::StartsWith(word, "--container-image");
      });
  if (program == "srun" && pyxis) {
    return refuse("srun --container-image",
                  "`srun --ntasks-per-node=1 --container-image=IMAGE rollcall "
                  "run ... -- CMD...`");
  }
  return absl::OkStatus();
}

std::string ContainerAdvice(const std::vector<std::string>& command,
                            const std::string& runtime_dir) {
  const Words words = ProgramOf(command);
  if (words.empty()) return "";
  const std::string program = BaseName(words.front());
  const auto subcommand = std::find_if(
      words.begin() + 1, words.end(),
      [](const std::string& word) { return !absl::StartsWith(word, "-"); });
  if (subcommand == words.end()) return "";
  const auto at = static_cast<size_t>(subcommand + 1 - words.begin());
  if (IsOneOf(program, {"apptainer", "singularity"}) &&
      IsOneOf(*subcommand, {"exec", "run", "shell"})) {
    return ApptainerAdvice(words, at, runtime_dir);
  }
  if (program == "enroot" && *subcommand == "start") {
    return EnrootAdvice(words, at);
  }
  return "";
}

std::string SeparateWorldsAdvice(const std::vector<std::string>& command,
                                 bool once) {
  if (once) return "";
  const Words words = ProgramOf(command);
  const std::string starter = RankStarter(words);
  // srun knows the nodes of its Slurm job.
  if (starter.empty() || starter == "srun") return "";
  const bool knows_others =
      !FirstOf(words, {"--nnodes", "--rdzv-endpoint", "--rdzv_endpoint",
                       "--num_machines", "--num-machines"})
           .empty();
  if (knows_others) return "";
  return absl::StrCat(starter,
                      " is started on every node, and each one makes a world "
                      "of its own node alone; if the run has several nodes, ",
                      LineFor(starter));
}

std::string EmptyValueAdvice(const std::vector<std::string>& command) {
  for (size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    const bool assigned =
        absl::StartsWith(word, "-") && absl::EndsWith(word, "=");
    if (!assigned && !(word.empty() && absl::StartsWith(command[i - 1], "-"))) {
      continue;
    }
    return absl::StrCat(
        "the command's flag ", assigned ? word : command[i - 1],
        " has an empty value; if it should be a variable of a rank, such as "
        "$NODE_RANK, the shell has expanded it before rollcall sets it: write "
        "-- sh -c 'CMD ... $NODE_RANK'");
  }
  return "";
}

}  // namespace rollcall
