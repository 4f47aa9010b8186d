#include "client/launch/admin_client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/call_status.h"
#include "daemon/core/limits.h"
#include "daemon/security/join_string.h"

namespace rollcall {
namespace {

std::unique_ptr<v1::Admin::Stub> Connect(const std::string& endpoint) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(Limits::world_bytes_max));
  return v1::Admin::NewStub(
      grpc::CreateCustomChannel(absl::StrCat("dns:///", endpoint),
                                grpc::InsecureChannelCredentials(), arguments));
}

void Authorize(const v1::JoinToken& token, grpc::ClientContext& context) {
  context.AddMetadata("authorization",
                      absl::StrCat("Bearer ", TokenText(token)));
}

}  // namespace

template <typename Response, typename Call>
absl::StatusOr<Response> AdminClient::Try(absl::Duration timeout, Call call) {
  absl::Status last = absl::UnavailableError("no endpoint is known");
  for (const std::string& endpoint : address_.endpoints) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    Authorize(address_.token, context);
    Response response;
    last = CallStatus(endpoint, call(*Connect(endpoint), context, response));
    if (last.ok()) return response;
    if (!absl::IsUnavailable(last) && !absl::IsDeadlineExceeded(last)) break;
  }
  return last;
}

absl::StatusOr<v1::JobStatus> AdminClient::Status(absl::Duration timeout) {
  v1::StatusRequest request;
  request.set_job(address_.job);
  return Try<v1::JobStatus>(
      timeout, [&](v1::Admin::Stub& stub, grpc::ClientContext& context,
                   v1::JobStatus& response) {
        return stub.Status(&context, request, &response);
      });
}

absl::StatusOr<v1::StopResponse> AdminClient::Stop(v1::StopRequest request,
                                                   absl::Duration timeout) {
  request.set_job(address_.job);
  return Try<v1::StopResponse>(
      timeout, [&](v1::Admin::Stub& stub, grpc::ClientContext& context,
                   v1::StopResponse& response) {
        return stub.Stop(&context, request, &response);
      });
}

JobWatch::JobWatch(const std::string& endpoint, const JobAddress& address,
                   OnStatus status, OnEnd end)
    : endpoint_(endpoint),
      on_status_(std::move(status)),
      on_end_(std::move(end)),
      stub_(Connect(endpoint)) {
  request_.set_job(address.job);
  Authorize(address.token, context_);
  stub_->async()->Watch(&context_, &request_, this);
  StartRead(&incoming_);
  StartCall();
}

JobWatch::~JobWatch() {
  context_.TryCancel();
  MutexLock lock(mutex_);
  while (!done_) changed_.Wait(mutex_);
}

void JobWatch::OnReadDone(bool ok) {
  if (!ok) return;
  on_status_(std::move(incoming_));
  incoming_.Clear();
  StartRead(&incoming_);
}

void JobWatch::OnDone(const grpc::Status& status) {
  on_end_(CallStatus(endpoint_, status));
  MutexLock lock(mutex_);
  done_ = true;
  changed_.NotifyAll();
}

}  // namespace rollcall
