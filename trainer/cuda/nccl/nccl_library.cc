#include "trainer/cuda/nccl/nccl_library.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/nccl/nccl.h"
#include "daemon/base/library.h"

extern char** environ;

namespace rollcall {
namespace {

// Since this version, communicators can be non-blocking and can be aborted
// during initialization.
constexpr int kVersionMin = 21400;

}  // namespace

absl::StatusCode NcclStatusCode(int code) {
  return code == nccl::kSystemError || code == nccl::kInternalError ||
                 code == nccl::kRemoteError
             ? absl::StatusCode::kUnavailable
             : absl::StatusCode::kInternal;
}

absl::StatusOr<NcclLibrary> NcclLibrary::Open(const std::string& path) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    environment.emplace_back(*entry);
  }
  const absl::StatusOr<Library> library =
      Library::Open({FindNcclLibrary(path, environment)});
  if (!library.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "NCCL, which several ranks need on GPUs, was not found: ",
        library.status().message(),
        "; install it (libnccl2, or nvidia-nccl from PyPI), add its folder to "
        "LD_LIBRARY_PATH, or train with --device cpu"));
  }
  NcclLibrary n;
  n.name = library->name();
  absl::Status status;
  status.Update(library->Find("ncclGetVersion", &n.get_version));
  status.Update(library->Find("ncclGetUniqueId", &n.get_unique_id));
  status.Update(library->Find("ncclGetErrorString", &n.error_string));
  status.Update(library->Find("ncclGetLastError", &n.last_error));
  status.Update(library->Find("ncclCommInitRankConfig", &n.init));
  status.Update(library->Find("ncclCommGetAsyncError", &n.async_error));
  status.Update(library->Find("ncclCommFinalize", &n.finalize));
  status.Update(library->Find("ncclCommDestroy", &n.destroy));
  status.Update(library->Find("ncclCommAbort", &n.abort));
  status.Update(library->Find("ncclGroupStart", &n.group_start));
  status.Update(library->Find("ncclGroupEnd", &n.group_end));
  status.Update(library->Find("ncclAllReduce", &n.all_reduce));
  status.Update(library->Find("ncclBroadcast", &n.broadcast));
  status.Update(library->Find("ncclAllGather", &n.all_gather));
  status.Update(library->Find("ncclReduceScatter", &n.reduce_scatter));
  status.Update(library->Find("ncclSend", &n.send));
  status.Update(library->Find("ncclRecv", &n.receive));
  if (!status.ok()) return status;
  library->Find("ncclCommInitRankScalable", &n.init_scalable).IgnoreError();
  if (n.get_version(&n.version) != nccl::kSuccess || n.version < kVersionMin) {
    return absl::FailedPreconditionError(
        absl::StrCat(n.name, " is NCCL ", n.version, ": expected ", kVersionMin,
                     " (2.14) or newer"));
  }
  return n;
}

}  // namespace rollcall
