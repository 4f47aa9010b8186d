// RunStory: what a launcher tells people, and under --json programs, of its
// run: how to join, who is waited for, what became of each world, how it ended.
//
// It decides nothing and asks nobody.
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
#include "nlohmann/json_fwd.hpp"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class RunStory {
 public:
  // `linger`: how long the scene of a failure stays.
  RunStory(std::string job, bool json, absl::Duration linger);

  // Waits until all that was told has been written, or `patience` has passed.
  bool Flush(absl::Duration patience) { return messages_.Flush(patience); }

  // A line for people, whatever else is told.
  void Say(absl::string_view text) { line_.Print(text); }

  // `awaited` further nodes are to join. `join_file` always has a join string
  // that is valid; this one is for `lifetime`.
  void Joinable(const std::string& endpoint, const std::string& join_string,
                const std::string& join_file, absl::Duration lifetime,
                uint32_t awaited);
  // A run of an earlier launcher goes on; `daemon_pid` 0: with a new daemon.
  void TakenBack(int daemon_pid, const std::vector<std::string>& agents);

  void Heard(v1::JobStatus status, absl::Time now);
  // Brings the live line up to now.
  void Show(absl::Time now);
  // When the live line changes by itself.
  absl::Time NextShow(absl::Time now) const;
  // It ends: nobody is waited for any more.
  void Quiet() { quiet_ = true; }

  // The last words. `why`: where nothing is known of the job's end.
  void Ended(const std::optional<v1::End>& end, int exit_code,
             const std::string& why);

 private:
  void PutJson(const nlohmann::ordered_json& json);
  void TellLingering();
  void TellDifferences();
  void TellFence();

  const std::string job_;
  const bool json_;
  const absl::Duration linger_;
  Messages messages_;
  LiveLine line_{messages_, LiveLine::OnTerminal()};
  bool quiet_ = false;
  // What an earlier launcher has told is not told again.
  bool taken_back_ = false;
  bool told_failure_ = false;
  // The generation after which the next world waits; 0: none waits.
  uint64_t told_fence_ = 0;
  // How many failed connections the waiting line names. It grows in steps of
  // two times, so that a log does not get a line for each.
  uint64_t told_failed_ = 0;
  uint64_t told_generation_ = 1;
  std::string told_differences_;
  std::optional<v1::JobStatus> status_;
  absl::Time status_at_ = absl::InfinitePast();
  absl::Time stragglers_since_ = absl::InfiniteFuture();
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RUN_STORY_H_
