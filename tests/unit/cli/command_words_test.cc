#include "client/cli/flags/command_words.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace rollcall {
namespace {

std::vector<std::string> Words(const char* text) {
  return absl::StrSplit(text, ' ', absl::SkipEmpty());
}

TEST(CommandWords, RankStartersAreRefusedWithALineThatWorks) {
  const struct {
    const char* command;
    const char* ranks;
    bool once;
    // A part of the message; "": accepted.
    const char* expect;
  } rows[] = {
      {"python train.py", "8", false, ""},
      {"", "8", false, ""},
      {"env", "8", false, ""},
      {"torchrun t.py", "1", false, ""},
      {"torchrun t.py", "8", true, ""},
      {"torchrun t.py", "8", false, "`--nproc-per-node 1 -- sh -c 'torchrun "},
      {"torchrun t.py", "auto", false, "--node_rank=$NODE_RANK"},
      {"/opt/bin/torchrun t.py", "8", false, "torchrun starts ranks itself"},
      {"env A=b torchrun t.py", "8", false, "torchrun starts ranks itself"},
      {"sudo -E env A=b torchrun t.py", "8", false, "torchrun starts"},
      {"python3 -u -m torch.distributed.run t.py", "8", false,
       "-- sh -c 'torchrun --nnodes"},
      {"python -m mine torch.distributed.run", "8", false, ""},
      {"python torchrun", "8", false, ""},
      {"accelerate launch t.py", "8", false, "--machine_rank $NODE_RANK"},
      {"python -m accelerate.commands.launch t.py", "8", false,
       "-- sh -c 'accelerate launch"},
      {"deepspeed t.py", "8", false,
       "--once, and the world's hostfile: `-- sh -c 'deepspeed --hostfile "
       "$ROLLCALL_HOSTFILE ...'`"},
      {"python -m deepspeed.launcher.runner t.py", "8", false,
       "run the program itself (`-- python train.py`), or give --once"},
      {"mpirun -np 4 x", "2", false,
       "--once, and the world's hostfile: `-- sh -c 'mpirun --hostfile "
       "$ROLLCALL_HOSTFILE ...'`"},
      {"mpiexec x", "2", false, "'mpiexec --hostfile"},
      {"srun x", "2", false, "`srun --ntasks-per-node=1 rollcall run"},
  };
  for (const auto& row : rows) {
    const absl::Status got =
        CheckRankStarter(Words(row.command), row.ranks, row.once);
    EXPECT_EQ(got.ok(), *row.expect == '\0') << row.command;
    EXPECT_TRUE(absl::StrContains(got.message(), row.expect))
        << row.command << ": " << got.message();
  }
}

TEST(CommandWords, ContainersOfAServiceAreRefused) {
  const struct {
    const char* command;
    const char* expect;
  } rows[] = {
      {"", ""},
      {"python docker", ""},
      {"sh -c docker", ""},
      {"docker run x",
       "`docker run --init --network host ... IMAGE rollcall join JOINSTRING "
       "-- CMD...` (`rollcall launch ...` on the first node)"},
      {"/usr/bin/docker", "`docker run --init"},
      {"sudo docker run x", "`docker run --init"},
      {"sudo -u docker python x", ""},
      {"env -u RANK docker run x", "`docker run --init"},
      {"env -u", ""},
      {"podman exec c x", "`podman run --init"},
      {"nerdctl run x", "`nerdctl run --init"},
      {"srun hostname", ""},
      {"srun --container-image=i x", "--container-image=IMAGE rollcall run"},
      {"srun -N 2 --container-image i x", "`srun --ntasks-per-node=1 "},
      {"srun", ""},
      {"apptainer exec i.sif x", ""},
      {"enroot start i x", ""},
  };
  for (const auto& row : rows) {
    const absl::Status got = CheckContainer(Words(row.command));
    EXPECT_EQ(got.ok(), *row.expect == '\0') << row.command;
    EXPECT_TRUE(absl::StrContains(got.message(), row.expect))
        << row.command << ": " << got.message();
  }
}

TEST(CommandWords, ContainersBelowTheAgentAreToldWhatTheyLack) {
  constexpr char kRun[] = "/run/user/7";
  const struct {
    const char* command;
    const char* runtime_dir;
    const char* expect;
  } rows[] = {
      {"", kRun, ""},
      {"python exec", kRun, ""},
      {"apptainer", kRun, ""},
      {"apptainer build i.sif d", kRun, ""},
      // By default, /tmp is visible in the container.
      {"apptainer exec i.sif x", "", ""},
      {"apptainer exec i.sif x", "/tmp/mine", ""},
      {"apptainer exec i.sif x", kRun,
       "give `apptainer exec --bind /run/user/7 ...`"},
      {"/opt/apptainer -q run --nv i.sif x", kRun,
       "`/opt/apptainer run --bind /run/user/7 ...`"},
      {"singularity exec -B /run/user/7 i.sif x", kRun, ""},
      {"singularity exec --bind=/run/user/7,/data i.sif x", kRun, ""},
      {"singularity exec --bind /data i.sif x /run/user/7", kRun,
       "--bind /run/user/7"},
      {"apptainer exec --contain i.sif x", "", "--bind /tmp"},
      {"apptainer exec -c i.sif x", "/tmp/mine", "--bind /tmp/mine"},
      {"apptainer exec --contain -B /tmp i.sif x", "", ""},
      {"apptainer exec --cleanenv i.sif x", "", "--cleanenv hides RANK"},
      {"apptainer exec --bind /a -C i.sif x", "", "-C hides RANK"},
      // These are flags of the program in the container.
      {"apptainer exec i.sif python -c x", "", ""},
      {"apptainer exec --env A=b i.sif x -e", "", ""},
      {"enroot list", kRun, ""},
      {"enroot start i x", "", "enroot start --conf FILE"},
      {"enroot start --rw -e RANK i x", kRun, "enroot start --conf FILE"},
      {"enroot start --conf f i x", kRun, ""},
      {"enroot start --rw -m a:b -c f i x", kRun, ""},
      {"enroot start i x --conf f", kRun, "enroot start --conf FILE"},
  };
  for (const auto& row : rows) {
    const std::string got =
        ContainerAdvice(Words(row.command), row.runtime_dir);
    EXPECT_EQ(got.empty(), *row.expect == '\0') << row.command << ": " << got;
    EXPECT_TRUE(absl::StrContains(got, row.expect))
        << row.command << ": " << got;
  }
}

TEST(CommandWords, EachNodeWouldTrainAlone) {
  const struct {
    const char* command;
    bool once;
    const char* expect;
  } rows[] = {
      {"", false, ""},
      {"python train.py", false, ""},
      {"torchrun train.py", false, "torchrun is started on every node"},
      {"torchrun train.py", true, ""},
      {"torchrun --nproc_per_node=8 t.py", false, "--nnodes=$NNODES"},
      {"torchrun --nnodes=2 t.py", false, ""},
      {"torchrun --nnodes 2 t.py", false, ""},
      {"torchrun --rdzv-endpoint=a:1 t.py", false, ""},
      {"python -m torch.distributed.run t.py", false, "torch.distributed.run"},
      {"accelerate launch t.py", false, "--num_machines $NNODES"},
      {"accelerate launch --num_machines 2 t.py", false, ""},
      {"mpirun -np 4 x", false, "give --once"},
      {"mpirun -np 4 x", true, ""},
      {"srun x", false, ""},
  };
  for (const auto& row : rows) {
    const std::string got = SeparateWorldsAdvice(Words(row.command), row.once);
    EXPECT_EQ(got.empty(), *row.expect == '\0') << row.command;
    EXPECT_TRUE(absl::StrContains(got, row.expect)) << row.command << got;
  }
}

TEST(CommandWords, AVariableThatWasExpandedTooEarly) {
  using Words = std::vector<std::string>;
  const Words none[] = {
      {"x"}, {"x", ""}, {"x", "a", ""}, {"x", "a="}, {"x", "--n", "1"}};
  for (const Words& command : none) {
    EXPECT_EQ(EmptyValueAdvice(command), "");
  }
  EXPECT_TRUE(absl::StrContains(EmptyValueAdvice({"x", "--node_rank", ""}),
                                "flag --node_rank has"));
  EXPECT_TRUE(absl::StrContains(EmptyValueAdvice({"x", "--node_rank="}),
                                "flag --node_rank= has"));
}

}  // namespace
}  // namespace rollcall
