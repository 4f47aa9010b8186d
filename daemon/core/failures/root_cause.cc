#include "daemon/core/failures/root_cause.h"

#include <csignal>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "daemon/core/exit_codes.h"
#include "daemon/core/status_words.h"

namespace rollcall {
namespace {

bool SaysAnyOf(const v1::RankExited& exited,
               std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (exited.stderr_tail().find(word) != std::string::npos ||
        exited.error_file().find(word) != std::string::npos) {
      return true;
    }
  }
  return false;
}

bool SaysGpuError(const v1::RankExited& exited) {
  return SaysAnyOf(
      exited, {"CUDA error", "cudaError", "CUDA_ERROR_", "uncorrectable ECC",
               "NVRM: Xid", "device-side assert"});
}

// Matches messages of NCCL (ncclRemoteError, "Connection closed by remote
// peer"), Gloo ("Connection closed by peer", "Timed out waiting"), torch
// (DistBackendError) and strerror.
bool SaysCommunicationError(const v1::RankExited& exited) {
  return SaysAnyOf(
      exited, {"ncclRemoteError", "ncclSystemError", "ncclInternalError",
               "NCCL error", "DistBackendError", "Connection closed by",
               "Connection reset by peer", "Connection refused", "Broken pipe",
               "gloo/transport", "Timed out waiting"});
}

}  // namespace

v1::ReasonCode Classify(const v1::RankExited& exited) {
  if (exited.gone()) return v1::REASON_CODE_RANK_GONE;
  if (!exited.out_of_memory().empty()) return v1::REASON_CODE_OUT_OF_MEMORY;
  if (exited.signal() == SIGKILL || exited.signal() == SIGSEGV ||
      exited.signal() == SIGBUS) {
    return v1::REASON_CODE_RANK_SIGNAL;
  }
  if (SaysGpuError(exited)) return v1::REASON_CODE_GPU_ERROR;
  if (SaysCommunicationError(exited)) {
    return v1::REASON_CODE_RANK_COMMUNICATION;
  }
  if (exited.signal() != 0) return v1::REASON_CODE_RANK_SIGNAL;
  if (exited.code() == 126 || exited.code() == 127) {
    return v1::REASON_CODE_NOT_STARTED;
  }
  return v1::REASON_CODE_RANK_EXIT;
}

int Weight(const v1::RootCause& cause) {
  switch (cause.code()) {
    case v1::REASON_CODE_LOST_LEASE:
    case v1::REASON_CODE_LOST_STREAM:
    case v1::REASON_CODE_REPLACED:
    case v1::REASON_CODE_EVICTED:
      return 4;
    case v1::REASON_CODE_HANG:
    case v1::REASON_CODE_GPU_ERROR:
    case v1::REASON_CODE_OUT_OF_MEMORY:
    // The agent does not know how this process ended: most likely by a signal
    // that no process can handle.
    case v1::REASON_CODE_RANK_GONE:
      return 3;
    case v1::REASON_CODE_RANK_SIGNAL:
      return cause.value() == SIGKILL || cause.value() == SIGSEGV ||
                     cause.value() == SIGBUS
                 ? 3
                 : 2;
    case v1::REASON_CODE_RANK_COMMUNICATION:
      return 1;
    default:
      return 2;
  }
}

v1::RootCause CauseOfRank(const std::string& node, uint32_t rank,
                          const v1::RankExited& exited) {
  v1::RootCause cause;
  cause.set_node(node);
  cause.set_rank(static_cast<int32_t>(rank));
  cause.set_code(Classify(exited));
  const bool by_signal = exited.signal() != 0;
  if (cause.code() == v1::REASON_CODE_RANK_SIGNAL) {
    cause.set_value(exited.signal());
  } else {
    cause.set_value(by_signal ? 128 + exited.signal() : exited.code());
  }
  cause.set_detail(exited.out_of_memory().empty() ? exited.error_file()
                                                  : exited.out_of_memory());
  cause.set_stderr_tail(exited.stderr_tail());
  cause.set_generation(exited.generation());
  return cause;
}

v1::RootCause CauseOfLostNode(const std::string& node, v1::ReasonCode code,
                              const std::string& detail, uint64_t generation) {
  v1::RootCause cause;
  cause.set_node(node);
  cause.set_rank(-1);
  cause.set_code(code);
  cause.set_detail(detail);
  cause.set_generation(generation);
  return cause;
}

v1::RootCause CauseOfHang(const std::string& node, int32_t rank,
                          const std::string& detail, uint64_t generation) {
  v1::RootCause cause;
  cause.set_node(node);
  cause.set_rank(rank);
  cause.set_code(v1::REASON_CODE_HANG);
  cause.set_detail(detail);
  cause.set_generation(generation);
  return cause;
}

v1::RootCause CauseOfSetup(const std::string& node,
                           const v1::SetupEnded& ended) {
  v1::RootCause cause;
  cause.set_node(node);
  cause.set_rank(-1);
  cause.set_code(v1::REASON_CODE_SETUP);
  cause.set_value(ExitCodeOf(ended));
  cause.set_detail(Describe(ended));
  cause.set_stderr_tail(ended.stderr_tail());
  return cause;
}

int ExitCodeOf(const v1::SetupEnded& ended) {
  if (ended.timed_out()) return kExitTimedOut;
  return ended.signal() != 0 ? 128 + ended.signal() : ended.code();
}

std::string Describe(const v1::SetupEnded& ended) {
  const std::string tries =
      ended.tries() > 1 ? absl::StrCat(" (", ended.tries(), " tries)") : "";
  if (ended.timed_out()) {
    return absl::StrCat("was ended because its time was over", tries,
                        "; raise --setup-timeout if it needs longer");
  }
  if (ended.signal() != 0) {
    return absl::StrCat("was ended by signal ", ended.signal(), tries);
  }
  return absl::StrCat("exited with code ", ended.code(), tries);
}

bool IsLostNode(const v1::RootCause& cause) {
  return cause.rank() < 0 && cause.code() != v1::REASON_CODE_HANG &&
         cause.code() != v1::REASON_CODE_SETUP;
}

int ExitCodeOf(const v1::RootCause& cause) {
  if (IsLostNode(cause)) return kExitRendezvous;
  if (cause.code() == v1::REASON_CODE_RANK_SIGNAL) return 128 + cause.value();
  // A rank that was killed because it hung has no exit code of its own.
  return cause.value() != 0 ? cause.value() & 0xff : 1;
}

namespace {

std::string WhatHappened(const v1::RootCause& cause) {
  if (IsLostNode(cause)) {
    return absl::StrCat("node ", cause.node(), " was lost: ", cause.detail());
  }
  if (cause.code() == v1::REASON_CODE_SETUP) {
    return absl::StrCat("the set-up command on ", cause.node(), " ",
                        cause.detail());
  }
  if (cause.rank() < 0) {
    return absl::StrCat("no rank made progress: ", cause.detail());
  }
  const std::string who =
      absl::StrCat("rank ", cause.rank(), " on ", cause.node());
  switch (cause.code()) {
    case v1::REASON_CODE_RANK_SIGNAL:
      return absl::StrCat(who, " was ended by signal ", cause.value());
    case v1::REASON_CODE_OUT_OF_MEMORY:
      return absl::StrCat(who,
                          " was killed by the kernel for memory (OOM killer): ",
                          cause.detail());
    case v1::REASON_CODE_RANK_GONE:
      return absl::StrCat(who, " is gone: ",
                          cause.detail().empty()
                              ? "its connection to its agent ended"
                              : cause.detail());
    case v1::REASON_CODE_HANG:
      return absl::StrCat(who, " made no progress",
                          cause.detail().empty() ? "" : ": ", cause.detail());
    case v1::REASON_CODE_NOT_STARTED:
      return absl::StrCat(who, " could not be started (code ", cause.value(),
                          ")");
    case v1::REASON_CODE_GPU_ERROR:
      return absl::StrCat(who, " failed with a GPU error, code ",
                          cause.value());
    case v1::REASON_CODE_RANK_COMMUNICATION:
      return absl::StrCat(who, " failed in communication, code ",
                          cause.value());
    default:
      return absl::StrCat(who, " exited with code ", cause.value());
  }
}

}  // namespace

std::string Describe(const v1::RootCause& cause) {
  return absl::StrCat(WhatHappened(cause), ChangesSuffix(cause));
}

}  // namespace rollcall
