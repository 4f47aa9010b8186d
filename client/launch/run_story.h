// RunStory: what a launcher reports of its run to users, and with --json to
// programs: how to join, which nodes are waited for, the worlds, the end.
//
// It decides nothing and sends no requests.
//
// Thread rule: the launcher's loop thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_RUN_STORY_H_
#define ROLLCALL_CLIENT_LAUNCH_RUN_STORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/admin/live_line.h"
#include "client/admin/messages.h"
#include "client/admin/step_track.h"
#include "daemon/base/text/awaited_text.h"
#include "nlohmann/json_fwd.hpp"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class RunStory {
 public:
  // `linger`: how long the ranks of a failed job are kept.
  RunStory(std::string job, bool json, absl::Duration linger);

  // Waits until everything is written, or `patience` has passed.
  bool Flush(absl::Duration patience) { return messages_.Flush(patience); }

  // Prints a line for users.
  void Say(absl::string_view text) { line_.Print(text); }

  // Prints how further nodes join, if any are awaited. `join_file` always has a
  // valid join string; `join_string` is valid for `lifetime`.
  void Joinable(const std::string& endpoint, const std::string& join_string,
                const std::string& join_file, absl::Duration lifetime,
                const Awaited& awaited);
  // Reports that the run of an earlier launcher continues. `daemon_pid` 0: it
  // continues with a new daemon.
  void TakenBack(int daemon_pid, const std::vector<std::string>& agents);

  void Heard(v1::JobStatus status, absl::Time now);
  // Updates the live line.
  void Show(absl::Time now);
  // When the live line next changes without an event.
  absl::Time NextShow(absl::Time now) const;
  // The run is ending: the live line stops.
  void Quiet() {
    quiet_ = true;
    line_.Clear();
  }

  // See LiveLine. `bell` is for agents that write to the same terminal; `fd` is
  // readable when one has written or the terminal has changed.
  int bell() const { return json_ ? -1 : line_.bell(); }
  int fd() const { return line_.fd(); }
  void Rung() { line_.Rung(); }
  void Redraw() { line_.Redraw(); }

  // Prints the last lines. `why`: used if the job's end is unknown.
  void Ended(const std::optional<v1::End>& end, int exit_code,
             const std::string& why);

 private:
  void PutJson(const nlohmann::ordered_json& json);
  void TellLingering();
  void TellDifferences();
  void TellFence();
  void TellResumed();

  const std::string job_;
  const bool json_;
  const absl::Duration linger_;
  Messages messages_;
  LiveLine line_{messages_, LiveLine::OnTerminal()};
  bool quiet_ = false;
  // The run was taken over from an earlier launcher, so what that launcher has
  // reported is not repeated.
  bool taken_back_ = false;
  bool told_failure_ = false;
  // The generation after which the next world waits; 0: none waits.
  uint64_t told_fence_ = 0;
  // The latest generation whose ResumedText was printed; 0: none.
  uint64_t told_resumed_ = 0;
  // The number of failed connections in the waiting line. It is updated when it
  // has doubled, so that a log does not get a line for each.
  uint64_t told_failed_ = 0;
  uint64_t told_generation_ = 1;
  std::string told_differences_;
  StepTrack steps_;
  std::optional<v1::JobStatus> status_;
  absl::Time status_at_ = absl::InfinitePast();
  absl::Time forming_since_ = absl::InfiniteFuture();
  absl::Time stragglers_since_ = absl::InfiniteFuture();
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RUN_STORY_H_
