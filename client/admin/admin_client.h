// AdminClient: calls the Admin service of a daemon, for commands.
//
// Thread rule: AdminClient blocks its caller; JobWatch calls back from gRPC's
// threads, and its callbacks must only post.
#ifndef ROLLCALL_CLIENT_ADMIN_ADMIN_CLIENT_H_
#define ROLLCALL_CLIENT_ADMIN_ADMIN_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "daemon/security/trust.h"
#include "rollcall/v1/admin.grpc.pb.h"

namespace rollcall {

// The endpoints of a job's daemon, how to verify the daemon, and the token for
// the job.
struct JobAddress {
  // Its endpoints from this machine.
  std::vector<std::string> endpoints;
  // Its endpoints from other machines, if they differ; empty: the same.
  std::vector<std::string> endpoints_for_others;
  std::string job;
  v1::JoinToken token;
  Trust trust;
  // The launcher's state folder from which this was read; empty: none.
  std::string state_folder;
};

class AdminClient {
 public:
  explicit AdminClient(JobAddress address) : address_(std::move(address)) {}

  // Endpoints are tried one after another, each for at most `timeout`,
  // beginning with the one that answered last. If a standby daemon answers, the
  // leader that it names is tried next. Errors name the endpoint. Codes: as in
  // admin.proto, and UNAVAILABLE if no daemon answers. `pings`: include the
  // nodes' latest probe results.
  absl::StatusOr<v1::JobStatus> Status(absl::Duration timeout,
                                       bool pings = false);
  // All events that the daemon has, or those of the latest `within`.
  absl::StatusOr<v1::EventsResponse> Events(absl::Duration timeout,
                                            absl::Duration within);
  // Safe to retry.
  absl::StatusOr<v1::StopResponse> Stop(v1::StopRequest request,
                                        absl::Duration timeout);
  // Safe to retry.
  absl::StatusOr<v1::DrainResponse> Drain(v1::DrainRequest request,
                                          absl::Duration timeout);
  // Safe to retry, unless the node has returned in between.
  absl::StatusOr<v1::EvictResponse> Evict(v1::EvictRequest request,
                                          absl::Duration timeout);
  // Not safe to retry: each call makes a token.
  absl::StatusOr<v1::CreateTokenResponse> CreateToken(
      v1::CreateTokenRequest request, absl::Duration timeout);
  absl::StatusOr<v1::ListTokensResponse> ListTokens(absl::Duration timeout);
  // Not safe to retry: each call makes a token.
  absl::StatusOr<v1::CreateTokenResponse> RotateToken(const std::string& id,
                                                      absl::Duration timeout);
  // Safe to retry. `cascade`: also evict every node that the token admitted.
  absl::StatusOr<v1::RevokeTokenResponse> RevokeToken(const std::string& id,
                                                      bool cascade,
                                                      absl::Duration timeout);

  // The endpoint that answered last; if none has answered, the first one.
  std::string endpoint() const {
    return address_.endpoints.empty() ? "" : address_.endpoints.front();
  }

 private:
  template <typename Response, typename Call>
  absl::StatusOr<Response> Try(absl::Duration timeout, Call call);
  // Puts an endpoint that has answered first.
  void PutFirst(const std::string& endpoint);

  JobAddress address_;
};

// Watches a job's states as they change.
class JobWatch : private grpc::ClientReadReactor<v1::JobStatus> {
 public:
  using OnStatus = std::function<void(v1::JobStatus)>;
  using OnEnd = std::function<void(absl::Status)>;

  // Watches at one endpoint. `end` is called once, as the last callback; OK:
  // the job ended. If the files of `address.trust` cannot be read, it is called
  // from within the constructor.
  JobWatch(const std::string& endpoint, const JobAddress& address,
           OnStatus status, OnEnd end);
  // Cancels, and waits for the end.
  ~JobWatch() override;

 private:
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  const std::string endpoint_;
  const std::shared_ptr<TrustVerdict> verdict_;  // Shared with the credentials.
  const OnStatus on_status_;
  const OnEnd on_end_;
  std::unique_ptr<v1::Admin::Stub> stub_;
  grpc::ClientContext context_;
  v1::StatusRequest request_;
  v1::JobStatus incoming_;
  Mutex mutex_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_ADMIN_ADMIN_CLIENT_H_
