#include "client/admin/admin_client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/link/call_status.h"
#include "client/agent/link/channel.h"
#include "client/agent/link/named_leader.h"
#include "daemon/base/durations.h"
#include "daemon/security/secrets/token.h"

namespace rollcall {
namespace {

void Authorize(const v1::JoinToken& token, grpc::ClientContext& context) {
  context.AddMetadata("authorization",
                      absl::StrCat("Bearer ", TokenText(token)));
}

// The most endpoints to try: the given ones, and the leaders' endpoints that
// standby daemons name.
constexpr size_t kTriesMax = 80;

// The leader's endpoints from a standby daemon's answer, in NamedLeader's
// order.
NamedLeader LeaderOf(const grpc::Status& status, const JobAddress& address) {
  NamedLeader leader(address.endpoints, address.trust.insecure);
  v1::Refusal refusal;
  if (!status.ok() && refusal.ParseFromString(status.error_details())) {
    leader.Hear(refusal);
  }
  return leader;
}

}  // namespace

template <typename Response, typename Call>
absl::StatusOr<Response> AdminClient::Try(absl::Duration timeout, Call call) {
  absl::Status last = absl::UnavailableError("no endpoint is known");
  std::vector<std::string> tries = address_.endpoints;
  for (size_t i = 0; i < tries.size(); ++i) {
    const std::string endpoint = tries[i];
    if (std::count(tries.begin(), tries.begin() + i, endpoint) > 0) continue;
    const auto verdict = std::make_shared<TrustVerdict>();
    auto channel = MakeChannel(endpoint, address_.trust, verdict);
    if (!channel.ok()) return channel.status();
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    Authorize(address_.token, context);
    Response response;
    const grpc::Status status =
        call(*v1::Admin::NewStub(*channel), context, response);
    const absl::Status called = CallStatus(endpoint, status);
    if (called.ok()) {
      PutFirst(endpoint);
      return response;
    }
    NamedLeader leader = LeaderOf(status, address_);
    size_t next = i + 1;
    while (const std::optional<std::string> named = leader.Next()) {
      const bool tried =
          std::count(tries.begin(), tries.begin() + i + 1, *named) > 0;
      if (tried || tries.size() >= kTriesMax) continue;
      tries.insert(tries.begin() + next++, *named);
    }
    const absl::Status known = verdict->status();
    // If another server answers at one address, the other addresses may still
    // be the daemon's.
    const bool elsewhere = !known.ok() || absl::IsUnavailable(called) ||
                           absl::IsDeadlineExceeded(called);
    if (!elsewhere) return called;
    if (!known.ok()) {
      last = absl::Status(known.code(),
                          absl::StrCat(endpoint, ": ", known.message()));
    } else if (!absl::IsUnauthenticated(last)) {
      last = called;
    }
  }
  return last;
}

void AdminClient::PutFirst(const std::string& endpoint) {
  std::vector<std::string>& all = address_.endpoints;
  const auto at = std::find(all.begin(), all.end(), endpoint);
  if (at != all.end()) {
    std::rotate(all.begin(), at, at + 1);
  } else {
    all.insert(all.begin(), endpoint);
  }
  // A daemon has named the endpoint that is dropped; given endpoints are kept.
  if (all.size() > kTriesMax) all.pop_back();
}

absl::StatusOr<v1::JobStatus> AdminClient::Status(absl::Duration timeout,
                                                  bool pings) {
  v1::StatusRequest request;
  request.set_pings(pings);
  request.set_job(address_.job);
  return Try<v1::JobStatus>(
      timeout, [&](v1::Admin::Stub& stub, grpc::ClientContext& context,
                   v1::JobStatus& response) {
        return stub.Status(&context, request, &response);
      });
}

absl::StatusOr<v1::EventsResponse> AdminClient::Events(absl::Duration timeout,
                                                       absl::Duration within) {
  v1::EventsRequest request;
  request.set_job(address_.job);
  if (within != absl::InfiniteDuration()) {
    ToProto(within, request.mutable_within());
  }
  v1::EventsResponse all;
  for (bool more = true; more;) {
    auto part = Try<v1::EventsResponse>(
        timeout, [&](v1::Admin::Stub& stub, grpc::ClientContext& context,
                     v1::EventsResponse& response) {
          return stub.Events(&context, request, &response);
        });
    if (!part.ok()) return part.status();
    all.mutable_lines()->Add(part->lines().begin(), part->lines().end());
    all.set_last(part->last());
    all.set_lost(part->lost());
    // A daemon that sends the same again does not hold this command.
    more = part->more() && part->last() > request.after();
    request.set_after(part->last());
  }
  return all;
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

absl::StatusOr<v1::DrainResponse> AdminClient::Drain(v1::DrainRequest request,
                                                     absl::Duration timeout) {
  request.set_job(address_.job);
  return Try<v1::DrainResponse>(
      timeout, [&](v1::Admin::Stub& stub, grpc::ClientContext& context,
                   v1::DrainResponse& response) {
        return stub.Drain(&context, request, &response);
      });
}

absl::StatusOr<v1::EvictResponse> AdminClient::Evict(v1::EvictRequest request,
                                                     absl::Duration timeout) {
  request.set_job(address_.job);
  return Try<v1::EvictResponse>(
      timeout, [&](v1::Admin::Stub& stub, grpc::ClientContext& context,
                   v1::EvictResponse& response) {
        return stub.Evict(&context, request, &response);
      });
}

absl::StatusOr<v1::CreateTokenResponse> AdminClient::CreateToken(
    v1::CreateTokenRequest request, absl::Duration timeout) {
  return Try<v1::CreateTokenResponse>(
      timeout, [&](v1::Admin::Stub& stub, grpc::ClientContext& context,
                   v1::CreateTokenResponse& response) {
        return stub.CreateToken(&context, request, &response);
      });
}

absl::StatusOr<v1::ListTokensResponse> AdminClient::ListTokens(
    absl::Duration timeout) {
  v1::ListTokensRequest request;
  request.set_job(address_.job);
  return Try<v1::ListTokensResponse>(
      timeout, [&](v1::Admin::Stub& stub, grpc::ClientContext& context,
                   v1::ListTokensResponse& response) {
        return stub.ListTokens(&context, request, &response);
      });
}

absl::StatusOr<v1::CreateTokenResponse> AdminClient::RotateToken(
    const std::string& id, absl::Duration timeout) {
  v1::RotateTokenRequest request;
  request.set_job(address_.job);
  request.set_id(id);
  return Try<v1::CreateTokenResponse>(
      timeout, [&](v1::Admin::Stub& stub, grpc::ClientContext& context,
                   v1::CreateTokenResponse& response) {
        return stub.RotateToken(&context, request, &response);
      });
}

absl::StatusOr<v1::RevokeTokenResponse> AdminClient::RevokeToken(
    const std::string& id, bool cascade, absl::Duration timeout) {
  v1::RevokeTokenRequest request;
  request.set_job(address_.job);
  request.set_id(id);
  request.set_cascade(cascade);
  return Try<v1::RevokeTokenResponse>(
      timeout, [&](v1::Admin::Stub& stub, grpc::ClientContext& context,
                   v1::RevokeTokenResponse& response) {
        return stub.RevokeToken(&context, request, &response);
      });
}

JobWatch::JobWatch(const std::string& endpoint, const JobAddress& address,
                   OnStatus status, OnEnd end)
    : endpoint_(endpoint),
      verdict_(std::make_shared<TrustVerdict>()),
      on_status_(std::move(status)),
      on_end_(std::move(end)) {
  auto channel = MakeChannel(endpoint, address.trust, verdict_);
  if (!channel.ok()) {
    {
      MutexLock lock(mutex_);
      done_ = true;
    }
    on_end_(channel.status());
    return;
  }
  stub_ = v1::Admin::NewStub(*channel);
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
  const absl::Status known = verdict_->status();
  on_end_(status.ok() || known.ok() ? CallStatus(endpoint_, status) : known);
  MutexLock lock(mutex_);
  done_ = true;
  changed_.NotifyAll();
}

}  // namespace rollcall
