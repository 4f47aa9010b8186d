// Job: nodes that run a set-up command before they get a seat (--setup).
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/base/printable.h"
#include "daemon/core/failures/root_cause.h"
#include "daemon/core/job/job.h"

namespace rollcall {

void Job::OnSetupEnded(Node& node, const v1::SetupEnded& ended) {
  if (HasEnded()) return;
  if (!membership_.EndSetup(node)) {
    return out_.Close(node.session, absl::StatusCode::kInvalidArgument,
                      v1::REFUSAL_CODE_INVALID,
                      "expected SetupEnded once, and only after a Hello with "
                      "setting_up; got another one");
  }
  out_.Changed();
  if (ExitCodeOf(ended) != 0) {
    return SetupFailed(node, CauseOfSetup(node.name(), ended));
  }
  node.state = StateByPhase(node);
  if (!Leaves(node) && !membership_.IsExcluded(node)) node.reason.clear();
  SayHold(node);
  out_.SayOf(node, Log::Level::kInfo,
             absl::StrCat("event=set_up node=", node.name(),
                          " tries=", ended.tries()));
  // Its command may have made the files that it shares with the others.
  if (IsRunning()) {
    CarryOut(vetting_.CompareNewcomer(node, world(), ForVetting()));
  }
  if (IsRunning() && !membership_.IsExcluded(node)) GrowSoon(node);
}

// A job that gathers for its first world waits for this node, so it fails.
// Otherwise, or if enough other nodes are there for all seats, it can do
// without the node.
void Job::SetupFailed(Node& node, const v1::RootCause& cause) {
  out_.SayOf(node, Log::Level::kWarning,
             absl::StrCat("event=setup_failed node=", node.name(), " code=",
                          cause.value(), " reason=", Quoted(Describe(cause))));
  v1::End end;
  end.set_exit_code(cause.value());
  end.set_code(cause.code());
  end.set_reason(Describe(cause));
  const bool able = membership_.IsEligible(node) &&
                    !vetting_.probes().IsSilent(node.name(), now_);
  const size_t others =
      vetting_.probes().Able(membership_, now_) - (able ? 1 : 0);
  if (AwaitsFirstWorld() && others < settings_.nodes_max()) {
    failures_.EndBeforeFirst(cause);
    if (limits_.linger > absl::ZeroDuration()) {
      ToProto(limits_.linger, end.mutable_linger());
    }
    return Fail(std::move(end));
  }
  node.setup_failed = true;
  Exclude(node, Describe(cause));
  node.excluded_for = node.reason;
  *end.mutable_root_cause() = cause;
  *end.add_causes() = cause;
  v1::DaemonMessage message;
  *message.mutable_end() = std::move(end);
  out_.SendTo(node, std::move(message));
}

}  // namespace rollcall
