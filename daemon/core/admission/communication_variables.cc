#include "daemon/core/admission/communication_variables.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr std::string_view kPrefixes[] = {"NCCL_", "UCX_", "FI_", "TORCH_NCCL_",
                                          "GLOO_"};

// The names of NCCL are those that its source reads in the releases 2.18 to
// 2.30 (NCCL_PARAM, DEFINE_NCCL_PARAM and ncclGetEnv); those of PyTorch are in
// ProcessGroupNCCL.hpp and NCCLUtils.hpp of 2.1 to 2.15, those of Gloo in
// PyTorch 2.15. Both lists are sorted.
//
// All nodes should have the same value.
constexpr std::string_view kShared[] = {
    "GLOO_DEVICE_TRANSPORT",
    "GLOO_DISABLE_CONNECTION_RETRIES",
    "GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER",
    "GLOO_ENABLE_STORE_V2_API",
    "NCCL_AGG_CHANNEL_SIZE",
    "NCCL_ALGO",
    "NCCL_ALLGATHERV_ENABLE",
    "NCCL_ALLOC_P2P_NET_LL_BUFFERS",
    "NCCL_BUFFSIZE",
    "NCCL_CGA_CLUSTER_SIZE",
    "NCCL_CHECK_MODE",
    "NCCL_CHECK_POINTERS",
    "NCCL_CHUNK_SIZE",
    "NCCL_COLLNET_ENABLE",
    "NCCL_COLLNET_NODE_THRESHOLD",
    "NCCL_COMM_BLOCKING",
    "NCCL_COMM_ID",
    "NCCL_COMM_SHRINK_SHARE_RESOURCES",
    "NCCL_COMM_SPLIT_SHARE_RESOURCES",
    "NCCL_CONNECT_ROUND_MAX_PEERS",
    "NCCL_CREATE_THREAD_CONTEXT",
    "NCCL_CROSS_NIC",
    "NCCL_CTA_POLICY",
    "NCCL_CUMEM_ENABLE",
    "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_DEV_API_JIT",
    "NCCL_DISABLE_MEM_MANAGER",
    "NCCL_DMABUF_ENABLE",
    "NCCL_ELASTIC_BUFFER_REGISTER",
    "NCCL_ENABLE_VERSION_CHECK",
    "NCCL_ENV_PLUGIN",
    "NCCL_GDAKI_USE_RELIABLE_DB",
    "NCCL_GDRCOPY_ENABLE",
    "NCCL_GDRCOPY_FIFO_ENABLE",
    "NCCL_GDRCOPY_FLUSH_ENABLE",
    "NCCL_GDRCOPY_SYNC_ENABLE",
    "NCCL_GDR_FLUSH_DISABLE",
    "NCCL_GIN_CONNECTION_RAIL",
    "NCCL_GIN_COUNTER_POOL_SIZE",
    "NCCL_GIN_ENABLE",
    "NCCL_GIN_ERROR_QUERY_SEC",
    "NCCL_GIN_EXCLUSIVE_CONTEXTS",
    "NCCL_GIN_GDAKI_MAX_DEST_RD_ATOMIC",
    "NCCL_GIN_GDAKI_MAX_QP_RD_ATOMIC",
    "NCCL_GIN_GDAKI_NIC_HANDLER",
    "NCCL_GIN_GDAKI_QP_DEPTH",
    "NCCL_GIN_IB_TC",
    "NCCL_GIN_NCONNECTIONS",
    "NCCL_GIN_NCONTEXTS",
    "NCCL_GIN_PLUGIN",
    "NCCL_GIN_PLUGIN_REF_COUNT",
    "NCCL_GIN_PROXY_QUEUE_SIZE",
    "NCCL_GIN_SIGNAL_POOL_SIZE",
    "NCCL_GIN_TYPE",
    "NCCL_GRAPH_HELPER_DISABLE",
    "NCCL_GRAPH_MIXING_SUPPORT",
    "NCCL_GRAPH_REGISTER",
    "NCCL_GRAPH_STREAM_ORDERING",
    "NCCL_GROUP_CUDA_STREAM",
    "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_ADDR_FAMILY",
    "NCCL_IB_ADDR_RANGE",
    "NCCL_IB_AR_THRESHOLD",
    "NCCL_IB_DATA_DIRECT",
    "NCCL_IB_DISABLE",
    "NCCL_IB_ECE_ENABLE",
    "NCCL_IB_FIFO_TC",
    "NCCL_IB_MERGE_NICS",
    "NCCL_IB_MERGE_VFS",
    "NCCL_IB_MQP_RETRY_ALL",
    "NCCL_IB_MQP_RETRY_CNT",
    "NCCL_IB_MQP_RETRY_SLEEP_MSEC",
    "NCCL_IB_OOO_RQ",
    "NCCL_IB_PCI_RELAXED_ORDERING",
    "NCCL_IB_PKEY",
    "NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_QUERY_PORT_SPEED",
    "NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME",
    "NCCL_IB_RESILIENCY_PORT_FAILOVER",
    "NCCL_IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS",
    "NCCL_IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY",
    "NCCL_IB_RETRY_CNT",
    "NCCL_IB_RETURN_ASYNC_EVENTS",
    "NCCL_IB_ROCE_VERSION_NUM",
    "NCCL_IB_SL",
    "NCCL_IB_SPLIT_DATA_ON_QPS",
    "NCCL_IB_SUBNET_AWARE_ROUTING",
    "NCCL_IB_SUBNET_PREFIX_LEN",
    "NCCL_IB_TC",
    "NCCL_IB_TIMEOUT",
    "NCCL_IB_USE_INLINE",
    "NCCL_IGNORE_COLLNET_MISMATCH",
    "NCCL_IGNORE_DISABLED_P2P",
    "NCCL_IGNORE_NET_MISMATCH",
    "NCCL_IPC_USE_ABSTRACT_SOCKET",
    "NCCL_L1_SHARED_MEMORY_CARVEOUT",
    "NCCL_LAUNCH_MODE",
    "NCCL_LAUNCH_ORDER_IMPLICIT",
    "NCCL_LAUNCH_RACE_FATAL",
    "NCCL_LEGACY_CUDA_REGISTER",
    "NCCL_LL128_BUFFSIZE",
    "NCCL_LL128_C2C",
    "NCCL_LL128_NTHREADS",
    "NCCL_LL_BUFFSIZE",
    "NCCL_LOCAL_REGISTER",
    "NCCL_LSA_TEAM_SIZE",
    "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_NRINGS",
    "NCCL_MAX_P2P_NCHANNELS",
    "NCCL_MEM_SYNC_DOMAIN",
    "NCCL_MIN_CTAS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MIN_NRINGS",
    "NCCL_MIN_P2P_NCHANNELS",
    "NCCL_MLOPART_RDMA_ENABLE",
    "NCCL_MNNVL_CROSS_CLIQUE",
    "NCCL_MNNVL_ENABLE",
    "NCCL_MNNVL_RAIL_PER_HOST",
    "NCCL_MNNVL_SCATTER_NETS_ENABLE",
    "NCCL_MULTI_RANK_GPU_ENABLE",
    "NCCL_MULTI_SEGMENT_REGISTER",
    "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_NET",
    "NCCL_NETDEVS_POLICY",
    "NCCL_NET_DISABLE_INTRA",
    "NCCL_NET_FORCE_FLUSH",
    "NCCL_NET_FORCE_MERGE",
    "NCCL_NET_GDR_C2C",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_MLOPART",
    "NCCL_NET_GDR_READ",
    "NCCL_NET_MERGE_LEVEL",
    "NCCL_NET_MERGE_POLICY",
    "NCCL_NET_OPTIONAL_RECV_COMPLETION",
    "NCCL_NET_OVERHEAD",
    "NCCL_NET_PLUGIN",
    "NCCL_NET_PLUGIN_REF_COUNT",
    "NCCL_NET_SHARED_BUFFERS",
    "NCCL_NET_SHARED_COMMS",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_NTHREADS",
    "NCCL_NUM_RMA_CTX",
    "NCCL_NVB_DISABLE",
    "NCCL_NVB_PRECONNECT",
    "NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE",
    "NCCL_NVLSTREE_MAX_CHUNKSIZE",
    "NCCL_NVLS_CHUNKSIZE",
    "NCCL_NVLS_ENABLE",
    "NCCL_NVLS_NCHANNELS",
    "NCCL_OOB_NET_ENABLE",
    "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_EPOCH_ENABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_P2P_LL_THRESHOLD",
    "NCCL_P2P_MAX_PEERS",
    "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_P2P_NVL_CHUNKSIZE",
    "NCCL_P2P_PCI_CHUNKSIZE",
    "NCCL_P2P_PER_CHANNEL_NET_BW",
    "NCCL_P2P_PXN_LEVEL",
    "NCCL_P2P_READ_ENABLE",
    "NCCL_P2P_SCHEDULE_GROUP_SIZE",
    "NCCL_P2P_USE_CUDA_MEMCPY",
    "NCCL_PAT_ENABLE",
    "NCCL_PROGRESS_APPENDOP_FREQ",
    "NCCL_PROTO",
    "NCCL_PROXY_APPEND_BATCH_SIZE",
    "NCCL_PXN_C2C",
    "NCCL_PXN_DISABLE",
    "NCCL_RAS_ENABLE",
    "NCCL_RAS_TIMEOUT_FACTOR",
    "NCCL_RMA_DISABLE",
    "NCCL_RMA_PLUGIN",
    "NCCL_RMA_PLUGIN_REF_COUNT",
    "NCCL_RMA_PROXY_QUEUE_SIZE",
    "NCCL_RUNTIME_CONNECT",
    "NCCL_SET_CPU_STACK_SIZE",
    "NCCL_SET_STACK_SIZE",
    "NCCL_SHADOW_MEMPOOL_MAX_SIZE",
    "NCCL_SHM_DISABLE",
    "NCCL_SHM_LOCALITY",
    "NCCL_SHM_MEMCPY_MODE",
    "NCCL_SHM_USE_CUDA_MEMCPY",
    "NCCL_SINGLE_PROC_MEM_REG_ENABLE",
    "NCCL_SOCKET_FAMILY",
    "NCCL_SOCKET_INLINE",
    "NCCL_SOCKET_MAGIC",
    "NCCL_SOCKET_MIN_TASKSIZE",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_SOCKET_POLL_TIMEOUT_MSEC",
    "NCCL_SOCKET_RCVBUF",
    "NCCL_SOCKET_RETRY_CNT",
    "NCCL_SOCKET_RETRY_SLEEP_MSEC",
    "NCCL_SOCKET_SNDBUF",
    "NCCL_SYM_CE_THRESHOLD",
    "NCCL_SYM_CTAS",
    "NCCL_SYM_GIN_KERNELS_ENABLE",
    "NCCL_SYM_KERNEL",
    "NCCL_SYM_NOWIN_ENABLE",
    "NCCL_SYM_REUSE_SYSMEM_HANDLES",
    "NCCL_SYM_RS_GIN_CHUNK_SIZE",
    "NCCL_SYM_TMA_ENABLE",
    "NCCL_THREAD_THRESHOLDS",
    "NCCL_TOPO_SPLIT_MLOPART",
    "NCCL_TUNER_CONFIG_FILE",
    "NCCL_TUNER_PLUGIN",
    "NCCL_UID_STAGGER_RATE",
    "NCCL_UID_STAGGER_THRESHOLD",
    "NCCL_UNPACK_DOUBLE_NCHANNELS",
    "NCCL_WIN_ENABLE",
    "NCCL_WIN_STRIDE",
    "NCCL_WORK_ARGS_BYTES",
    "NCCL_WORK_FIFO_BYTES",
    "NCCL_WORK_FIFO_DEPTH",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "TORCH_NCCL_AVOID_RECORD_STREAMS",
    "TORCH_NCCL_BCAST_UNIQUEID",
    "TORCH_NCCL_BLOCKING_WAIT",
    "TORCH_NCCL_COORD_CHECK_MILSEC",
    "TORCH_NCCL_CUDA_EVENT_CACHE",
    "TORCH_NCCL_DESYNC_DEBUG",
    "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_NCCL_ENABLE_MONITORING",
    "TORCH_NCCL_ENABLE_TIMING",
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
    "TORCH_NCCL_HIGH_PRIORITY",
    "TORCH_NCCL_NAN_CHECK",
    "TORCH_NCCL_NONBLOCKING_TIMEOUT",
    "TORCH_NCCL_PROPAGATE_ERROR",
    "TORCH_NCCL_RANKS_PER_ROOT",
    "TORCH_NCCL_RETHROW_CUDA_ERRORS",
    "TORCH_NCCL_TEARDOWN_ON_TIMEOUT",
    "TORCH_NCCL_USE_COMM_NONBLOCKING",
    "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"};

// Known, but nodes may differ: their own devices, addresses and files, what is
// logged, and what only builds and images read. UCX and libfabric: only those
// of their many names that IsSharedVariable does not find by their ends.
constexpr std::string_view kOwn[] = {
    "FI_LOG_LEVEL",
    "FI_LOG_PROV",
    "FI_LOG_SUBSYS",
    "FI_PROVIDER_PATH",
    "GLOO_LOG_LEVEL",
    "GLOO_SOCKET_IFNAME",
    "NCCL_CONF_FILE",
    "NCCL_CUDA_PATH",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_TIMESTAMP_FORMAT",
    "NCCL_DEBUG_TIMESTAMP_LEVELS",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_DUMP_FILE_RANK",
    "NCCL_GRAPH_FILE",
    "NCCL_HOME",
    "NCCL_HOSTID",
    "NCCL_IBVERBS_LIB",
    "NCCL_IB_DEVICE_PCI_ORDER",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_HCA",
    "NCCL_IB_ROUTABLE_FLID_GID_INDEX",
    "NCCL_IB_WARN_RAIL_LOCAL",
    "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_INCLUDE_DIR",
    "NCCL_LIB_DIR",
    "NCCL_MNNVL_CLIQUE_ID",
    "NCCL_MNNVL_UUID",
    "NCCL_NO_CACHE",
    "NCCL_NVTX_DISABLE",
    "NCCL_OOB_NET_IFNAME",
    "NCCL_PARAM_DUMP_ALL",
    "NCCL_PROFILER_PLUGIN",
    "NCCL_PROXY_CPUSET",
    "NCCL_PROXY_DUMP_SIGNAL",
    "NCCL_PROXY_PROFILE",
    "NCCL_RAS_ADDR",
    "NCCL_REPORT_CONNECT_PROGRESS",
    "NCCL_RMA_PROXY_DUMP_SIGNAL",
    "NCCL_ROOT",
    "NCCL_ROOT_DIR",
    "NCCL_SET_THREAD_NAME",
    "NCCL_SOCKET_IFNAME",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_TOPO_DUMP_FILE_RANK",
    "NCCL_TOPO_FILE",
    "NCCL_VERSION",
    "NCCL_WARN_ENABLE_DEBUG_INFO",
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
    "TORCH_NCCL_EXTRA_DUMP_ON_EXEC",
    "TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN",
    "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING",
    "TORCH_NCCL_TRACE_BUFFER_SIZE",
    "TORCH_NCCL_TRACE_CPP_STACK",
    "UCX_NET_DEVICES"};

struct Dead {
  std::string_view name;
  std::string_view found;
  // A variable's name, or a sentence.
  std::string_view mend;
};

constexpr char kRenamedByTorch[] =
    "is not a variable of NCCL; PyTorch has renamed it since 2.2";

// NCCL's user guide, "Environment Variables", says when a variable was removed;
// for the others, the first release whose source does not read it.
constexpr Dead kDead[] = {
    {"NCCL_ASYNC_ERROR_HANDLING", kRenamedByTorch,
     "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
    {"NCCL_BLOCKING_WAIT", kRenamedByTorch, "TORCH_NCCL_BLOCKING_WAIT"},
    {"NCCL_CHECKS_DISABLE", "has had no effect since NCCL 2.2.12",
     "NCCL_CHECK_POINTERS"},
    {"NCCL_DESYNC_DEBUG", kRenamedByTorch, "TORCH_NCCL_DESYNC_DEBUG"},
    {"NCCL_ENABLE_TIMING", kRenamedByTorch, "TORCH_NCCL_ENABLE_TIMING"},
    {"NCCL_GRAPH", "has had no effect since NCCL 2.6", "NCCL_GRAPH_FILE"},
    {"NCCL_IB_CUDA_SUPPORT", "has had no effect since NCCL 2.4",
     "NCCL_NET_GDR_LEVEL"},
    {"NCCL_IB_GDR_LEVEL", "has had no effect since NCCL 2.4",
     "NCCL_NET_GDR_LEVEL"},
    {"NCCL_LL_THRESHOLD", "has had no effect since NCCL 2.5", "NCCL_PROTO"},
    {"NCCL_RINGS", "has had no effect since NCCL 2.5", "NCCL_GRAPH_FILE"},
    {"NCCL_SINGLE_RING_THRESHOLD", "has had no effect since NCCL 2.3",
     "NCCL_MIN_NCHANNELS"},
    {"NCCL_THREAD_THRESHOLD", "has had no effect since NCCL 2.5",
     "NCCL_THREAD_THRESHOLDS"},
    {"NCCL_TIMEOUT", "is not a variable of NCCL",
     "Give init_process_group a timeout; NCCL_IB_TIMEOUT is the one of "
     "InfiniBand."},
    {"NCCL_TREE_THRESHOLD", "has had no effect since NCCL 2.5", "NCCL_ALGO"},
    {"NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", kRenamedByTorch,
     "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"},
};

// Names of which these are parts are taken for secrets.
constexpr std::string_view kSecretParts[] = {"AUTH",   "CREDENTIAL", "PASSW",
                                             "SECRET", "TOKEN",      "_KEY"};

template <size_t kCount>
constexpr bool IsSorted(const std::string_view (&names)[kCount]) {
  return std::is_sorted(std::begin(names), std::end(names));
}
static_assert(IsSorted(kShared) && IsSorted(kOwn));

template <size_t kCount>
bool SortedContains(const std::string_view (&names)[kCount],
                    std::string_view name) {
  return std::binary_search(std::begin(names), std::end(names), name);
}

bool HasPrefix(std::string_view name, std::string_view prefix) {
  return name.substr(0, prefix.size()) == prefix;
}

bool HasEnd(std::string_view name, std::string_view end) {
  return name.size() >= end.size() &&
         name.substr(name.size() - end.size()) == end;
}

// The edit distance (Levenshtein's) of two names, as far as it is at most
// `most`; otherwise any larger number.
size_t EditDistance(std::string_view a, std::string_view b, size_t most) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > most) {
    return most + 1;
  }
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// The known name that is nearest to this one, at an edit distance of at most 2
// (1 if the name without its prefix is short); empty: none.
std::string_view NearestName(std::string_view name, size_t prefix) {
  constexpr size_t kShort = 5;
  size_t most = name.size() - prefix <= kShort ? 1 : 2;
  std::string_view nearest;
  const auto look = [&](std::string_view known) {
    const size_t distance = EditDistance(name, known, most);
    if (distance > most || (distance == most && !nearest.empty())) return;
    nearest = known;
    most = distance;
  };
  for (const std::string_view known : kShared) look(known);
  for (const std::string_view known : kOwn) look(known);
  return nearest;
}

}  // namespace

bool IsCommunicationVariable(std::string_view name) {
  const bool ours = std::any_of(
      std::begin(kPrefixes), std::end(kPrefixes),
      [&](std::string_view prefix) { return HasPrefix(name, prefix); });
  return ours && name.size() <= Limits::variable_name_bytes_max &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_';
         });
}

bool IsSharedVariable(std::string_view name) {
  if (SortedContains(kOwn, name)) return false;
  if (HasPrefix(name, "NCCL_INSPECTOR_") || HasPrefix(name, "NCCL_PROFILE")) {
    return false;
  }
  if (HasPrefix(name, "GLOO_DEVICE_TRANSPORT_TCP_TLS_")) return false;
  const bool listed = HasPrefix(name, "UCX_") || HasPrefix(name, "FI_");
  if (!listed) return true;
  return !(HasEnd(name, "_IFACE") || HasEnd(name, "_DEVICES") ||
           HasEnd(name, "_LOG_LEVEL") || HasEnd(name, "_FILE") ||
           HasEnd(name, "_HOME") || HasEnd(name, "_DIR") ||
           HasEnd(name, "_VERSION") || HasPrefix(name, "UCX_LOG_") ||
           HasPrefix(name, "UCX_STATS_"));
}

bool MayBeSecret(std::string_view name, std::string_view value) {
  const bool named =
      std::any_of(std::begin(kSecretParts), std::end(kSecretParts),
                  [&](std::string_view part) {
                    return name.find(part) != std::string_view::npos;
                  });
  // A URL with a user and a password.
  const size_t at = value.find("://");
  return named || (at != std::string_view::npos &&
                   value.find('@', at) != std::string_view::npos);
}

std::optional<VariableFault> FindVariableFault(std::string_view name) {
  for (const Dead& dead : kDead) {
    if (dead.name != name) continue;
    const bool sentence = dead.mend.back() == '.';
    return VariableFault{std::string(dead.found),
                         sentence ? std::string(dead.mend)
                                  : absl::StrCat("Use ", std::string(dead.mend),
                                                 ", or unset it.")};
  }
  if (SortedContains(kShared, name) || SortedContains(kOwn, name)) {
    return std::nullopt;
  }
  for (const std::string_view prefix :
       {std::string_view("NCCL_"), std::string_view("TORCH_NCCL_"),
        std::string_view("GLOO_")}) {
    if (!HasPrefix(name, prefix)) continue;
    const std::string_view nearest = NearestName(name, prefix.size());
    if (nearest.empty()) return std::nullopt;
    return VariableFault{
        "is not a known variable, and may be misspelt",
        absl::StrCat("Did you mean ", std::string(nearest), "?")};
  }
  return std::nullopt;
}

}  // namespace rollcall
