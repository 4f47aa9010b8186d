#include "client/launch/platform/detectors.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/launch/platform/job_name.h"
#include "client/launch/platform/node_list.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr uint32_t kNumberMax = 1u << 30;

bool Has(const NodeEnvironment& environment, const char* name) {
  return Find(environment, name) != nullptr;
}

std::string Value(const NodeEnvironment& environment, const char* name) {
  const std::string* text = Find(environment, name);
  return text == nullptr ? "" : *text;
}

// A platform that is recognised by a set of variables that no other platform
// sets together.
struct DetectorRow {
  const char* platform;
  std::vector<const char*> needs;
  // Variables that another platform sets in addition to `needs`.
  std::vector<const char*> lacks;
  VariableNames names;
};

const std::vector<DetectorRow>& DetectorRows() {
  static const auto* rows = new std::vector<DetectorRow>{
      {"kubeflow",
       {"PET_NODE_RANK", "PET_NNODES"},
       {},
       {.node_rank = "PET_NODE_RANK",
        .nodes = "PET_NNODES",
        .launcher = "PET_MASTER_ADDR",
        .ranks = "PET_NPROC_PER_NODE"}},
      // RANK is the pod; WORLD_SIZE counts processes, not pods.
      {"pytorchjob",
       {"RANK", "WORLD_SIZE", "MASTER_ADDR", "KUBERNETES_SERVICE_HOST"},
       {"LOCAL_RANK", "NPROC_PER_NODE", "PET_NODE_RANK"},
       {.node_rank = "RANK",
        .nodes = "PET_NNODES",
        .launcher = "MASTER_ADDR",
        .ranks = "PET_NPROC_PER_NODE"}},
      {"leaderworkerset",
       {"LWS_WORKER_INDEX", "LWS_GROUP_SIZE"},
       {},
       {.node_rank = "LWS_WORKER_INDEX",
        .nodes = "LWS_GROUP_SIZE",
        .launcher = "LWS_LEADER_ADDRESS"}},
      {"modelarts",
       {"VC_TASK_INDEX", "MA_NUM_HOSTS"},
       {},
       {.node_rank = "VC_TASK_INDEX",
        .nodes = "MA_NUM_HOSTS",
        .hosts = "VC_WORKER_HOSTS",
        .address = "MA_CURRENT_IP",
        .ranks = "MA_NUM_GPUS"}},
      {"volcano",
       {"VC_TASK_INDEX", "VC_WORKER_HOSTS"},
       {"MA_NUM_HOSTS"},
       {.node_rank = "VC_TASK_INDEX",
        .nodes = "VC_WORKER_NUM",
        .hosts = "VC_WORKER_HOSTS"}},
      {"skypilot",
       {"SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES"},
       {},
       {.node_rank = "SKYPILOT_NODE_RANK",
        .nodes = "SKYPILOT_NUM_NODES",
        .hosts = "SKYPILOT_NODE_IPS",
        .ranks = "SKYPILOT_NUM_GPUS_PER_NODE",
        .job = "SKYPILOT_TASK_ID"}},
      {"dstack",
       {"DSTACK_NODE_RANK", "DSTACK_NODES_NUM"},
       {},
       {.node_rank = "DSTACK_NODE_RANK",
        .nodes = "DSTACK_NODES_NUM",
        .launcher = "DSTACK_MASTER_NODE_IP",
        .hosts = "DSTACK_NODES_IPS",
        .ranks = "DSTACK_GPUS_PER_NODE",
        .job = "DSTACK_RUN_NAME"}},
      // Its WORLD_SIZE counts GPUs.
      {"runpod",
       {"PRIMARY_ADDR", "NODE_ADDR"},
       {},
       {.node_rank = "NODE_RANK",
        .nodes = "NUM_NODES",
        .launcher = "PRIMARY_ADDR",
        .address = "NODE_ADDR",
        .ranks = "NUM_TRAINERS"}},
      // Its WORLD_SIZE counts nodes.
      {"pai",
       {"RANK", "WORLD_SIZE", "NPROC_PER_NODE"},
       {"LOCAL_RANK"},
       {.node_rank = "RANK",
        .nodes = "WORLD_SIZE",
        .launcher = "MASTER_ADDR",
        .ranks = "NPROC_PER_NODE"}},
      {"nomad",
       {"NOMAD_ALLOC_INDEX"},
       {},
       {.node_rank = "NOMAD_ALLOC_INDEX", .job = "NOMAD_JOB_NAME"}},
  };
  return *rows;
}

using Detected = absl::StatusOr<std::optional<Evidence>>;

Detected DetectRow(const DetectorRow& row, const NodeEnvironment& environment) {
  const auto has = [&](const char* name) { return Has(environment, name); };
  if (!std::all_of(row.needs.begin(), row.needs.end(), has) ||
      std::any_of(row.lacks.begin(), row.lacks.end(), has)) {
    return std::nullopt;
  }
  Evidence evidence;
  evidence.platform = row.platform;
  absl::Status read = TakeVariables(environment, row.names, evidence);
  if (!read.ok()) return read;
  return evidence;
}

// VESSL's launcher starts before its address is known, so it has neither
// MASTER_ADDR nor a rank. ROLE tells that it is the launcher.
Detected DetectVessl(const NodeEnvironment& environment) {
  const std::string role = Value(environment, "ROLE");
  const bool named = role == "launcher" || role == "worker";
  if (!Has(environment, "NUM_NODES") || Has(environment, "PRIMARY_ADDR") ||
      (!named && !Has(environment, "NODE_RANK"))) {
    return std::nullopt;
  }
  Evidence evidence;
  evidence.platform = "vessl";
  absl::Status read = TakeVariables(environment,
                                    {.node_rank = "NODE_RANK",
                                     .nodes = "NUM_NODES",
                                     .launcher = "MASTER_ADDR",
                                     .ranks = "GPUS_PER_NODE",
                                     .job = "RDZV_ID"},
                                    evidence);
  if (!read.ok()) return read;
  if (!named) return evidence;
  evidence.launches = {role == "launcher", From("ROLE", role)};
  if (evidence.node_rank.known() &&
      evidence.launches.value != (evidence.node_rank.value == 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ROLE=", role, " and ", evidence.node_rank.from,
        " contradict each other: the launcher, and no other node, has rank 0"));
  }
  return evidence;
}

// Any node may be the main node, and the main node does not get its own
// address.
Detected DetectAwsBatch(const NodeEnvironment& environment) {
  const char* const kIndex = "AWS_BATCH_JOB_NODE_INDEX";
  const char* const kMain = "AWS_BATCH_JOB_MAIN_NODE_INDEX";
  const auto index = FindNumber(environment, kIndex, Limits::nodes_max - 1);
  if (!index.ok()) return index.status();
  const auto main = FindNumber(environment, kMain, Limits::nodes_max - 1);
  if (!main.ok()) return main.status();
  if (!*index || !*main) return std::nullopt;
  Evidence evidence;
  evidence.platform = "aws-batch";
  absl::Status read =
      TakeVariables(environment,
                    {.nodes = "AWS_BATCH_JOB_NUM_NODES",
                     .launcher = "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS",
                     .job = "AWS_BATCH_JOB_ID",
                     .attempt = "AWS_BATCH_JOB_ATTEMPT"},
                    evidence);
  if (!read.ok()) return read;
  // AWS counts from 1.
  if (evidence.attempt.value > 0) --evidence.attempt.value;
  // The nodes other than the main node keep their order and come after it.
  const uint32_t rank = **index == **main  ? 0
                        : **index < **main ? **index + 1
                                           : **index;
  evidence.node_rank = {
      rank, absl::StrCat(From(kIndex, absl::StrCat(**index)), " and ",
                         From(kMain, absl::StrCat(**main)))};
  // AWS appends "#INDEX" to a node's job id.
  if (evidence.job.known()) {
    const std::string id = Value(environment, "AWS_BATCH_JOB_ID");
    evidence.job.value = JobIdOf(id.substr(0, id.find('#')));
  }
  return evidence;
}

Detected DetectLepton(const NodeEnvironment& environment) {
  if (!Has(environment, "LEPTON_JOB_WORKER_INDEX")) return std::nullopt;
  Evidence evidence;
  evidence.platform = "lepton";
  absl::Status read = TakeVariables(environment,
                                    {.node_rank = "LEPTON_JOB_WORKER_INDEX",
                                     .nodes = "LEPTON_JOB_TOTAL_WORKERS",
                                     .job = "LEPTON_JOB_NAME"},
                                    evidence);
  if (!read.ok()) return read;
  const std::string prefix = Value(environment, "LEPTON_JOB_SERVICE_PREFIX");
  const std::string domain = Value(environment, "LEPTON_SUBDOMAIN");
  if (!prefix.empty() && !domain.empty()) {
    evidence.launcher = {absl::StrCat(prefix, "-0.", domain),
                         "LEPTON_JOB_SERVICE_PREFIX and LEPTON_SUBDOMAIN"};
  }
  return evidence;
}

// A JobSet counts how often it has recreated its pods, and how often the pods
// have restarted in place; each restart increments one of the two.
// specs/kubernetes sets both through the downward API.
absl::Status TakeJobSetAttempt(const NodeEnvironment& environment,
                               Known<uint32_t>& to) {
  Known<uint32_t> sum;
  for (const char* name :
       {"JOBSET_RESTART_ATTEMPT", "JOBSET_IN_PLACE_RESTART_ATTEMPT"}) {
    const auto count = FindNumber(environment, name, kNumberMax);
    if (!count.ok()) return count.status();
    if (!*count) continue;
    sum = {sum.value + **count,
           absl::StrCat(sum.from, sum.known() ? " and " : "",
                        From(name, absl::StrCat(**count)))};
  }
  to = sum;
  return absl::OkStatus();
}

// An Indexed Job, which may belong to a JobSet. A pod gets its index, but
// neither the number of pods nor an address. Its hostname is JOB-INDEX. With a
// headless service the hosts file contains the domain, and the launcher's name
// is derived from both.
Detected DetectKubernetes(const NodeEnvironment& environment) {
  // Users set this variable through the downward API, because in a JobSet of
  // several Jobs each Job repeats JOB_COMPLETION_INDEX. It counts Jobs, not
  // pods.
  const char* const kGlobal = "JOBSET_JOB_GLOBAL_INDEX";
  const bool several = Has(environment, kGlobal);
  const char* const rank = several ? kGlobal : "JOB_COMPLETION_INDEX";
  if (!Has(environment, rank)) return std::nullopt;
  Evidence evidence;
  evidence.platform = "kubernetes";
  absl::Status read = TakeVariables(environment, {.node_rank = rank}, evidence);
  read.Update(TakeJobSetAttempt(environment, evidence.attempt));
  if (!read.ok()) return read;
  const std::string pod = Value(environment, "JOB_COMPLETION_INDEX");
  if (several && !pod.empty() && pod != "0") {
    evidence.obstacle = absl::StrCat(
        From("JOB_COMPLETION_INDEX", pod), " beside ", evidence.node_rank.from,
        ": expected Jobs of one pod each, because ", kGlobal,
        " counts Jobs and not pods; leave it out if there is one Job, else "
        "give each pod its own ROLLCALL_NODE_RANK");
    return evidence;
  }
  const std::string& host = environment.hostname;
  const std::string index =
      absl::StrCat("-", several ? pod : Value(environment, rank));
  if (!absl::EndsWith(host, index)) return evidence;
  std::string job = host.substr(0, host.size() - index.size());
  if (several) {
    // The name is JOBSET-GROUP-JOBINDEX, and the first Job of the group is
    // GROUP-0. If JOBINDEX is not the global index, the launcher is in another
    // group, whose name is not known.
    const size_t end = job.rfind('-');
    if (end == std::string::npos ||
        job.substr(end + 1) != absl::StrCat(evidence.node_rank.value)) {
      return evidence;
    }
    job = job.substr(0, end);
  }
  evidence.job = {JobIdOf(job), absl::StrCat("the hostname ", host)};
  absl::string_view domain = environment.qualified_name;
  if (absl::ConsumePrefix(&domain, absl::StrCat(host, "."))) {
    evidence.launcher = {
        absl::StrCat(job, several ? "-0-0." : "-0.", domain),
        absl::StrCat("this pod's name ", environment.qualified_name)};
  }
  return evidence;
}

// Whether a list of task counts such as "1(x4)" or "2,1(x3)" gives each node
// one task.
bool OneTaskPerNode(absl::string_view tasks) {
  return tasks.empty() || tasks == "1" ||
         (absl::ConsumePrefix(&tasks, "1(x") && absl::EndsWith(tasks, ")") &&
          !absl::StrContains(tasks, ","));
}

Detected DetectSlurm(const NodeEnvironment& environment) {
  if (!Has(environment, "SLURM_JOB_ID")) return std::nullopt;
  Evidence evidence;
  evidence.platform = "slurm";
  const bool in_step = Has(environment, "SLURM_STEP_NODELIST");
  // SLURM_NODEID counts within the step.
  absl::Status read = TakeVariables(
      environment,
      {.node_rank = in_step ? "SLURM_NODEID" : nullptr,
       .nodes = in_step && Has(environment, "SLURM_STEP_NUM_NODES")
                    ? "SLURM_STEP_NUM_NODES"
                    : "SLURM_NNODES",
       .ranks = "SLURM_GPUS_ON_NODE",
       .attempt = "SLURM_RESTART_COUNT"},
      evidence);
  if (!read.ok()) return read;
  const std::string job = Value(environment, "SLURM_JOB_ID");
  evidence.job = {JobIdOf(absl::StrCat("slurm-", job)),
                  From("SLURM_JOB_ID", job)};
  if (!in_step) {
    if (evidence.nodes.known() && evidence.nodes.value != "1") {
      evidence.obstacle = absl::StrCat(
          "this is a Slurm job of ", evidence.nodes.value,
          " nodes, and Slurm starts a batch script on the first one alone; "
          "start one task on every node: `srun --ntasks-per-node=1 rollcall "
          "run ...`");
    } else {
      evidence.node_rank = {0, "a job of one node"};
    }
    return evidence;
  }
  const std::string list = Value(environment, "SLURM_STEP_NODELIST");
  const auto hosts = ExpandNodeList(list);
  if (!hosts.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("SLURM_STEP_NODELIST: ", hosts.status().message()));
  }
  evidence.launcher = {hosts->front(), From("SLURM_STEP_NODELIST", list)};
  if (!OneTaskPerNode(Value(environment, "SLURM_STEP_TASKS_PER_NODE"))) {
    evidence.obstacle = absl::StrCat(
        "Slurm has started several tasks per node (",
        From("SLURM_STEP_TASKS_PER_NODE",
             Value(environment, "SLURM_STEP_TASKS_PER_NODE")),
        "), and rollcall starts the ranks of a node itself; start one per "
        "node: `srun --ntasks-per-node=1 rollcall run --nproc-per-node N ...`");
  }
  return evidence;
}

// For platforms with one process per rank. The process has a node rank only if
// each node has one process.
Evidence PerProcess(std::string platform, Known<uint32_t> rank,
                    Known<std::string> size, bool one_per_node,
                    const char* how) {
  Evidence evidence;
  evidence.platform = std::move(platform);
  if (one_per_node) {
    evidence.node_rank = std::move(rank);
    evidence.nodes = std::move(size);
    return evidence;
  }
  evidence.obstacle = absl::StrCat(
      rank.from, " is one of several processes of this node, and rollcall ",
      "starts the ranks of a node itself; start one per node: `", how,
      " rollcall run --nproc-per-node N ...`");
  return evidence;
}

Detected DetectOpenMpi(const NodeEnvironment& environment) {
  if (!Has(environment, "OMPI_COMM_WORLD_RANK")) return std::nullopt;
  Evidence read;
  absl::Status good = TakeVariables(
      environment,
      {.node_rank = "OMPI_COMM_WORLD_RANK", .nodes = "OMPI_COMM_WORLD_SIZE"},
      read);
  if (!good.ok()) return good;
  const auto here =
      FindNumber(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", kNumberMax);
  if (!here.ok()) return here.status();
  return PerProcess("openmpi", read.node_rank, read.nodes,
                    here->value_or(1) == 1, "mpirun --map-by ppr:1:node");
}

// PMI does not give the number of processes on this node; MPICH and Intel MPI
// add the local rank.
Detected DetectPmi(const NodeEnvironment& environment) {
  if (!Has(environment, "PMI_RANK") ||
      Has(environment, "OMPI_COMM_WORLD_RANK") ||
      Has(environment, "SLURM_JOB_ID")) {
    return std::nullopt;
  }
  Evidence read;
  absl::Status good = TakeVariables(
      environment, {.node_rank = "PMI_RANK", .nodes = "PMI_SIZE"}, read);
  if (!good.ok()) return good;
  const auto here = FindNumber(environment, "MPI_LOCALNRANKS", kNumberMax);
  if (!here.ok()) return here.status();
  return PerProcess("pmi", read.node_rank, read.nodes, here->value_or(1) == 1,
                    "mpirun -ppn 1");
}

// The launcher of an MPIJob. Its workers run only sshd.
Detected DetectMpiJob(const NodeEnvironment& environment) {
  const char* const kHostfile = "OMPI_MCA_orte_default_hostfile";
  const std::string path = Value(environment, kHostfile);
  if (!absl::StartsWith(path, "/etc/mpi/") ||
      Has(environment, "OMPI_COMM_WORLD_RANK")) {
    return std::nullopt;
  }
  Evidence evidence;
  evidence.platform = "mpijob";
  evidence.obstacle = absl::StrCat(
      "this is the launcher of an MPIJob (", From(kHostfile, path),
      "), and its workers wait for ssh; start their agents from here: "
      "`rollcall launch --hostfile ",
      path, " -- CMD...`");
  return evidence;
}

// A process that is a rank of rollcall or of torchrun must not start an agent.
Detected DetectRank(const NodeEnvironment& environment) {
  Evidence evidence;
  if (Has(environment, "ROLLCALL_GENERATION")) {
    evidence.platform = "rollcall";
    evidence.obstacle = absl::StrCat(
        "this process is a rank of the rollcall job ",
        Value(environment, "ROLLCALL_JOB"),
        ", and ranks start no agents; run the program itself, without "
        "`rollcall run`");
    return evidence;
  }
  if (!Has(environment, "LOCAL_RANK") ||
      (!Has(environment, "GROUP_RANK") &&
       !Has(environment, "TORCHELASTIC_RUN_ID"))) {
    return std::nullopt;
  }
  evidence.platform = "torchrun";
  evidence.obstacle =
      "this process is a rank that torchrun has started, and rollcall starts "
      "ranks itself; use `rollcall run` in place of torchrun";
  return evidence;
}

}  // namespace

absl::StatusOr<std::vector<Evidence>> DetectAll(
    const NodeEnvironment& environment) {
  std::vector<Evidence> all;
  absl::Status failed;
  const auto add = [&](Detected found) {
    if (!found.ok()) {
      failed.Update(found.status());
    } else if (found->has_value()) {
      all.push_back(**std::move(found));
    }
  };
  add(DetectRank(environment));
  add(DetectOpenMpi(environment));
  add(DetectPmi(environment));
  add(DetectMpiJob(environment));
  for (const DetectorRow& row : DetectorRows())
    add(DetectRow(row, environment));
  add(DetectVessl(environment));
  add(DetectAwsBatch(environment));
  add(DetectLepton(environment));
  add(DetectKubernetes(environment));
  add(DetectSlurm(environment));
  if (!failed.ok()) return failed;
  return all;
}

absl::StatusOr<Evidence> OwnVariables(const NodeEnvironment& environment) {
  Evidence evidence;
  absl::Status read = TakeVariables(environment,
                                    {.node_rank = "ROLLCALL_NODE_RANK",
                                     .nodes = "ROLLCALL_NODES",
                                     .launcher = "ROLLCALL_LAUNCHER",
                                     .attempt = "ROLLCALL_ATTEMPT"},
                                    evidence);
  if (!read.ok()) return read;
  return evidence;
}

}  // namespace rollcall
