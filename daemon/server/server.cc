#include "daemon/server/server.h"

#include <grpc/impl/codegen/grpc_types.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/server_interceptor.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/clock.h"
#include "daemon/base/grpc/grpc_defaults.h"
#include "daemon/base/grpc/poller_keep_alive.h"
#include "daemon/base/text/printable.h"
#include "daemon/journal/sqlite_journal.h"
#include "daemon/security/certificates/identity.h"
#include "daemon/security/secrets/commit_proof.h"
#include "daemon/server/admin_service.h"
#include "daemon/server/calls/call_service.h"
#include "daemon/server/connections/listener.h"
#include "daemon/server/connections/unauthenticated_connections.h"
#include "daemon/server/leader/current_loop.h"
#include "daemon/server/leader/leader_session.h"
#include "daemon/server/loop/loop.h"
#include "daemon/server/loop/state/logger.h"
#include "daemon/server/loop/streams/refusal.h"
#include "daemon/server/membership_service.h"
#include "daemon/server/trace/span_observer.h"
#include "daemon/server/web/web_port.h"
#include "health/health.pb.h"

namespace rollcall {
namespace {

// Calls that have not ended after this time are cancelled.
constexpr std::chrono::milliseconds kShutdownGrace(30);
// Connections that have not ended by then are disconnected. A slow peer should
// get the last messages.
constexpr absl::Duration kDisconnectGrace = absl::Seconds(2);
// A connection whose peer is gone without a close is detected after the sum of
// ServerOptions::keepalive_time and this time.
constexpr int kKeepaliveTimeoutMs = 10'000;
// How long the handshake of a slow client may take.
// ConnectionLimits::handshakes_at_once bounds the handshakes in progress.
constexpr int kHandshakeMs = 20'000;
// An agent has one stream per connection (see UnauthenticatedConnections); a
// client of admin calls has a few.
constexpr int kStreamsPerConnectionMax = 16;
// A connection is closed after this time without a call.
constexpr int kIdleMs = 30'000;
constexpr int kReadBytes = 8 << 10;
constexpr int kMetadataBytesMax = 16 << 10;
// A service name for grpc.health.v1. The empty name also exists and means the
// process.
constexpr char kHealthName[] = "rollcall.v1.Membership";
// Of another name, in the answer.
constexpr size_t kServiceNameBytesMax = 64;

void Configure(grpc::ServerBuilder& builder, absl::Duration keepalive_time,
               const ConnectionLimits& limits) {
  SetDefaults(builder);
  builder.SetMaxReceiveMessageSize(Limits::agent_message_bytes_max);
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(
      GRPC_ARG_KEEPALIVE_TIME_MS,
      static_cast<int>(absl::ToInt64Milliseconds(keepalive_time)));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Without it, gRPC closes the connection again at each ping too many. While a
  // write waits for the peer, each of these keeps about 5 KB of memory. Pings
  // count as the other bytes of a connection do, and gRPC stops reading while
  // 10,000 answers wait.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             kStreamsPerConnectionMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  // gRPC parses everything that one read returns before the next read, and an
  // unauthenticated peer may open thousands of streams in it.
  // UnauthenticatedConnections counts bytes and calls only between two reads.
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBytes);
  builder.AddChannelArgument(GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadBytes);
  // Bandwidth probing would enlarge windows beyond what thousands of idle
  // streams need.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // gRPC's clients wait with their calls until they know this window, so an
  // honest one sends little before its first call is known. A longer message
  // gets a window of its own when its length has come: one more round trip.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES,
                             limits.stream_window_bytes);
}

// Reports the connection of each call as soon as the call's header has come
// (see CallService). Intercepts nothing.
class CallCounter final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit CallCounter(std::function<void(const std::string& peer)> called)
      : called_(std::move(called)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    called_(PeerKey(info->server_context()->peer()));
    return nullptr;
  }

 private:
  const std::function<void(const std::string& peer)> called_;
};

}  // namespace

class Server::Core {
 public:
  explicit Core(ServerOptions options)
      : options_(std::move(options)),
        logger_(options_.log_level, options_.log_format) {}
  ~Core() { Shutdown(); }

  absl::Status Start() {
    // This setting is process-wide. Packaged builds of abseil check for
    // deadlocks at every lock. With thousands of connections these checks take
    // most of the time.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    if (absl::Status fits = CheckOptions(options_); !fits.ok()) return fits;
    if (absl::Status opened = OpenJournal(); !opened.ok()) return opened;
    if (absl::Status made = MakeIdentity(); !made.ok()) return made;
    // The port is opened first, because a daemon that cannot be reached must
    // not start a run.
    if (absl::Status open = OpenListener(); !open.ok()) return open;
    if (options_.listening) {
      absl::Status heard = options_.listening(port(), pin_);
      if (!heard.ok()) return heard;
    }
    if (absl::Status open = OpenWebPort(); !open.ok()) return open;
    membership_ = std::make_unique<MembershipService>(current_loop_,
                                                      options_.tls_bind_names);
    admin_ = std::make_unique<AdminService>(current_loop_);
    if (options_.etcd.has_value()) {
      if (absl::Status serving = Serve(); !serving.ok()) return serving;
      EtcdAccess access = options_.etcd_access;
      access.endpoints = options_.etcd->endpoints;
      LeaderSession::Options leader_session{
          options_.etcd->Prefix(),
          ValueSealer(options_.secret ? *options_.secret : *options_.etcd_key),
          options_.tokens_in_etcd,
          options_.token_ttl,
          {},
          LoopOptions()};
      if (options_.endpoints)
        leader_session.endpoints = options_.endpoints(port());
      etcd_ = std::make_unique<EtcdClient>(std::move(access));
      leader_session_ = std::make_unique<LeaderSession>(
          std::move(leader_session), *etcd_, current_loop_, logger_);
      return absl::OkStatus();
    }
    loop_ = std::make_unique<Loop>(LoopOptions(), journal_.get(), logger_);
    current_loop_.Open(loop_->inbox());
    if (absl::Status serving = Serve(); !serving.ok()) return serving;
    return loop_->Start();
  }

  const WebPort* web() const { return web_.get(); }
  int port() const { return listener_->port(); }
  const std::string& pin() const { return pin_; }
  std::optional<v1::End> Wait() {
    return loop_ == nullptr ? std::nullopt : loop_->Wait();
  }

  void Shutdown() {
    if (down_.exchange(true)) return;
    if (web_ != nullptr) web_->Stop();
    if (listener_ != nullptr) listener_->Stop();
    if (loop_ != nullptr) loop_->Stop();
    if (leader_session_ != nullptr) leader_session_->Stop();
    if (server_ != nullptr) {
      connections_->EndAllAt(MonotonicNow() + kDisconnectGrace);
      server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
    }
    // connections_ reports closed connections to the listener, so it stops
    // before the listener is destroyed.
    if (connections_ != nullptr) connections_->Stop();
  }

 private:
  absl::Status OpenJournal() {
    if (options_.state_dir.empty()) return absl::OkStatus();
    absl::StatusOr<StateFolder> folder = StateFolder::Open(options_.state_dir);
    if (!folder.ok()) return folder.status();
    absl::StatusOr<std::unique_ptr<SqliteJournal>> journal =
        SqliteJournal::Open(*std::move(folder));
    if (!journal.ok()) return journal.status();
    journal_ = *std::move(journal);
    events_ = std::make_unique<EventLog>(options_.state_dir);
    spans_ = std::make_unique<SpanObserver>(options_.state_dir, *events_);
    return absl::OkStatus();
  }

  // Creates the identity, and the credentials that the server uses.
  absl::Status MakeIdentity() {
    absl::StatusOr<Identity> identity =
        options_.secret.has_value()  ? Identity::FromSecret(*options_.secret)
        : options_.state_dir.empty() ? Identity::Make()
                                     : Identity::Keep(options_.state_dir);
    if (!identity.ok()) return identity.status();
    // Several daemons cannot use a key that only this daemon has. They share
    // one in etcd.
    if (options_.secret.has_value() || !options_.etcd.has_value()) {
      credential_key_ = identity->credential_key;
    }
    if (options_.insecure) {
      credentials_ = grpc::InsecureServerCredentials();
      return absl::OkStatus();
    }
    if (!options_.tls.empty()) {
      auto credentials = ServerCredentials(options_.tls);
      if (!credentials.ok()) return credentials.status();
      credentials_ = *std::move(credentials);
      return absl::OkStatus();
    }
    std::vector<std::string> names = LocalNames();
    names.push_back(options_.listen.substr(0, options_.listen.rfind(':')));
    if (!options_.http.empty()) {
      names.push_back(options_.http.substr(0, options_.http.rfind(':')));
    }
    const absl::StatusOr<IssuedCertificate> issued =
        identity->authority.Issue(names);
    if (!issued.ok()) return issued.status();
    credentials_ = ServerCredentials(*issued);
    issued_ = *issued;
    pin_ = identity->authority.pin();
    return absl::OkStatus();
  }

  Loop::Options LoopOptions() {
    Loop::Options options = {
        options_.limits,
        options_.job,
        options_.settings,
        options_.resume,
        credential_key_,
        options_.secret.has_value() ? CommitProofKey(*options_.secret) : "",
        options_.tokens,
        options_.keep_token,
        [this] { return CountUnauthenticated(); },
        [this](const std::string& peer, const std::string& viewer) {
          connections_->Know(peer, viewer);
        },
        [this](const std::string& peer) {
          const auto id = connections_->Introduce(peer);
          if (id.has_value()) listener_->Introduce(*id);
        },
        [this](const std::string& peer, const AgentRight& right) {
          return connections_->Attend(peer, right);
        },
        [this](const std::string& peer) {
          return connections_->ArrivedAt(peer);
        },
        {},
        options_.beat,
        [this](const absl::Status& written) {
          journal_works_ = written.ok();
          if (options_.journal_changed) options_.journal_changed(written);
        }};
    options.observer = spans_.get();
    options.events = events_.get();
    return options;
  }

  // The certificate of the HTTP port; empty: the port has none.
  HttpServer::Certificate Certificate() const {
    if (options_.insecure) return {};
    if (options_.tls.empty()) return [this] { return issued_; };
    return [this]() -> absl::StatusOr<IssuedCertificate> {
      auto chain = ReadSecretFile(options_.tls.cert_file);
      if (!chain.ok()) return chain.status();
      auto key = ReadPrivateFile(options_.tls.key_file);
      if (!key.ok()) return key.status();
      return IssuedCertificate{*std::move(chain), *std::move(key)};
    };
  }

  absl::Status OpenWebPort() {
    if (options_.http.empty()) return absl::OkStatus();
    auto web = WebPort::Open({options_.http, options_.http_insecure,
                              Certificate(), options_.limits.connections});
    if (web.ok()) {
      if (absl::Status started = (*web)->Start(current_loop_); !started.ok()) {
        web = started;
      }
    }
    if (web.ok()) {
      web_ = *std::move(web);
    } else if (options_.http_optional) {
      logger_.Write(Log::Level::kError,
                    absl::StrCat("event=no_http reason=",
                                 Quoted(std::string(web.status().message()))));
    } else {
      return web.status();
    }
    return absl::OkStatus();
  }

  // Answers grpc.health.v1: whether the process runs, and whether jobs can be
  // served. Any thread.
  void AnswerHealth(UnaryCall& call,
                    const grpc::health::v1::HealthCheckRequest& request) const {
    const std::string& service = request.service();
    if (!service.empty() && service != kHealthName) {
      return call.Fail(WithRefusalCode(
          absl::NotFoundError(absl::StrCat(
              "service: expected \"\" or \"", kHealthName, "\", got ",
              Quoted(Printable(service, kServiceNameBytesMax)))),
          v1::REFUSAL_CODE_UNSPECIFIED));
    }
    const bool serving = service.empty() || (loop_open_ && journal_works_);
    grpc::health::v1::HealthCheckResponse response;
    response.set_status(
        serving ? grpc::health::v1::HealthCheckResponse::SERVING
                : grpc::health::v1::HealthCheckResponse::NOT_SERVING);
    call.Answer(response);
  }

  v1::UnauthenticatedCounts CountUnauthenticated() const {
    v1::UnauthenticatedCounts unauthenticated;
    const HandshakeCounts counts = listener_->counts();
    unauthenticated.set_silent(counts.silent);
    unauthenticated.set_garbage(counts.garbage);
    unauthenticated.set_crowded(counts.crowded + counts.impatient);
    unauthenticated.set_unknown(connections_->disconnected());
    unauthenticated.set_hung_up(counts.hung_up + connections_->hung_up());
    return unauthenticated;
  }

  absl::Status OpenListener() {
    Listener::Options listener_options;
    listener_options.listen = options_.listen;
    listener_options.plain = options_.insecure;
    listener_options.limits = options_.limits.connections;
    if (!options_.tls.empty()) {
      listener_options.limits.unauthenticated_bytes_max +=
          listener_options.limits.client_certificates_bytes_max;
    }
    absl::StatusOr<std::unique_ptr<Listener>> listener =
        Listener::Open(std::move(listener_options));
    if (!listener.ok()) return listener.status();
    listener_ = *std::move(listener);
    absl::StatusOr<std::unique_ptr<UnauthenticatedConnections>> connections =
        UnauthenticatedConnections::Make(
            listener_->limits(),
            [this](UnauthenticatedConnections::ConnectionId id) {
              listener_->Release(id);
            },
            [this](const SourceAddress& from, uint64_t bytes) {
              listener_->Charge(from, bytes);
            });
    if (!connections.ok()) return connections.status();
    connections_ = *std::move(connections);
    return absl::OkStatus();
  }

  absl::Status Serve() {
    admin_->AddTo(calls_);
    calls_.AddUnary<grpc::health::v1::HealthCheckRequest>(
        "/grpc.health.v1.Health/Check",
        [this](UnaryCall& call,
               const grpc::health::v1::HealthCheckRequest& request) {
          AnswerHealth(call, request);
        });
    grpc::ServerBuilder builder;
    Configure(builder, options_.keepalive_time, listener_->limits());
    acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        credentials_);
    std::vector<
        std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
        creators;
    creators.push_back(std::make_unique<CallCounter>(
        [this](const std::string& peer) { connections_->Called(peer); }));
    builder.experimental().SetInterceptorCreators(std::move(creators));
    // Only bidirectional streams may be registered: gRPC announces other calls
    // when their request is whole, so those are in calls_.
    builder.RegisterService(membership_.get());
    builder.RegisterCallbackGenericService(&calls_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return absl::UnavailableError("gRPC cannot start a server here");
    }
    // The listener calls this only for connections that have begun a handshake.
    const auto hand_on = [this](int fd, int listener_fd,
                                HandshakeLimiter::Id id) {
      if (!connections_->Arrive(fd, id)) {
        close(fd);
        listener_->Release(id);
        return;
      }
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
          connection;
      connection.fd = fd;
      connection.listener_fd = listener_fd;
      acceptor_->HandleNewConnection(&connection);
    };
    listener_->Start(
        hand_on,
        [this](HandshakeLimiter::Id id) { connections_->Displace(id); },
        [this] { return connections_->agents(); });
    return absl::OkStatus();
  }

  const ServerOptions options_;
  const PollerKeepAlive poller_keep_alive_;
  Logger logger_;
  std::unique_ptr<JournalStore> journal_;
  std::unique_ptr<EventLog> events_ = std::make_unique<EventLog>("");
  // Null: no state folder. Uses events_.
  std::unique_ptr<SpanObserver> spans_;
  // Declared before leader_session_, which uses it.
  std::unique_ptr<EtcdClient> etcd_;
  // After Start, exactly one of the two is set.
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<LeaderSession> leader_session_;
  // AnswerHealth reports both.
  std::atomic<bool> loop_open_ = false;
  std::atomic<bool> journal_works_ = true;
  CurrentLoop current_loop_{[this](bool open) { loop_open_ = open; }};
  std::unique_ptr<MembershipService> membership_;
  std::unique_ptr<AdminService> admin_;
  CallService calls_;
  std::string credential_key_;
  std::string pin_;
  IssuedCertificate issued_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;
  std::unique_ptr<UnauthenticatedConnections> connections_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<Listener> listener_;  // Hands on to acceptor_.
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<WebPort> web_;
  std::atomic<bool> down_ = false;
};

Server::Server(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Server::~Server() = default;

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  auto core = std::make_unique<Core>(std::move(options));
  if (absl::Status started = core->Start(); !started.ok()) return started;
  return std::unique_ptr<Server>(new Server(std::move(core)));
}

int Server::port() const { return core_->port(); }
int Server::http_port() const {
  return core_->web() == nullptr ? 0 : core_->web()->port();
}
std::string Server::http_url() const {
  return core_->web() == nullptr ? "" : core_->web()->url();
}
const std::string& Server::pin() const { return core_->pin(); }
std::optional<v1::End> Server::Wait() { return core_->Wait(); }
void Server::Shutdown() { core_->Shutdown(); }

}  // namespace rollcall
