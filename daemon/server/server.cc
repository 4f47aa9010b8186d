#include "daemon/server/server.h"

#include <grpc/impl/codegen/grpc_types.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/admission.h"
#include "daemon/journal/sqlite_journal.h"
#include "daemon/server/admin_service.h"
#include "daemon/server/logger.h"
#include "daemon/server/loop.h"
#include "daemon/server/membership_service.h"

namespace rollcall {
namespace {

// Calls that are still there after this long are cut off.
constexpr std::chrono::milliseconds kShutdownGrace(30);
// A connection that is dead without having said so is found after these two.
constexpr int kKeepaliveMs = 20'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// What a stranger's connection may take.
constexpr int kHandshakeMs = 10'000;
constexpr int kStreamsPerConnectionMax = 128;
constexpr int kMetadataBytesMax = 16 << 10;

// ADDRESS:PORT with an IPv4 address, an IPv6 one in brackets or a name. gRPC
// would take other schemes as well, Unix sockets for one.
absl::Status CheckListen(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  const std::string host = listen.substr(0, colon);
  int port = -1;
  const bool bracketed =
      host.size() > 2 && host.front() == '[' && host.back() == ']';
  const bool fits =
      colon != std::string::npos &&
      absl::SimpleAtoi(listen.substr(colon + 1), &port) && port >= 0 &&
      port <= 65535 &&
      (bracketed ? AdmitAddress(host.substr(1, host.size() - 2)).ok()
                 : AdmitNodeName(host).ok());
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("listen: expected ADDRESS:PORT like 0.0.0.0:29400 or "
                   "[::]:29400, got \"",
                   Printable(listen, 256), "\""));
}

absl::Status CheckOptions(const ServerOptions& options) {
  if (options.token.id().empty() || options.token.secret().empty()) {
    return absl::InvalidArgumentError("token: expected one, got none");
  }
  if (absl::Status fits = CheckListen(options.listen); !fits.ok()) return fits;
  if (absl::Status fits = AdmitSettings(options.settings); !fits.ok()) {
    return fits;
  }
  if (options.job.empty()) return absl::OkStatus();
  if (absl::Status fits = AdmitJobId(options.job); !fits.ok()) return fits;
  if (!options.settings.has_nodes_min() || !options.settings.has_nodes_max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "settings of job ", options.job,
        ": expected nodes_min and nodes_max, got none; give --nodes"));
  }
  return absl::OkStatus();
}

void Configure(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(Limits::agent_message_bytes_max);
  builder.SetMaxSendMessageSize(-1);
  // A port that is taken is an error, not a port that is shared.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1'000);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             kStreamsPerConnectionMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  // Probing the bandwidth lets windows grow to what thousands of idle streams
  // never need.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
}

}  // namespace

class Server::Core {
 public:
  explicit Core(ServerOptions options)
      : options_(std::move(options)), logger_(options_.log_level) {}
  ~Core() { Shutdown(); }

  absl::Status Start() {
    if (absl::Status fits = CheckOptions(options_); !fits.ok()) return fits;
    if (absl::Status opened = OpenJournal(); !opened.ok()) return opened;
    loop_ = std::make_unique<Loop>(
        Loop::Options{options_.limits, options_.job, options_.settings,
                      options_.resume},
        journal_.get(), logger_);
    membership_ =
        std::make_unique<MembershipService>(options_.token, loop_->inbox());
    admin_ = std::make_unique<AdminService>(options_.token, loop_->inbox());
    // The port first: what cannot be reached must not start a run.
    if (absl::Status serving = Listen(); !serving.ok()) return serving;
    return loop_->Start();
  }

  int port() const { return port_; }
  std::optional<v1::End> Wait() { return loop_->Wait(); }

  void Shutdown() {
    if (down_.exchange(true)) return;
    if (loop_ != nullptr) loop_->Stop();
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
    }
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
    return absl::OkStatus();
  }

  absl::Status Listen() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    Configure(builder);
    builder.AddListeningPort(options_.listen, grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(membership_.get());
    builder.RegisterService(admin_.get());
    server_ = builder.BuildAndStart();
    if (server_ != nullptr && port_ > 0) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", options_.listen,
        ": another process has the port, or it is no address of this machine; "
        "give another one with --listen ADDRESS:PORT"));
  }

  const ServerOptions options_;
  Logger logger_;
  std::unique_ptr<JournalStore> journal_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<MembershipService> membership_;
  std::unique_ptr<AdminService> admin_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
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
std::optional<v1::End> Server::Wait() { return core_->Wait(); }
void Server::Shutdown() { core_->Shutdown(); }

}  // namespace rollcall
