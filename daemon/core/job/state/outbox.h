// Outbox: collects what one Step of a Job returns: messages, closed streams,
// journal records and log lines, in the order in which the shell carries them
// out.
//
// Thread rule: one thread at a time; in practice the loop thread only.
#ifndef ROLLCALL_DAEMON_CORE_JOB_STATE_OUTBOX_H_
#define ROLLCALL_DAEMON_CORE_JOB_STATE_OUTBOX_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "daemon/core/events.h"
#include "daemon/core/membership/membership.h"
#include "google/protobuf/message_lite.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Outbox {
 public:
  // Log lines name this job.
  explicit Outbox(std::string job) : job_(std::move(job)) {}

  const std::string& job() const { return job_; }

  // No effect if the node has no stream.
  void SendTo(const Node& node, v1::DaemonMessage message);
  void SendTo(std::vector<SessionId> sessions, v1::DaemonMessage message);
  void Close(SessionId session, absl::StatusCode code, v1::RefusalCode refusal,
             const std::string& text);
  void Write(Journal::Kind kind, uint64_t generation,
             const google::protobuf::MessageLite& body);
  void WriteBytes(Journal::Kind kind, uint64_t generation, std::string body);
  void Say(Log::Level level, const std::string& text);
  // A line that this node's messages cause; LogQuota limits such lines.
  void SayOf(const Node& node, Log::Level level, const std::string& text);
  // The same, with a quota of its own for each `about`, so that many lines of
  // one kind do not suppress others of the node.
  void SayOf(const Node& node, Log::Level level, const std::string& text,
             const std::string& about);
  // A line that a Hello from this address causes; it may belong to no known
  // node.
  void SayOf(const std::string& address, Log::Level level,
             const std::string& text);
  void ForgetJob() { actions_.push_back(Forget{}); }

  void Clear() { actions_.clear(); }
  std::vector<Action> Take() { return std::exchange(actions_, {}); }

  // Something that Job::Status shows has changed.
  void Changed() { ++revision_; }
  uint64_t revision() const { return revision_; }

 private:
  std::string job_;
  std::vector<Action> actions_;
  uint64_t revision_ = 1;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_STATE_OUTBOX_H_
