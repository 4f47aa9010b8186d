#include "daemon/core/status_words.h"

#include <string.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace rollcall {
namespace {

std::string Lower(const std::string& name, absl::string_view prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix));
}

std::string StatusText(const v1::RootCause& cause) {
  const std::string rank =
      absl::StrCat("rank ", cause.rank(), " on ", cause.node());
  switch (cause.code()) {
    case v1::REASON_CODE_RANK_EXIT:
    case v1::REASON_CODE_RANK_COMMUNICATION:
      return absl::StrCat(rank, " exited with code ", cause.value());
    case v1::REASON_CODE_RANK_GONE:
      return absl::StrCat(rank, " is gone: its connection to its agent ended");
    case v1::REASON_CODE_GPU_ERROR:
      return absl::StrCat(rank, " failed with a GPU error, code ",
                          cause.value());
    case v1::REASON_CODE_NOT_STARTED:
      return absl::StrCat(rank, " could not be started (code ", cause.value(),
                          ")");
    case v1::REASON_CODE_RANK_SIGNAL: {
      const char* name = sigabbrev_np(cause.value());
      return absl::StrCat(
          rank, " was ended by signal ", cause.value(),
          name == nullptr ? "" : absl::StrCat(" (SIG", name, ")"));
    }
    case v1::REASON_CODE_OUT_OF_MEMORY:
      return absl::StrCat(rank,
                          " was killed by the kernel for memory (OOM killer): ",
                          cause.detail());
    case v1::REASON_CODE_HANG:
      return absl::StrCat(cause.rank() < 0
                              ? "no rank made progress"
                              : absl::StrCat(rank, " made no progress"),
                          cause.detail().empty() ? "" : ": ", cause.detail());
    case v1::REASON_CODE_SETUP:
      return absl::StrCat("the set-up command on ", cause.node(), " ",
                          cause.detail());
    default:
      return cause.detail().empty()
                 ? absl::StrCat("node ", cause.node(), ": ", Word(cause.code()))
                 : absl::StrCat("node ", cause.node(), ": ", cause.detail());
  }
}

}  // namespace

std::string Word(v1::ReasonCode code) {
  return Lower(v1::ReasonCode_Name(code), "REASON_CODE_");
}
std::string Word(v1::JobState state) {
  return Lower(v1::JobState_Name(state), "JOB_STATE_");
}
std::string Word(v1::NodeState state) {
  return Lower(v1::NodeState_Name(state), "NODE_STATE_");
}

std::string Word(v1::FactKind kind) {
  return Lower(v1::FactKind_Name(kind), "FACT_KIND_");
}

std::string ChangeText(const v1::FactChange& change) {
  std::string text = absl::StrCat(change.subject(), ": ");
  if (!change.before().empty()) {
    absl::StrAppend(&text, change.before(), " -> ");
  }
  absl::StrAppend(&text, change.after());
  if (change.count() > 1) {
    absl::StrAppend(&text, " (", change.count(), " changes)");
  }
  return text;
}

std::string ChangesSuffix(const v1::RootCause& cause) {
  if (cause.node_changes().empty()) return "";
  return absl::StrCat("; changes on ", cause.node(), ": ",
                      cause.node_changes());
}

std::string CauseText(const v1::RootCause& cause) {
  return absl::StrCat(StatusText(cause), ChangesSuffix(cause));
}

}  // namespace rollcall
