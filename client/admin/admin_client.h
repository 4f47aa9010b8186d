// AdminClient: the Admin service of a daemon, from the command line.
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

// Where a job is, how its daemon is known and what opens it.
struct JobAddress {
  // Where it is reached from here.
  std::vector<std::string> endpoints;
  // Where others reach it, where that is another matter; empty: as above.
  std::vector<std::string> endpoints_for_others;
  std::string job;
  v1::JoinToken token;
  Trust trust;
  // The launcher's state folder that this was read from; empty: none.
  std::string state_folder;
};

class AdminClient {
 public:
  explicit AdminClient(JobAddress address) : address_(std::move(address)) {}

  // Endpoints are tried in turn, each for at most `timeout`, the one that
  // answered last first, and after one that stands by the leader that it names.
  // Errors name the endpoint; codes as admin.proto says, and UNAVAILABLE where
  // none answers.
  // `pings`: with what the nodes found of each other last.
  absl::StatusOr<v1::JobStatus> Status(absl::Duration timeout,
                                       bool pings = false);
  // Safe to retry.
  absl::StatusOr<v1::StopResponse> Stop(v1::StopRequest request,
                                        absl::Duration timeout);
  // Safe to retry.
  absl::StatusOr<v1::DrainResponse> Drain(v1::DrainRequest request,
                                          absl::Duration timeout);
  // Safe to retry, as long as the node has not come back.
  absl::StatusOr<v1::EvictResponse> Evict(v1::EvictRequest request,
                                          absl::Duration timeout);
  // Not safe to retry: each call makes a token.
  absl::StatusOr<v1::CreateTokenResponse> CreateToken(
      v1::CreateTokenRequest request, absl::Duration timeout);
  absl::StatusOr<v1::ListTokensResponse> ListTokens(absl::Duration timeout);
  // Not safe to retry: each call makes a token.
  absl::StatusOr<v1::CreateTokenResponse> RotateToken(const std::string& id,
                                                      absl::Duration timeout);
  // Safe to retry. `cascade`: and evict every node that it admitted.
  absl::StatusOr<v1::RevokeTokenResponse> RevokeToken(const std::string& id,
                                                      bool cascade,
                                                      absl::Duration timeout);

  // The endpoint that answered last; before that, the first.
  std::string endpoint() const {
    return address_.endpoints.empty() ? "" : address_.endpoints.front();
  }

 private:
  template <typename Response, typename Call>
  absl::StatusOr<Response> Try(absl::Duration timeout, Call call);
  // It answered: it is tried first from now on.
  void PutFirst(const std::string& endpoint);

  JobAddress address_;
};

// A job's states, as they change.
class JobWatch : private grpc::ClientReadReactor<v1::JobStatus> {
 public:
  using OnStatus = std::function<void(v1::JobStatus)>;
  using OnEnd = std::function<void(absl::Status)>;

  // Watches at one endpoint. `end` is called once, last; OK: the job ended;
  // where the trust's files cannot be read, from within the constructor.
  JobWatch(const std::string& endpoint, const JobAddress& address,
           OnStatus status, OnEnd end);
  // Cancels, and waits for the end.
  ~JobWatch() override;

 private:
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  const std::string endpoint_;
  const std::shared_ptr<TrustVerdict> verdict_;  // The credentials' as well.
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
