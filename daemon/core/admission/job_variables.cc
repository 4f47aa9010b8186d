#include "daemon/core/admission/job_variables.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "daemon/core/admission/communication_variables.h"
#include "daemon/core/admission/message_parts.h"

namespace rollcall {
namespace {

// Besides communication variables.
constexpr std::string_view kAllowed[] = {
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OPENBLAS_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_CPP_LOG_LEVEL",
    "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_FR_BUFFER_SIZE",
    "TORCH_GLOO_LAZY_INIT",
    "TORCH_SHOW_CPP_STACKTRACES",
};

// A communication variable whose name has one of these words loads code, runs a
// program, or names a file: NCCL_NET_PLUGIN, NCCL_IBVERBS_LIB, NCCL_DEBUG_FILE,
// UCX_MODULE_DIR, UCX_GDB_COMMAND, UCX_ERROR_MAIL_TO, FI_PROVIDER_PATH.
constexpr std::string_view kRefusedWords[] = {
    "BASEPATH",  "CERT",   "CMD",     "COMMAND", "CONFIG", "DEST", "DIR",
    "DIRECTORY", "DIRS",   "FILE",    "GDB",     "HOME",   "LIB",  "LIBRARY",
    "LIBS",      "MAIL",   "MODULE",  "MODULES", "PATH",   "PKEY", "PLUGIN",
    "PLUGINS",   "PREFIX", "PRELOAD", "SCRIPT"};
// NCCL_IB_PKEY is a partition of an InfiniBand fabric, not a private key.
constexpr std::string_view kNoFile = "NCCL_IB_PKEY";

// These must differ between nodes, or are rollcall's own choice.
// UCX_HANDLE_ERRORS can run a debugger.
constexpr std::string_view kRefusedNames[] = {
    "NCCL_COMM_ID", "NCCL_HOSTID", "NCCL_RAS_ADDR", "UCX_HANDLE_ERRORS"};

template <size_t kCount>
bool IsAmong(const std::string_view (&all)[kCount], std::string_view one) {
  return std::find(std::begin(all), std::end(all), one) != std::end(all);
}

absl::Status RefuseName(std::string_view name, const char* why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "--env ",
      absl::string_view(name.data(),
                        std::min(name.size(), Limits::variable_name_bytes_max)),
      ": ", why));
}

}  // namespace

absl::Status AdmitJobVariableName(std::string_view name) {
  for (const unsigned char c : name) {
    if (!absl::ascii_isalnum(c) && c != '_') {
      return Unfit("--env", "a name of [A-Za-z0-9_]", name);
    }
  }
  if (IsAmong(kAllowed, name) || name == kNoFile) return absl::OkStatus();
  if (!IsCommunicationVariable(name)) {
    return RefuseName(
        name,
        "expected NCCL_*, UCX_*, FI_*, TORCH_NCCL_*, GLOO_*, OMP_NUM_THREADS "
        "or another of the few names in client/README.md, because a launcher "
        "cannot set what other nodes run; set it on each node");
  }
  if (IsAmong(kRefusedNames, name)) {
    return RefuseName(name,
                      "expected a setting that all nodes have in common and "
                      "that runs nothing; set it on the nodes that need it");
  }
  const absl::string_view text(name.data(), name.size());
  for (const absl::string_view word : absl::StrSplit(text, '_')) {
    const std::string upper = absl::AsciiStrToUpper(word);
    if (!IsAmong(kRefusedWords, upper)) continue;
    return RefuseName(name,
                      "expected a setting that loads no code and names no file "
                      "or program; set it on each node");
  }
  return absl::OkStatus();
}

absl::Status AdmitJobVariable(const v1::JobVariable& variable) {
  RETURN_IF_REFUSED(AdmitJobVariableName(variable.name()));
  const std::string field = absl::StrCat("--env ", variable.name());
  RETURN_IF_REFUSED(AdmitPlainText(field.c_str(), variable.value(),
                                   Limits::job_variable_bytes_max));
  // Also a name that this list does not know may be that of a file.
  if (!variable.value().empty() &&
      variable.value().find('/') == std::string::npos) {
    return absl::OkStatus();
  }
  return Unfit(field.c_str(), "a value without a /", variable.value());
}

absl::Status AdmitJobVariables(const v1::JobSettings& settings) {
  RETURN_IF_REFUSED(AdmitCount("--env", settings.environment_size(),
                               Limits::job_variables_max));
  std::string_view before;
  for (const v1::JobVariable& variable : settings.environment()) {
    RETURN_IF_REFUSED(AdmitJobVariable(variable));
    if (variable.name() <= before) {
      return Unfit("--env", "each name once, sorted", variable.name());
    }
    before = variable.name();
  }
  return absl::OkStatus();
}

void SetJobVariable(const v1::JobVariable& variable, v1::JobSettings& to) {
  auto& all = *to.mutable_environment();
  for (v1::JobVariable& each : all) {
    if (each.name() != variable.name()) continue;
    each = variable;
    return;
  }
  *all.Add() = variable;
  std::sort(all.begin(), all.end(),
            [](const v1::JobVariable& a, const v1::JobVariable& b) {
              return a.name() < b.name();
            });
}

}  // namespace rollcall
