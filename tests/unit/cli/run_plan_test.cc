// What `rollcall run` does: a table of command lines and environments.
#include "client/cli/run_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/cli/flags/argv.h"

namespace rollcall {
namespace {

using Entries = std::vector<std::string>;

RunFlags Parse(const std::string& line) {
  std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  words.insert(words.begin(), "rollcall");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  auto invocation =
      ParseFlags(SplitArguments(static_cast<int>(argv.size()), argv.data()));
  if (!invocation.ok() || !std::holds_alternative<RunFlags>(*invocation)) {
    ADD_FAILURE() << line << ": " << invocation.status();
    return RunFlags();
  }
  return std::get<RunFlags>(*invocation);
}

// Returns `launch any:29400 job x nodes 2:4 ranks 8`, `join h:29400 job x ranks
// 8`, or the error. A secret is always given.
std::string Plan(const std::string& line, const Entries& entries,
                 const GivenSecrets& given = {"", "secret"}) {
  RunFlags flags = Parse(line);
  flags.launch.given = given;
  const auto plan = PlanRun(flags, VariablesOf(entries));
  if (!plan.ok()) {
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    return absl::StrCat("error: ", plan.status().message());
  }
  if (const auto* join = std::get_if<JoinFlags>(&plan->command)) {
    return absl::StrCat("join ", join->where.endpoint, " job ", join->where.job,
                        " ranks ", join->local.nproc_per_node);
  }
  const auto& launch = std::get<LaunchFlags>(plan->command);
  return absl::StrCat(
      "launch ", absl::StrReplaceAll(launch.listen, {{"[::]", "any"}}), " job ",
      launch.job, " nodes ", launch.settings.nodes_min(), ":",
      launch.settings.nodes_max(), " ranks ", launch.local.nproc_per_node);
}

const Entries kLeader = {"LWS_WORKER_INDEX=0", "LWS_GROUP_SIZE=3",
                         "LWS_LEADER_ADDRESS=l-0.l"};
const Entries kFollower = {"LWS_WORKER_INDEX=2", "LWS_GROUP_SIZE=3",
                           "LWS_LEADER_ADDRESS=l-0.l"};
const Entries kVessl = {"ROLE=worker",   "NUM_NODES=2", "GPUS_PER_NODE=8",
                        "RDZV_ID=A_job", "NODE_RANK=1", "MASTER_ADDR=10.0.0.1"};

TEST(RunPlan, OneLineForEveryNode) {
  const struct {
    const char* line;
    Entries entries;
    const char* expect;
  } rows[] = {
      // A job of one node needs neither a port known to others nor a job name.
      {"run -- x", {}, "launch  job  nodes 1:1 ranks 1"},
      {"run --job a --nproc-per-node 2 -- x",
       {},
       "launch  job a nodes 1:1 ranks 2"},
      {"run -- x", kLeader, "launch any:29400 job run nodes 3:3 ranks 1"},
      {"run -- x", kFollower, "join l-0.l:29400 job run ranks 1"},
      {"run --job a -- x", kFollower, "join l-0.l:29400 job a ranks 1"},
      {"run --nodes 2:3 --job a -- x", kLeader,
       "launch any:29400 job a nodes 2:3 ranks 1"},
      {"run -- x", kVessl, "join 10.0.0.1:29400 job a-job ranks 8"},
      {"run --nproc-per-node 2 -- x", kVessl,
       "join 10.0.0.1:29400 job a-job ranks 2"},
      {"run --endpoint h:7 -- x", kFollower, "join h:7 job run ranks 1"},
      {"run --endpoint [::1]:7 -- x", kFollower,
       "join [::1]:7 job run ranks 1"},
      {"run --endpoint fd00::1 -- x", kFollower,
       "join [fd00::1]:29400 job run ranks 1"},
      {"run --endpoint h:7 -- x", kLeader,
       "launch any:7 job run nodes 3:3 ranks 1"},
      // A command line for torchrun works unchanged.
      {"run --nnodes 2 --node_rank 1 --master_addr 10.0.0.1 --master_port "
       "29500 "
       "--rdzv_backend c10d --rdzv_id My.Job --nproc_per_node 8 -- x",
       {},
       "join 10.0.0.1:29500 job my-job ranks 8"},
      {"run --nnodes 2 --node_rank 0 --master_addr 10.0.0.1 --master_port "
       "29500 "
       "--nproc_per_node 8 -- x",
       {},
       "launch any:29500 job run nodes 2:2 ranks 8"},
      // Flags have priority over a platform that is set up for torchrun.
      {"run --node-rank 0 --nodes 1 -- x", kFollower,
       "launch  job  nodes 1:1 ranks 1"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Plan(row.line, row.entries), row.expect) << row.line;
  }
}

TEST(RunPlan, WhatIsMissingIsNamed) {
  const struct {
    const char* line;
    Entries entries;
    const char* expect;
  } rows[] = {
      {"run --nodes 2 -- x", {}, "--node-rank N"},
      {"run --node-rank 1 --nodes 2 -- x", {}, "--endpoint HOST"},
      {"run --node-rank 0 -- x", {}, "--nodes N"},
      {"run -- x", {"NOMAD_ALLOC_INDEX=0"}, "--nodes N"},
      {"run --node-rank 2 --nodes 2 -- x", {}, "from 0 to 1"},
      {"run --node-rank x -- x", {}, "--node-rank: expected"},
      {"run --node-rank 0 --nodes 2 --master-port 0 -- x", {}, "--master-port"},
      {"run --endpoint a]:b -- x", kFollower, "HOST:PORT"},
      {"run -- x", {"SLURM_JOB_ID=7", "SLURM_NNODES=4"}, "srun"},
      {"run -- x",
       {"LWS_WORKER_INDEX=0", "LWS_GROUP_SIZE=many"},
       "LWS_GROUP_SIZE=many"},
      {"run -- x",
       {"PET_NODE_RANK=0", "PET_NNODES=2", "PET_NPROC_PER_NODE=gpu"},
       "PET_NPROC_PER_NODE=gpu"},
      // A worker does not need the number of nodes, but its launcher would not
      // start.
      {"run -- x",
       {"PET_NODE_RANK=1", "PET_NNODES=4:2", "PET_MASTER_ADDR=h"},
       "PET_NNODES=4:2"},
      {"run -- x",
       {"LWS_WORKER_INDEX=1", "LWS_GROUP_SIZE=many", "LWS_LEADER_ADDRESS=h"},
       "LWS_GROUP_SIZE=many"},
      {"run -- torchrun t.py", kVessl, "GPUS_PER_NODE=8"},
  };
  for (const auto& row : rows) {
    const std::string plan = Plan(row.line, row.entries);
    EXPECT_TRUE(absl::StartsWith(plan, "error: ")) << row.line << ": " << plan;
    EXPECT_TRUE(absl::StrContains(plan, row.expect))
        << row.line << ": " << plan;
  }
}

TEST(RunPlan, SeveralNodesNeedASecret) {
  for (const Entries& node : {kLeader, kFollower}) {
    EXPECT_TRUE(
        absl::StrContains(Plan("run -- x", node, {}), "rollcall token secret"));
    EXPECT_TRUE(absl::StartsWith(Plan("run --secret-file s -- x", node, {}),
                                 node == kLeader ? "launch" : "join"));
  }
  EXPECT_TRUE(absl::StartsWith(Plan("run -- x", {}, {}), "launch"));
}

TEST(RunPlan, AWorkerMayHaveAJoinStringInstead) {
  // The join string has the endpoint and the job, so neither is given.
  EXPECT_EQ(Plan("run -- x", {"ROLE=worker", "NUM_NODES=2", "NODE_RANK=1"},
                 {"rc1.x", ""}),
            "join  job  ranks 1");
}

TEST(RunPlan, TheSettingsOfAWorkerAreThoseOfTheLine) {
  RunFlags flags = Parse("run --max-restarts 1 --join-timeout 1h -- a b");
  flags.launch.given.secret = "secret";
  const auto plan = PlanRun(flags, VariablesOf(kFollower));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto& join = std::get<JoinFlags>(plan->command);
  EXPECT_EQ(join.command, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(join.settings.max_restarts(), 1u);
  EXPECT_EQ(join.settings.join_timeout().seconds(), 3600);
  // Only the launcher sets this.
  EXPECT_FALSE(join.settings.has_nodes_max());
  EXPECT_TRUE(absl::StrContains(plan->notice, "joins l-0.l:29400"));
  EXPECT_TRUE(absl::StrContains(plan->notice, "LWS_WORKER_INDEX=2"));
}

}  // namespace
}  // namespace rollcall
