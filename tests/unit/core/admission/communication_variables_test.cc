#include "daemon/core/admission/communication_variables.h"

#include <gtest/gtest.h>

#include <string>

namespace rollcall {
namespace {

TEST(CommunicationVariables, ThePrefixAndTheGrammarDecide) {
  struct {
    std::string name;
    bool expect;
  } const kRows[] = {
      {"NCCL_ALGO", true},
      {"UCX_TLS", true},
      {"FI_PROVIDER", true},
      {"TORCH_NCCL_NAN_CHECK", true},
      {"GLOO_SOCKET_IFNAME", true},
      {"UCX_" + std::string(60, 'A'), true},
      {"UCX_" + std::string(61, 'A'), false},
      {"", false},
      {"NCCL", false},
      {"MY_NCCL_ALGO", false},
      {"TORCH_HOME", false},
      {"LD_PRELOAD", false},
      {"NCCL_A B", false},
      {"NCCL_A=B", false},
      {"NCCL_\xc3\xa4", false},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(IsCommunicationVariable(row.name), row.expect) << row.name;
  }
}

TEST(CommunicationVariables, WhatIsOfOneNodeIsNotShared) {
  struct {
    const char* name;
    bool expect;
  } const kRows[] = {
      {"NCCL_ALGO", true},
      {"NCCL_IB_DISABLE", true},
      {"NCCL_NET_PLUGIN", true},
      {"NCCL_OF_A_NEWER_VERSION", true},
      {"TORCH_NCCL_BLOCKING_WAIT", true},
      {"UCX_TLS", true},
      {"FI_PROVIDER", true},
      {"NCCL_HOSTID", false},
      {"NCCL_SOCKET_IFNAME", false},
      {"NCCL_IB_HCA", false},
      {"NCCL_TOPO_FILE", false},
      {"NCCL_GRAPH_FILE", false},
      {"NCCL_DEBUG", false},
      {"NCCL_VERSION", false},
      {"NCCL_INSPECTOR_DUMP_DIR", false},
      {"TORCH_NCCL_TRACE_BUFFER_SIZE", false},
      {"GLOO_SOCKET_IFNAME", false},
      {"UCX_NET_DEVICES", false},
      {"UCX_LOG_LEVEL", false},
      {"UCX_IB_LOG_LEVEL", false},
      {"FI_TCP_IFACE", false},
      {"FI_PROVIDER_PATH", false},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(IsSharedVariable(row.name), row.expect) << row.name;
  }
}

TEST(CommunicationVariables, SecretsAreFoundByNameAndByUrl) {
  struct {
    const char* name;
    const char* value;
    bool expect;
  } const kRows[] = {
      {"NCCL_ALGO", "Ring", false},
      {"NCCL_IB_PKEY", "3", false},
      {"NCCL_COMM_ID", "10.0.0.1:4000", false},
      {"NCCL_X_TOKEN", "a", true},
      {"FI_X_AUTH_KEY", "a", true},
      {"UCX_SECRET", "a", true},
      {"NCCL_X_PASSWORD", "a", true},
      {"NCCL_X_URL", "http://host:1/", false},
      {"NCCL_X_URL", "http://user:pass@host:1/", true},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(MayBeSecret(row.name, row.value), row.expect) << row.name;
  }
}

TEST(CommunicationVariables, DeadAndMisspeltNamesAreNamed) {
  struct {
    const char* name;
    // A part of the remedy; empty: no fault.
    const char* mend;
  } const kRows[] = {
      {"NCCL_ALGO", ""},
      {"NCCL_IB_TIMEOUT", ""},
      {"NCCL_THREAD_THRESHOLDS", ""},  // NCCL 2.30 still reads it.
      {"NCCL_MAX_NRINGS", ""},         // An alias that still works.
      {"TORCH_NCCL_BLOCKING_WAIT", ""},
      {"NCCL_TIMEOUT", "init_process_group"},
      {"NCCL_ASYNC_ERROR_HANDLING", "Use TORCH_NCCL_ASYNC_ERROR_HANDLING,"},
      {"NCCL_BLOCKING_WAIT", "Use TORCH_NCCL_BLOCKING_WAIT,"},
      {"NCCL_DESYNC_DEBUG", "Use TORCH_NCCL_DESYNC_DEBUG,"},
      {"NCCL_IB_CUDA_SUPPORT", "Use NCCL_NET_GDR_LEVEL,"},
      {"NCCL_LL_THRESHOLD", "Use NCCL_PROTO,"},
      {"NCCL_THREAD_THRESHOLD", "Use NCCL_THREAD_THRESHOLDS,"},
      // One or two letters wrong, missing or too many.
      {"NCCL_SOCKET_IFNAM", "Did you mean NCCL_SOCKET_IFNAME?"},
      {"NCCL_SOKCET_IFNAME", "Did you mean NCCL_SOCKET_IFNAME?"},
      {"NCCL_IB_HCAS", "Did you mean NCCL_IB_HCA?"},
      {"NCCL_P2P_DISABLED", "Did you mean NCCL_P2P_DISABLE?"},
      {"NCCL_DEBUGS", "Did you mean NCCL_DEBUG?"},
      {"TORCH_NCCL_BLOCKING_WAITS", "Did you mean TORCH_NCCL_BLOCKING_WAIT?"},
      {"GLOO_SOCKET_IFNAMES", "Did you mean GLOO_SOCKET_IFNAME?"},
      // Three.
      {"NCCL_SOCKET_IFN", ""},
      // Short names must be nearer.
      {"NCCL_ALGOS", "Did you mean NCCL_ALGO?"},
      {"NCCL_ALXX", ""},
      // Of a plugin or a newer version, or of a library that is not listed.
      {"NCCL_FASTRAK_CTRL_DEV", ""},
      {"UCX_TSL", ""},
      {"FI_PROVIDR", ""},
      {"HOME", ""},
  };
  for (const auto& row : kRows) {
    const auto fault = FindVariableFault(row.name);
    EXPECT_EQ(fault.has_value(), row.mend[0] != '\0') << row.name;
    if (!fault.has_value()) continue;
    EXPECT_FALSE(fault->found.empty());
    EXPECT_NE(fault->mend.find(row.mend), std::string::npos) << fault->mend;
  }
}

}  // namespace
}  // namespace rollcall
