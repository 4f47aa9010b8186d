#include "daemon/core/admission/job_variables.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

v1::JobVariable Variable(const std::string& name, const std::string& value) {
  v1::JobVariable variable;
  variable.set_name(name);
  variable.set_value(value);
  return variable;
}

TEST(JobVariables, NoNameLoadsCodeOrNamesAFile) {
  struct {
    const char* name;
    bool fits;
  } const kRows[] = {
      {"NCCL_ALGO", true},
      {"NCCL_IB_DISABLE", true},
      {"NCCL_SOCKET_IFNAME", true},
      {"NCCL_OF_A_NEWER_VERSION", true},
      {"UCX_TLS", true},
      {"UCX_IB_NUM_PATHS", true},
      {"FI_PROVIDER", true},
      {"GLOO_SOCKET_IFNAME", true},
      {"TORCH_NCCL_BLOCKING_WAIT", true},
      {"TORCH_NCCL_RANKS_PER_ROOT", true},
      {"OMP_NUM_THREADS", true},
      {"PYTORCH_ALLOC_CONF", true},
      {"NCCL_IB_PKEY", true},
      {"GLOO_DEVICE_TRANSPORT_TCP_TLS_PKEY", false},
      {"GLOO_DEVICE_TRANSPORT_TCP_TLS_CERT", false},
      {"FI_OFI_HOOK_MONITOR_BASEPATH", false},
      {"NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY", false},
      {"NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX", false},
      {"UCX_HANDLE_ERRORS", false},
      {"", false},
      {"=", false},
      {"NCCL_A=B", false},
      {"NCCL_A B", false},
      {"NCCL", false},
      {"LD_PRELOAD", false},
      {"LD_LIBRARY_PATH", false},
      {"LD_AUDIT", false},
      {"GCONV_PATH", false},
      {"PATH", false},
      {"HOME", false},
      {"BASH_ENV", false},
      {"PYTHONPATH", false},
      {"PYTHONSTARTUP", false},
      {"TORCH_HOME", false},
      {"TORCHINDUCTOR_CACHE_DIR", false},
      {"ROLLCALL_SECRET", false},
      {"RANK", false},
      {"CUDA_VISIBLE_DEVICES", false},
      {"CUDA_INJECTION64_PATH", false},
      {"OMP_TOOL_LIBRARIES", false},
      {"NCCL_NET_PLUGIN", false},
      {"NCCL_TUNER_PLUGIN", false},
      {"NCCL_PROFILER_PLUGIN", false},
      {"NCCL_ENV_PLUGIN", false},
      {"NCCL_OF_A_NEWER_VERSION_PLUGIN", false},
      {"NCCL_net_plugin", false},
      {"NCCL_TUNER_CONFIG_FILE", false},
      {"NCCL_CONF_FILE", false},
      {"NCCL_TOPO_FILE", false},
      {"NCCL_TOPO_DUMP_FILE", false},
      {"NCCL_DEBUG_FILE", false},
      {"NCCL_IBVERBS_LIB", false},
      {"NCCL_CUDA_PATH", false},
      {"NCCL_HOSTID", false},
      {"NCCL_COMM_ID", false},
      {"NCCL_RAS_ADDR", false},
      {"UCX_MODULE_DIR", false},
      {"UCX_MODULES", false},
      {"UCX_CONFIG_DIR", false},
      {"UCX_GDB_COMMAND", false},
      {"UCX_ERROR_MAIL_TO", false},
      {"UCX_LOG_FILE", false},
      {"UCX_STATS_DEST", false},
      {"FI_PROVIDER_PATH", false},
      {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", false},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(AdmitJobVariableName(row.name).ok(), row.fits) << row.name;
    EXPECT_EQ(AdmitJobVariable(Variable(row.name, "1")).ok(), row.fits)
        << row.name;
  }
}

TEST(JobVariables, ValuesArePrintableAndBounded) {
  struct {
    std::string value;
    bool fits;
  } const kRows[] = {
      {"Ring", true},
      {"a b=c", true},
      {std::string(512, 'v'), true},
      {"", false},
      {"/etc/passwd", false},
      {"x/y", false},
      {std::string(513, 'v'), false},
      {"a\nb", false},
      {std::string("a\0b", 3), false},
      {"\xc3\xa4", false},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(AdmitJobVariable(Variable("NCCL_ALGO", row.value)).ok(), row.fits)
        << row.value;
  }
}

TEST(JobVariables, AJobHasEachOnceInOrder) {
  v1::JobSettings settings;
  SetJobVariable(Variable("UCX_TLS", "rc"), settings);
  SetJobVariable(Variable("NCCL_ALGO", "Ring"), settings);
  SetJobVariable(Variable("UCX_TLS", "tcp"), settings);
  ASSERT_EQ(settings.environment_size(), 2);
  EXPECT_EQ(settings.environment(0).name(), "NCCL_ALGO");
  EXPECT_EQ(settings.environment(1).value(), "tcp");
  EXPECT_TRUE(AdmitSettings(settings).ok());
  v1::JobSettings twice = settings;
  *twice.add_environment() = Variable("UCX_TLS", "rc");
  EXPECT_FALSE(AdmitSettings(twice).ok());
  v1::JobSettings unsorted = settings;
  *unsorted.add_environment() = Variable("NCCL_PROTO", "LL");
  EXPECT_FALSE(AdmitSettings(unsorted).ok());
  v1::JobSettings code = settings;
  *code.add_environment() = Variable("UCX_TLS_LIB", "/tmp/x.so");
  EXPECT_FALSE(AdmitSettings(code).ok());
  v1::JobSettings many;
  for (int i = 10; i < 74; ++i) {
    SetJobVariable(Variable(absl::StrCat("NCCL_", i), "1"), many);
  }
  EXPECT_TRUE(AdmitSettings(many).ok());
  SetJobVariable(Variable("NCCL_74", "1"), many);
  EXPECT_FALSE(AdmitSettings(many).ok());
}

}  // namespace
}  // namespace rollcall
