// How a platform is detected from its environment variables.
#include "client/launch/platform/platform.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/launch/platform/job_name.h"

namespace rollcall {
namespace {

using Entries = std::vector<std::string>;

NodeEnvironment Pod(const Entries& entries, std::string host,
                    std::string qualified) {
  NodeEnvironment environment = VariablesOf(entries);
  environment.hostname = std::move(host);
  environment.qualified_name = std::move(qualified);
  return environment;
}

// Returns a text such as `slurm worker 2/4 at n07 own 10.0.0.9 gpus 8 job
// slurm-7` or `none alone`. An obstacle adds "obstacle".
std::string Describe(const absl::StatusOr<Platform>& platform) {
  if (!platform.ok()) return std::string(platform.status().message());
  const Evidence& place = platform->place;
  std::string text = absl::StrCat(
      platform->names.empty() ? "none" : absl::StrJoin(platform->names, "+"),
      " ", Name(platform->role));
  if (place.node_rank.known())
    absl::StrAppend(&text, " ", place.node_rank.value);
  if (place.nodes.known()) absl::StrAppend(&text, "/", place.nodes.value);
  if (place.launcher.known()) {
    absl::StrAppend(&text, " at ", place.launcher.value);
  }
  if (place.address.known())
    absl::StrAppend(&text, " own ", place.address.value);
  if (place.ranks.known()) absl::StrAppend(&text, " gpus ", place.ranks.value);
  if (place.job.known()) absl::StrAppend(&text, " job ", place.job.value);
  if (!place.obstacle.empty()) absl::StrAppend(&text, " obstacle");
  return text;
}

std::string Detected(const Entries& entries) {
  return Describe(DetectPlatform(VariablesOf(entries)));
}

TEST(Detect, EachPlatformAsItsVariablesSay) {
  const struct {
    const char* what;
    Entries entries;
    const char* expect;
  } rows[] = {
      {"nothing", {}, "none alone"},
      {"VESSL's launcher has no rank and no address",
       {"ROLE=launcher", "NUM_NODES=4", "GPUS_PER_NODE=8", "RDZV_ID=My_Run.1"},
       "vessl launcher/4 gpus 8 job my-run-1"},
      {"VESSL's worker",
       {"ROLE=worker", "NUM_NODES=4", "GPUS_PER_NODE=8", "RDZV_ID=My_Run.1",
        "NODE_RANK=3", "MASTER_ADDR=10.0.0.1"},
       "vessl worker 3/4 at 10.0.0.1 gpus 8 job my-run-1"},
      {"VESSL's worker of an older template, without ROLE",
       {"NUM_NODES=2", "NODE_RANK=1", "MASTER_ADDR=10.0.0.1"},
       "vessl worker 1/2 at 10.0.0.1"},
      {"a ROLE of another program",
       {"ROLE=arn:aws:iam::1:role/x"},
       "none alone"},
      {"Kubeflow Trainer with a range, and ranks that it leaves open",
       {"PET_NNODES=2:4", "PET_NPROC_PER_NODE=auto", "PET_NODE_RANK=1",
        "PET_MASTER_ADDR=t-node-0-0.t", "PET_MASTER_PORT=29500",
        "JOB_COMPLETION_INDEX=1"},
       "kubeflow+kubernetes worker 1/2:4 at t-node-0-0.t gpus auto"},
      {"PyTorchJob: WORLD_SIZE counts processes",
       {"RANK=1", "WORLD_SIZE=16", "MASTER_ADDR=p-master-0",
        "MASTER_PORT=23456", "PET_NNODES=2", "PET_NPROC_PER_NODE=8",
        "KUBERNETES_SERVICE_HOST=10.96.0.1"},
       "pytorchjob worker 1/2 at p-master-0 gpus 8"},
      {"RANK and WORLD_SIZE alone mean nothing",
       {"RANK=1", "WORLD_SIZE=16", "MASTER_ADDR=a"},
       "none alone"},
      {"LeaderWorkerSet's leader",
       {"LWS_WORKER_INDEX=0", "LWS_GROUP_SIZE=3",
        "LWS_LEADER_ADDRESS=l-0.l.default"},
       "leaderworkerset launcher 0/3 at l-0.l.default"},
      {"ModelArts",
       {"VC_TASK_INDEX=1", "VC_WORKER_NUM=2",
        "VC_WORKER_HOSTS=j-worker-0.j,j-worker-1.j", "MA_NUM_HOSTS=2",
        "MA_NUM_GPUS=8", "MA_CURRENT_IP=172.16.0.9"},
       "modelarts worker 1/2 at j-worker-0.j own 172.16.0.9 gpus 8"},
      {"Volcano",
       {"VC_TASK_INDEX=0", "VC_WORKER_NUM=2", "VC_WORKER_HOSTS=w-0.j,w-1.j"},
       "volcano launcher 0/2 at w-0.j"},
      {"SkyPilot: addresses on lines",
       {"SKYPILOT_NODE_RANK=1", "SKYPILOT_NODE_IPS=10.0.0.4\n10.0.0.5",
        "SKYPILOT_NUM_NODES=2", "SKYPILOT_NUM_GPUS_PER_NODE=8",
        "SKYPILOT_TASK_ID=sky-2026-01-02_a-1"},
       "skypilot worker 1/2 at 10.0.0.4 gpus 8 job sky-2026-01-02-a-1"},
      {"SkyPilot without GPUs",
       {"SKYPILOT_NODE_RANK=0", "SKYPILOT_NODE_IPS=10.0.0.4",
        "SKYPILOT_NUM_NODES=1", "SKYPILOT_NUM_GPUS_PER_NODE=0"},
       "skypilot alone 0/1 at 10.0.0.4"},
      {"dstack",
       {"DSTACK_NODE_RANK=1", "DSTACK_NODES_NUM=2",
        "DSTACK_MASTER_NODE_IP=10.1.0.1", "DSTACK_NODES_IPS=10.1.0.1\n10.1.0.2",
        "DSTACK_GPUS_PER_NODE=4", "DSTACK_RUN_NAME=wise-fox-1"},
       "dstack worker 1/2 at 10.1.0.1 gpus 4 job wise-fox-1"},
      {"RunPod: WORLD_SIZE counts GPUs",
       {"NODE_RANK=1", "NUM_NODES=2", "PRIMARY_ADDR=10.65.0.2",
        "NODE_ADDR=10.65.0.3", "MASTER_ADDR=10.65.0.2", "WORLD_SIZE=16",
        "NUM_TRAINERS=8"},
       "runpod worker 1/2 at 10.65.0.2 own 10.65.0.3 gpus 8"},
      {"AWS Batch's main node need not be the first",
       {"AWS_BATCH_JOB_NODE_INDEX=1", "AWS_BATCH_JOB_MAIN_NODE_INDEX=1",
        "AWS_BATCH_JOB_NUM_NODES=3", "AWS_BATCH_JOB_ID=ab12#1"},
       "aws-batch launcher 0/3 job ab12"},
      {"AWS Batch's nodes before the main one move up",
       {"AWS_BATCH_JOB_NODE_INDEX=0", "AWS_BATCH_JOB_MAIN_NODE_INDEX=1",
        "AWS_BATCH_JOB_NUM_NODES=3",
        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=10.0.0.7",
        "AWS_BATCH_JOB_ID=ab12#0"},
       "aws-batch worker 1/3 at 10.0.0.7 job ab12"},
      {"AWS Batch's nodes behind it stay",
       {"AWS_BATCH_JOB_NODE_INDEX=2", "AWS_BATCH_JOB_MAIN_NODE_INDEX=1",
        "AWS_BATCH_JOB_NUM_NODES=3",
        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=10.0.0.7"},
       "aws-batch worker 2/3 at 10.0.0.7"},
      {"an AWS Batch job of one node has no such variables",
       {"AWS_BATCH_JOB_ID=ab12", "AWS_BATCH_JOB_ATTEMPT=1"},
       "none alone"},
      {"Lepton",
       {"LEPTON_JOB_WORKER_INDEX=1", "LEPTON_JOB_TOTAL_WORKERS=2",
        "LEPTON_JOB_SERVICE_PREFIX=lep", "LEPTON_SUBDOMAIN=lep-svc",
        "LEPTON_JOB_NAME=lep"},
       "lepton worker 1/2 at lep-0.lep-svc job lep"},
      {"PAI: WORLD_SIZE counts nodes",
       {"RANK=1", "WORLD_SIZE=2", "NPROC_PER_NODE=8", "MASTER_ADDR=m-0",
        "KUBERNETES_SERVICE_HOST=10.96.0.1"},
       "pai worker 1/2 at m-0 gpus 8"},
      {"Nomad says neither how many nor where",
       {"NOMAD_ALLOC_INDEX=1", "NOMAD_JOB_NAME=train"},
       "nomad worker 1 job train"},
      {"the launcher of an MPIJob",
       {"OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile",
        "K_MPI_JOB_ROLE=launcher"},
       "mpijob alone obstacle"},
      {"a process that mpirun started in an MPIJob",
       {"OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile",
        "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
        "OMPI_COMM_WORLD_LOCAL_SIZE=1"},
       "openmpi worker 1/2"},
      {"a hostfile of Open MPI's user",
       {"OMPI_MCA_orte_default_hostfile=/home/me/hosts"},
       "none alone"},
      {"a Slurm step",
       {"SLURM_JOB_ID=7", "SLURM_NNODES=4", "SLURM_NODEID=2", "SLURM_PROCID=2",
        "SLURM_LOCALID=0", "SLURM_STEP_NUM_NODES=4",
        "SLURM_STEP_NODELIST=n[07-10]", "SLURM_STEP_TASKS_PER_NODE=1(x4)",
        "SLURM_GPUS_ON_NODE=8"},
       "slurm worker 2/4 at n07 gpus 8 job slurm-7"},
      {"a Slurm step on a part of its job's nodes",
       {"SLURM_JOB_ID=7", "SLURM_NNODES=4", "SLURM_NODEID=0",
        "SLURM_JOB_NODELIST=n[07-10]", "SLURM_STEP_NUM_NODES=2",
        "SLURM_STEP_NODELIST=n[09-10]", "SLURM_STEP_TASKS_PER_NODE=1(x2)"},
       "slurm launcher 0/2 at n09 job slurm-7"},
      {"a batch script runs on one node of its job",
       {"SLURM_JOB_ID=7", "SLURM_NNODES=4", "SLURM_NODEID=0"},
       "slurm unknown/4 job slurm-7 obstacle"},
      {"a batch script of one node",
       {"SLURM_JOB_ID=7", "SLURM_NNODES=1", "SLURM_NODEID=0"},
       "slurm alone 0/1 job slurm-7"},
      {"several Slurm tasks per node",
       {"SLURM_JOB_ID=7", "SLURM_NODEID=1", "SLURM_STEP_NUM_NODES=2",
        "SLURM_STEP_NODELIST=a,b", "SLURM_STEP_TASKS_PER_NODE=8(x2)"},
       "slurm worker 1/2 at a job slurm-7 obstacle"},
      {"Slurm tasks of which one node has more",
       {"SLURM_JOB_ID=7", "SLURM_NODEID=1", "SLURM_STEP_NUM_NODES=2",
        "SLURM_STEP_NODELIST=a,b", "SLURM_STEP_TASKS_PER_NODE=2,1"},
       "slurm worker 1/2 at a job slurm-7 obstacle"},
      {"Open MPI, one process per node",
       {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
        "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1"},
       "openmpi worker 1/2"},
      {"Open MPI, one process per rank",
       {"OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=16",
        "OMPI_COMM_WORLD_LOCAL_RANK=5", "OMPI_COMM_WORLD_LOCAL_SIZE=8"},
       "openmpi alone obstacle"},
      {"PMI",
       {"PMI_RANK=0", "PMI_SIZE=2", "MPI_LOCALNRANKS=1"},
       "pmi launcher 0/2"},
      {"PMI, one process per rank",
       {"PMI_RANK=1", "PMI_SIZE=4", "MPI_LOCALNRANKS=2"},
       "pmi alone obstacle"},
      {"Slurm's own PMI variables are Slurm's",
       {"SLURM_JOB_ID=7", "SLURM_NNODES=1", "PMI_RANK=0", "PMI_SIZE=1"},
       "slurm alone 0/1 job slurm-7"},
      {"a rank of torchrun",
       {"RANK=1", "LOCAL_RANK=1", "GROUP_RANK=0", "WORLD_SIZE=2",
        "TORCHELASTIC_RUN_ID=x"},
       "torchrun alone obstacle"},
      {"a rank of rollcall, which looks like one of torchrun",
       {"RANK=1", "LOCAL_RANK=1", "GROUP_RANK=0", "NODE_RANK=0", "NNODES=1",
        "TORCHELASTIC_RUN_ID=x", "ROLLCALL_GENERATION=1", "ROLLCALL_JOB=j"},
       "rollcall alone obstacle"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Detected(row.entries), row.expect) << row.what;
  }
}

TEST(Detect, APodOfAnIndexedJob) {
  const Entries second = {"JOB_COMPLETION_INDEX=1",
                          "KUBERNETES_SERVICE_HOST=10.96.0.1"};
  EXPECT_EQ(
      Describe(DetectPlatform(
          Pod(second, "train-1", "train-1.net.ns.svc.cluster.local"))),
      "kubernetes worker 1 at train-0.net.ns.svc.cluster.local job train");
  // Without a headless service, the launcher has no name.
  EXPECT_EQ(Describe(DetectPlatform(Pod(second, "train-1", ""))),
            "kubernetes worker 1 job train");
  // With hostNetwork, the pod's hostname is the machine's name.
  EXPECT_EQ(Describe(DetectPlatform(Pod(second, "gpu-node-7", ""))),
            "kubernetes worker 1");
}

TEST(Detect, APodOfAJobSet) {
  EXPECT_EQ(
      Describe(DetectPlatform(Pod({"JOB_COMPLETION_INDEX=2"}, "js-workers-0-2",
                                  "js-workers-0-2.js.ns.svc.cluster.local"))),
      "kubernetes worker 2 at js-workers-0-0.js.ns.svc.cluster.local job "
      "js-workers-0");
  // The JobSet has several Jobs of one pod each.
  EXPECT_EQ(Describe(DetectPlatform(Pod(
                {"JOB_COMPLETION_INDEX=0", "JOBSET_JOB_GLOBAL_INDEX=3"},
                "js-workers-3-0", "js-workers-3-0.js.ns.svc.cluster.local"))),
            "kubernetes worker 3 at js-workers-0-0.js.ns.svc.cluster.local job "
            "js-workers");
  // This Job is not in the first group, so it is unknown which Job launches.
  EXPECT_EQ(Describe(DetectPlatform(Pod(
                {"JOB_COMPLETION_INDEX=0", "JOBSET_JOB_GLOBAL_INDEX=3"},
                "js-workers-2-0", "js-workers-2-0.js.ns.svc.cluster.local"))),
            "kubernetes worker 3");
  // The Job has several pods, which share one global index.
  const auto second =
      Pod({"JOB_COMPLETION_INDEX=1", "JOBSET_JOB_GLOBAL_INDEX=0"},
          "js-workers-0-1", "js-workers-0-1.js.ns.svc.cluster.local");
  EXPECT_TRUE(absl::StrContains(DetectPlatform(second)->place.obstacle,
                                "expected Jobs of one pod each"));
}

TEST(Detect, ANumberOfNodesThatIsNone) {
  for (const char* nodes :
       {"0", "abc", "-1", "2:1", "0:2", "1:2:3", ":", "1:", "99999999"}) {
    const auto found = DetectPlatform(
        VariablesOf({absl::StrCat("ROLLCALL_NODES=", nodes).c_str()}));
    EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument)
        << nodes;
    EXPECT_TRUE(absl::StrContains(found.status().message(),
                                  "expected a number of nodes from 1 to"))
        << nodes;
  }
  EXPECT_EQ(Describe(DetectPlatform(VariablesOf({"ROLLCALL_NODES=1:1"}))),
            "none alone/1:1");
}

TEST(Detect, TheNameWithADomainFromTheHostsFile) {
  const char* const pod =
      "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"
      "10.244.0.7\ttrain-1.net.ns.svc.cluster.local\ttrain-1\n";
  EXPECT_EQ(QualifiedName(pod, "train-1"), "train-1.net.ns.svc.cluster.local");
  EXPECT_EQ(QualifiedName(pod, "train"), "");
  EXPECT_EQ(QualifiedName(pod, ""), "");
  EXPECT_EQ(QualifiedName("10.0.0.1 train-10.x train-1", "train-1"), "");
  EXPECT_EQ(QualifiedName("10.0.0.1 a.b # a", "a"), "");
  EXPECT_EQ(QualifiedName("10.0.0.1 a.b a", "a"), "a.b");
}

TEST(Detect, FlagsAndOwnVariablesComeFirst) {
  const NodeEnvironment slurm =
      VariablesOf({"SLURM_JOB_ID=7", "SLURM_NODEID=2", "SLURM_STEP_NUM_NODES=4",
                   "SLURM_STEP_NODELIST=n[1-4]", "ROLLCALL_NODE_RANK=3",
                   "ROLLCALL_NODES=5", "ROLLCALL_LAUNCHER=head"});
  EXPECT_EQ(Describe(DetectPlatform(slurm)),
            "slurm worker 3/5 at head job slurm-7");
  Evidence flags;
  flags.node_rank = {0, "--node-rank=0"};
  flags.nodes = {"6", "--nodes=6"};
  EXPECT_EQ(Describe(DetectPlatform(slurm, flags)),
            "slurm launcher 0/6 at head job slurm-7");
}

TEST(Detect, AFlagForTheRankRemovesAnObstacle) {
  const NodeEnvironment mpi =
      VariablesOf({"OMPI_COMM_WORLD_RANK=8", "OMPI_COMM_WORLD_SIZE=16",
                   "OMPI_COMM_WORLD_LOCAL_SIZE=8"});
  Evidence flags;
  flags.node_rank = {1, "--node-rank=1"};
  EXPECT_EQ(Describe(DetectPlatform(mpi, flags)), "openmpi worker 1");
}

TEST(Detect, PlatformsThatContradictEachOtherAreRefused) {
  const Entries ranks = {"JOB_COMPLETION_INDEX=1", "LWS_WORKER_INDEX=2",
                         "LWS_GROUP_SIZE=3"};
  for (const char* expect :
       {"LWS_WORKER_INDEX=2", "JOB_COMPLETION_INDEX=1", "ROLLCALL_NODE_RANK"}) {
    EXPECT_TRUE(absl::StrContains(Detected(ranks), expect)) << Detected(ranks);
  }
  const Entries sizes = {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1",
                         "SLURM_JOB_ID=7",         "SLURM_NODEID=0",
                         "SLURM_STEP_NUM_NODES=2", "SLURM_STEP_NODELIST=a,b"};
  for (const char* expect :
       {"OMPI_COMM_WORLD_SIZE=1", "SLURM_STEP_NUM_NODES=2", "--nodes"}) {
    EXPECT_TRUE(absl::StrContains(Detected(sizes), expect)) << Detected(sizes);
  }
  // The user gave the node rank, so neither variable matters.
  Entries decided = ranks;
  decided.push_back("ROLLCALL_NODE_RANK=1");
  EXPECT_EQ(Detected(decided), "leaderworkerset+kubernetes worker 1/3");
}

TEST(Detect, ValuesThatAPlatformDoesNotGiveAreNamed) {
  const struct {
    Entries entries;
    const char* expect;
  } rows[] = {
      {{"JOB_COMPLETION_INDEX=one"}, "JOB_COMPLETION_INDEX"},
      {{"JOB_COMPLETION_INDEX=-1"}, "'-1'"},
      {{"ROLLCALL_NODE_RANK=16384"}, "at most 16383"},
      {{"LWS_WORKER_INDEX=3", "LWS_GROUP_SIZE=3"}, "from 0 to 2"},
      {{"ROLE=worker", "NUM_NODES=2", "NODE_RANK=0"}, "ROLE=worker"},
      {{"ROLE=launcher", "NUM_NODES=2", "NODE_RANK=1"}, "NODE_RANK=1"},
      {{"SLURM_JOB_ID=7", "SLURM_STEP_NODELIST=n[1-"}, "column 5"},
      {{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=x"},
       "OMPI_COMM_WORLD_LOCAL_SIZE"},
  };
  for (const auto& row : rows) {
    const auto platform = DetectPlatform(VariablesOf(row.entries));
    EXPECT_EQ(platform.status().code(), absl::StatusCode::kInvalidArgument)
        << row.expect;
    EXPECT_TRUE(absl::StrContains(platform.status().message(), row.expect))
        << platform.status();
  }
}

TEST(Detect, AnEmptyVariableIsUnset) {
  EXPECT_EQ(Detected({"JOB_COMPLETION_INDEX=", "NODE_RANK=", "NUM_NODES="}),
            "none alone");
}

TEST(Detect, SaysWhichVariableDecided) {
  const auto platform = DetectPlatform(VariablesOf(
      {"LWS_WORKER_INDEX=1", "LWS_GROUP_SIZE=3", "ROLLCALL_LAUNCHER=head"}));
  ASSERT_TRUE(platform.ok());
  EXPECT_EQ(
      Because(*platform),
      (Entries{"node_rank 1: LWS_WORKER_INDEX=1", "nodes 3: LWS_GROUP_SIZE=3",
               "launcher head: ROLLCALL_LAUNCHER=head"}));
}

TEST(Detect, HowOftenThePlatformHasStartedTheRunAgain) {
  const struct {
    const char* what;
    Entries entries;
    const char* expect;
  } rows[] = {
      {"nothing", {}, "unknown"},
      {"Slurm, the first time", {"SLURM_JOB_ID=7"}, "unknown"},
      {"Slurm",
       {"SLURM_JOB_ID=7", "SLURM_RESTART_COUNT=2"},
       "2 SLURM_RESTART_COUNT=2"},
      {"of another program", {"SLURM_RESTART_COUNT=2"}, "unknown"},
      {"a JobSet that makes its pods again",
       {"JOB_COMPLETION_INDEX=1", "JOBSET_RESTART_ATTEMPT=3"},
       "3 JOBSET_RESTART_ATTEMPT=3"},
      {"a JobSet that restarts them in place",
       {"JOB_COMPLETION_INDEX=1", "JOBSET_RESTART_ATTEMPT=3",
        "JOBSET_IN_PLACE_RESTART_ATTEMPT=2"},
       "5 JOBSET_RESTART_ATTEMPT=3 and JOBSET_IN_PLACE_RESTART_ATTEMPT=2"},
      {"a pod whose annotation is not there",
       {"JOB_COMPLETION_INDEX=1", "JOBSET_RESTART_ATTEMPT=0",
        "JOBSET_IN_PLACE_RESTART_ATTEMPT="},
       "0 JOBSET_RESTART_ATTEMPT=0"},
      {"a TrainJob is a JobSet",
       {"PET_NNODES=2:4", "PET_NODE_RANK=1", "JOB_COMPLETION_INDEX=1",
        "JOBSET_RESTART_ATTEMPT=1"},
       "1 JOBSET_RESTART_ATTEMPT=1"},
      {"AWS Batch counts from 1",
       {"AWS_BATCH_JOB_NODE_INDEX=0", "AWS_BATCH_JOB_MAIN_NODE_INDEX=0",
        "AWS_BATCH_JOB_NUM_NODES=2", "AWS_BATCH_JOB_ATTEMPT=2"},
       "1 AWS_BATCH_JOB_ATTEMPT=2"},
      {"the user's own comes first",
       {"SLURM_JOB_ID=7", "SLURM_RESTART_COUNT=2", "ROLLCALL_ATTEMPT=9"},
       "9 ROLLCALL_ATTEMPT=9"},
      {"what a platform says wrongly",
       {"SLURM_JOB_ID=7", "SLURM_RESTART_COUNT=x"},
       "unknown"},
      {"what the user says wrongly", {"ROLLCALL_ATTEMPT=x"}, "error"},
      {"another of the user's",
       {"ROLLCALL_ATTEMPT=1", "ROLLCALL_NODE_RANK=x"},
       "1 ROLLCALL_ATTEMPT=1"},
  };
  for (const auto& row : rows) {
    const auto attempt = DetectAttempt(VariablesOf(row.entries));
    EXPECT_EQ(!attempt.ok() ? "error"
              : attempt->known()
                  ? absl::StrCat(attempt->value, " ", attempt->from)
                  : "unknown",
              row.expect)
        << row.what;
  }
  const auto platform =
      DetectPlatform(VariablesOf({"SLURM_JOB_ID=7", "SLURM_RESTART_COUNT=2"}));
  ASSERT_TRUE(platform.ok());
  EXPECT_EQ(Because(*platform).back(), "attempt 2: SLURM_RESTART_COUNT=2");
}

TEST(JobName, IsTheSameForEveryNode) {
  EXPECT_EQ(JobIdOf("some_uniq_id"), "some-uniq-id");
  EXPECT_EQ(JobIdOf("My.Run"), "my-run");
  EXPECT_EQ(JobIdOf("__x__"), "x");
  EXPECT_EQ(JobIdOf("a b/c"), "a-b-c");
  EXPECT_EQ(JobIdOf("\xc3\xa4"), "");
  EXPECT_EQ(JobIdOf(""), "");
  EXPECT_EQ(JobIdOf(std::string(100, 'x')), std::string(63, 'x'));
  // A cut name has no '-' at its end.
  EXPECT_EQ(JobIdOf(std::string(62, 'x') + "-yy"), std::string(62, 'x'));
}

}  // namespace
}  // namespace rollcall
