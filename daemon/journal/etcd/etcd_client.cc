#include "daemon/journal/etcd/etcd_client.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "daemon/base/clock.h"
#include "daemon/base/grpc/grpc_defaults.h"
#include "daemon/base/text/printable.h"
#include "daemon/security/crypto/wipe.h"

namespace rollcall {
namespace {

constexpr size_t kErrorBytesMax = 512;
// Metadata key of etcd's token.
constexpr char kTokenKey[] = "token";
// How long a member may take to check a password, which is expensive on
// purpose: bcrypt with etcd's default cost, 10, takes 0.06 s of an idle core,
// and many times that on a busy machine.
constexpr absl::Duration kAuthentication = absl::Seconds(3);
// A member that was down is used again at most this long after it comes back.
constexpr int kReconnectMostMs = 500;
// The kernel of a frozen member still acknowledges data, but the member does
// not answer pings.
constexpr int kPingMs = 10'000;
constexpr int kPingTimeoutMs = 3'000;

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(
    const EtcdAccess& access) {
  if (access.ca.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = access.ca;
  options.pem_cert_chain = access.certificate;
  options.pem_private_key = access.key;
  return grpc::SslCredentials(options);
}

std::shared_ptr<grpc::Channel> ChannelTo(
    const std::string& endpoint,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments = DefaultChannelArguments();
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMostMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMostMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  arguments.SetMaxReceiveMessageSize(EtcdClient::kAnswerBytesMax);
  return grpc::CreateCustomChannel(absl::StrCat("dns:///", endpoint),
                                   credentials, arguments);
}

// Whether another member may succeed. An error that etcd itself reports is the
// same at all members.
bool Elsewhere(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE ||
         code == grpc::StatusCode::DEADLINE_EXCEEDED ||
         code == grpc::StatusCode::CANCELLED ||
         code == grpc::StatusCode::UNKNOWN ||
         code == grpc::StatusCode::INTERNAL;
}

// Whether etcd no longer accepts the token, or has enabled authentication, or
// has changed its users since it gave the token.
bool TokenIsOver(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) return true;
  return status.error_code() == grpc::StatusCode::INVALID_ARGUMENT &&
         (absl::StrContains(status.error_message(), "user name is empty") ||
          absl::StrContains(status.error_message(), "auth store is old"));
}

// The deadline of a call that may take `longest`, and that is useless after
// `until` on the monotonic clock.
std::chrono::system_clock::time_point DeadlineOf(absl::Duration longest,
                                                 absl::Time until) {
  return absl::ToChronoTime(absl::Now() +
                            std::min(longest, until - MonotonicNow()));
}

}  // namespace

EtcdClient::EtcdClient(EtcdAccess access)
    : user_(std::move(access.user)), password_(std::move(access.password)) {
  const auto credentials = CredentialsOf(access);
  for (const std::string& endpoint : access.endpoints) {
    Member member;
    member.endpoint = endpoint;
    member.channel = ChannelTo(endpoint, credentials);
    member.kv = etcdserverpb::KV::NewStub(member.channel);
    member.lease = etcdserverpb::Lease::NewStub(member.channel);
    member.watch = etcdserverpb::Watch::NewStub(member.channel);
    member.auth = etcdserverpb::Auth::NewStub(member.channel);
    members_.push_back(std::move(member));
  }
}

absl::Status EtcdClient::Try(absl::Duration patience, const OneCall& call) {
  const absl::Time until = MonotonicNow() + patience;
  std::string last;
  for (size_t tried = 0; tried < 2 * members_.size(); ++tried) {
    const absl::Duration left = until - MonotonicNow();
    if (left <= absl::ZeroDuration()) break;
    const size_t at = good_;
    Member& member = members_[at % members_.size()];
    // At the first try, an unreachable member fails at once. If all members
    // fail, the second try gives each of them some time to come back.
    const grpc::Status status =
        CallMember(member, until, tried >= members_.size(), call);
    if (status.ok()) return absl::OkStatus();
    last = absl::StrCat(member.endpoint, ": ",
                        Printable(status.error_message(), kErrorBytesMax));
    if (!Elsewhere(status.error_code())) {
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                          absl::StrCat("etcd at ", last));
    }
    // Moves on to the next member, unless another thread has already done so.
    size_t expected = at;
    good_.compare_exchange_strong(expected, at + 1);
  }
  return absl::UnavailableError(absl::StrCat(
      "no member of etcd answers, or it has no majority (", last, ")"));
}

grpc::Status EtcdClient::CallMember(Member& member, absl::Time until,
                                    bool wait_for_ready, const OneCall& call) {
  std::string token = Token();
  for (bool again = false;; again = true) {
    if (!user_.empty() && token.empty()) {
      const grpc::Status known =
          Authenticate(member, until, wait_for_ready, token);
      if (!known.ok()) return known;
      token = Token();
    }
    grpc::ClientContext context;
    context.set_deadline(DeadlineOf(kAttempt, until));
    context.set_wait_for_ready(wait_for_ready);
    if (!token.empty()) context.AddMetadata(kTokenKey, token);
    const grpc::Status status = call(member, context);
    if (user_.empty() || again || !TokenIsOver(status)) return status;
    const grpc::Status known =
        Authenticate(member, until, wait_for_ready, token);
    if (!known.ok()) return known;
    token = Token();
  }
}

grpc::Status EtcdClient::Authenticate(Member& member, absl::Time until,
                                      bool wait_for_ready,
                                      const std::string& old) {
  {
    MutexLock lock(mutex_);
    if (token_ != old) return grpc::Status::OK;
  }
  grpc::ClientContext context;
  context.set_deadline(DeadlineOf(kAuthentication, until));
  context.set_wait_for_ready(wait_for_ready);
  etcdserverpb::AuthenticateRequest request;
  request.set_name(user_);
  request.set_password(password_);
  etcdserverpb::AuthenticateResponse response;
  const grpc::Status status =
      member.auth->Authenticate(&context, request, &response);
  Wipe(*request.mutable_password());
  if (status.ok()) {
    MutexLock lock(mutex_);
    token_ = response.token();
    return status;
  }
  if (Elsewhere(status.error_code())) return status;
  return grpc::Status(
      status.error_code() == grpc::StatusCode::INVALID_ARGUMENT
          ? grpc::StatusCode::UNAUTHENTICATED
          : status.error_code(),
      absl::StrCat("cannot authenticate as user ", Printable(user_, 64), ": ",
                   Printable(status.error_message(), kErrorBytesMax),
                   "; check --etcd-user and --etcd-password-file"));
}

std::string EtcdClient::Token() const {
  MutexLock lock(mutex_);
  return token_;
}

absl::StatusOr<etcdserverpb::RangeResponse> EtcdClient::Range(
    const etcdserverpb::RangeRequest& request, absl::Duration patience) {
  etcdserverpb::RangeResponse response;
  const absl::Status status =
      Try(patience, [&](Member& member, grpc::ClientContext& context) {
        response.Clear();
        return member.kv->Range(&context, request, &response);
      });
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<etcdserverpb::TxnResponse> EtcdClient::Txn(
    const etcdserverpb::TxnRequest& request, absl::Duration patience) {
  etcdserverpb::TxnResponse response;
  const absl::Status status =
      Try(patience, [&](Member& member, grpc::ClientContext& context) {
        response.Clear();
        return member.kv->Txn(&context, request, &response);
      });
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<etcdserverpb::LeaseGrantResponse> EtcdClient::Grant(
    absl::Duration time_to_live, absl::Duration patience) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(absl::ToInt64Seconds(time_to_live));
  etcdserverpb::LeaseGrantResponse response;
  const absl::Status status =
      Try(patience, [&](Member& member, grpc::ClientContext& context) {
        response.Clear();
        return member.lease->LeaseGrant(&context, request, &response);
      });
  if (!status.ok()) return status;
  return response;
}

absl::Status EtcdClient::Revoke(int64_t lease, absl::Duration patience) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseRevokeResponse response;
  const absl::Status status =
      Try(patience, [&](Member& member, grpc::ClientContext& context) {
        return member.lease->LeaseRevoke(&context, request, &response);
      });
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::StatusOr<absl::Duration> EtcdClient::KeepAlive(int64_t lease,
                                                     absl::Duration patience) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse response;
  const absl::Status status =
      Try(patience, [&](Member& member, grpc::ClientContext& context) {
        const auto stream = member.lease->LeaseKeepAlive(&context);
        const bool answered = stream->Write(request) && stream->Read(&response);
        if (answered) {
          // etcd would keep the stream open, but only one answer is needed.
          context.TryCancel();
          stream->Finish();
          return grpc::Status::OK;
        }
        const grpc::Status ended = stream->Finish();
        return ended.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                         "it ended the stream unexpectedly")
                          : ended;
      });
  if (!status.ok()) return status;
  return absl::Seconds(std::max<int64_t>(response.ttl(), 0));
}

std::unique_ptr<KeyValueWatch> EtcdClient::Watch(std::string_view key,
                                                 int64_t from_revision,
                                                 std::function<void()> tell) {
  return std::make_unique<EtcdWatch>(*this, key, from_revision,
                                     std::move(tell));
}

EtcdWatch::EtcdWatch(EtcdClient& client, std::string_view key,
                     int64_t from_revision, Tell tell)
    : tell_(std::move(tell)) {
  etcdserverpb::WatchCreateRequest& create = *request_.mutable_create_request();
  create.set_key(std::string(key));
  create.set_start_revision(from_revision);
  // A member that is cut off from the majority ends the watch.
  context_.AddMetadata("hasleader", "true");
  // An expired token ends the watch, and the read that follows gets a new
  // token.
  if (const std::string token = client.Token(); !token.empty()) {
    context_.AddMetadata(kTokenKey, token);
  }
  client.good().watch->async()->Watch(&context_, this);
  StartWrite(&request_);
  StartRead(&response_);
  StartCall();
}

EtcdWatch::~EtcdWatch() {
  context_.TryCancel();
  MutexLock lock(mutex_);
  while (!done_) changed_.Wait(mutex_);
}

void EtcdWatch::OnReadDone(bool ok) {
  if (!ok) return;
  if (response_.events_size() > 0 || response_.canceled()) tell_();
  response_.Clear();
  StartRead(&response_);
}

void EtcdWatch::OnDone(const grpc::Status&) {
  tell_();
  MutexLock lock(mutex_);
  done_ = true;
  changed_.NotifyAll();
}

}  // namespace rollcall
