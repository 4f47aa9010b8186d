// LoopInput: the inputs that are posted to the loop: events of streams, admin
// calls, and watchers.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOOP_INPUT_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOOP_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/core/events.h"
#include "daemon/server/loop/state/access.h"
#include "daemon/server/loop/state/call_quota.h"
#include "daemon/server/loop/state/snapshots.h"
#include "daemon/server/loop/streams/stream.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Always the first input of a session.
struct StreamOpened {
  SessionId session;
  // Shared with the call, which may end at any time.
  std::shared_ptr<Stream> stream;
};
// The introduction has passed admission. The stream reads on when the loop has
// called Took for `bytes`.
struct IntroductionCame {
  SessionId session;
  v1::Hello hello;
  std::string observed_address;
  std::string peer;  // See PeerKey.
  size_t bytes;
};
// The Hello has passed admission.
struct HelloCame {
  SessionId session;
  v1::Hello hello;
  std::string observed_address;
  std::string peer;  // See PeerKey.
  // Set if node names are bound to certificates (--tls-bind-names): the names
  // in the certificate of its connection.
  std::optional<std::vector<std::string>> certificate_names;
  // Wall clock of this machine.
  absl::Time received_at;
};
struct MessageCame {
  SessionId session;
  v1::AgentMessage message;
  size_t bytes;
};
// Always the last input of a session.
struct StreamGone {
  SessionId session;
};

// The admin calls. `reply` is called once and must not block: on the loop's
// thread or, if the call is declined, on the thread that posts it or stops the
// loop.
template <typename Request, typename Response>
struct Call {
  Caller caller;
  Request request;
  std::function<void(const absl::StatusOr<Response>&)> reply;
};
// A call whose answer may be large: a viewer may have few of them under way.
template <typename Request, typename Response>
struct LargeCall : Call<Request, Response> {
  // Called with the call's place in the quota, before `reply` and at most once.
  // It keeps the place until the answer has been sent.
  std::function<void(CallQuota::Hold)> keep;
};
struct StatusAsked : LargeCall<v1::StatusRequest, v1::JobStatus> {};
struct EventsAsked : LargeCall<v1::EventsRequest, v1::EventsResponse> {
  // For the HTTP port, which bounds the answers that are under way: see
  // EventLog::Newest.
  bool newest = false;
  // As SnapshotAsked::open.
  bool open = false;
};
// A request of the HTTP port.
struct SnapshotAsked : Call<v1::StatusRequest, Snapshot> {
  // If the request names no job, the answer is a list of all jobs, even if the
  // daemon has only one.
  bool all = false;
  // The port is on loopback only, so no token is needed.
  bool open = false;
};
// Answered as soon as the loop processes it. UNAVAILABLE: the journal cannot be
// written.
struct HealthAsked {
  std::function<void(const absl::Status&)> reply;
};
struct StopCame : Call<v1::StopRequest, v1::StopResponse> {};
struct DrainCame : Call<v1::DrainRequest, v1::DrainResponse> {};
struct EvictCame : Call<v1::EvictRequest, v1::EvictResponse> {};
struct TokenWanted : Call<v1::CreateTokenRequest, v1::CreateTokenResponse> {};
struct TokensAsked : Call<v1::ListTokensRequest, v1::ListTokensResponse> {};
struct TokenRevoked : Call<v1::RevokeTokenRequest, v1::RevokeTokenResponse> {};
struct TokenRotated : Call<v1::RotateTokenRequest, v1::CreateTokenResponse> {};

struct WatchOpened {
  uint64_t id;
  Caller caller;
  std::string job;
  std::shared_ptr<Watcher> watcher;  // As StreamOpened::stream.
};
struct WatchGone {
  uint64_t id;
};
// Posted by Loop::Stop.
struct Quit {
  absl::Status why;
};

using LoopInput =
    std::variant<StreamOpened, IntroductionCame, HelloCame, MessageCame,
                 StreamGone, StatusAsked, EventsAsked, SnapshotAsked,
                 HealthAsked, StopCame, DrainCame, EvictCame, TokenWanted,
                 TokensAsked, TokenRevoked, TokenRotated, WatchOpened,
                 WatchGone, Quit>;

// Answers an input that cannot be processed, if it has a caller that waits.
void Decline(LoopInput& input, const absl::Status& status);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOOP_INPUT_H_
