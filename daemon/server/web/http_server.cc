#include "daemon/server/web/http_server.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <list>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/server/loop/state/access.h"
#include "daemon/server/web/http_connection.h"

namespace rollcall {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::beast::error_code;

// The shortest time between two reads of the certificate, and how long
// accepting pauses if there is no descriptor.
constexpr absl::Duration kCertificateEvery = absl::Seconds(2);
constexpr absl::Duration kDescriptorPause = absl::Milliseconds(100);

// Shared with connections, which use it until they end.
using TlsContext = std::shared_ptr<asio::ssl::context>;

absl::StatusOr<TlsContext> MakeContext(const IssuedCertificate& certificate) {
  const auto unfit = [](const error_code& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("the certificate for --http: ", error.message()));
  };
  try {
    auto context =
        std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
    SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
    SSL_CTX_set_options(context->native_handle(),
                        SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    error_code error;
    context->use_certificate_chain(asio::buffer(certificate.chain), error);
    if (error) return unfit(error);
    context->use_private_key(asio::buffer(certificate.key),
                             asio::ssl::context::pem, error);
    if (error) return unfit(error);
    return context;
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat(
        "--http: cannot set up TLS with the daemon's certificate: ",
        error.what(), "; check the files of certificate and key"));
  }
}

std::string AddressText(asio::ip::address address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  std::string text = address.to_string();
  return text.substr(0, text.find('%'));
}

}  // namespace

class HttpServer::Core {
 public:
  Core(Options options, Handler handler)
      : options_(std::move(options)),
        handler_(std::move(handler)),
        budget_(options_.limits.handshakes,
                options_.limits.handshakes_per_network) {}
  ~Core() { Stop(); }

  absl::Status Start() {
    try {
      if (options_.certificate) {
        if (absl::Status taken = TakeCertificate(); !taken.ok()) return taken;
      }
      for (const ListeningSocket& socket : options_.sockets) {
        if (absl::Status added = Add(socket); !added.ok()) return added;
      }
      for (auto& acceptor : acceptors_) Accept(*acceptor);
      thread_ = std::thread([this] { Run(); });
    } catch (const std::exception& error) {
      return absl::UnavailableError(
          absl::StrCat("cannot serve --http: ", error.what()));
    }
    return absl::OkStatus();
  }

  void Stop() {
    if (!thread_.joinable()) return;
    io_->stop();
    thread_.join();
    // The sockets of connections are closed with their operations, which the
    // io_context owns.
    acceptors_.clear();
    open_.clear();
    options_.sockets.clear();
  }

 private:
  using Acceptor = asio::basic_socket_acceptor<tcp>;
  struct Open {
    std::shared_ptr<OpenConnection> connection;
    std::string network;
  };
  // The connection that has waited longest is first.
  using OpenList = std::list<Open>;

  void Run() {
    for (;;) {
      try {
        io_->run();
        return;
      } catch (const std::exception&) {
        // An operation failed, most likely because there was not enough memory.
        // Its connection does nothing more, and is closed when a new connection
        // needs its place.
      }
    }
  }

  absl::Status Add(const ListeningSocket& socket) {
    // A duplicate, because Asio closes the descriptor that it gets.
    const int fd = fcntl(socket.fd(), F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
      return absl::UnavailableError(absl::StrCat(
          "cannot listen on ", socket.address(), ": ", strerror(errno)));
    }
    const bool six = socket.address().front() == '[';
    acceptors_.push_back(std::make_unique<Acceptor>(*io_));
    error_code error;
    acceptors_.back()->assign(six ? tcp::v6() : tcp::v4(), fd, error);
    if (!error) acceptors_.back()->non_blocking(true, error);
    if (!error) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", socket.address(), ": ", error.message()));
  }

  // Keeps the present certificate if the new one is not valid, because a
  // renewed certificate may be only partly written.
  absl::Status TakeCertificate() {
    certificate_at_ = std::chrono::steady_clock::now();
    const absl::StatusOr<IssuedCertificate> certificate =
        options_.certificate();
    if (!certificate.ok()) return certificate.status();
    if (tls_ != nullptr && certificate->chain == chain_) {
      return absl::OkStatus();
    }
    absl::StatusOr<TlsContext> made = MakeContext(*certificate);
    if (!made.ok()) return made.status();
    tls_ = *std::move(made);
    chain_ = certificate->chain;
    return absl::OkStatus();
  }

  // Accepts every connection at once, so that connections of one network do not
  // keep others waiting in the kernel's queue.
  void Accept(Acceptor& acceptor) {
    acceptor.async_accept(
        [this, &acceptor](error_code error, tcp::socket socket) {
          if (error == asio::error::operation_aborted) return;
          if (error) return AcceptLater(acceptor);
          // Accept comes first, so that the server goes on accepting even if
          // Arrive fails.
          Accept(acceptor);
          Arrive(std::move(socket));
        });
  }

  // Accepts again after kDescriptorPause. Called when there are not enough
  // descriptors.
  void AcceptLater(Acceptor& acceptor) {
    auto timer = std::make_shared<asio::steady_timer>(
        *io_, absl::ToChronoNanoseconds(kDescriptorPause));
    timer->async_wait([this, &acceptor, timer](error_code error) {
      if (!error) Accept(acceptor);
    });
  }

  void Arrive(tcp::socket socket) {
    error_code error;
    const tcp::endpoint peer = socket.remote_endpoint(error);
    if (error) return;
    socket.set_option(tcp::no_delay(true), error);
    const std::string address = AddressText(peer.address());
    const std::string network = NetworkOf(address);
    if (options_.certificate && !budget_.Take(network, MonotonicNow())) return;
    if (!MakeRoom(network)) return;
    ++by_network_[network];
    const auto at = open_.insert(open_.end(), {nullptr, network});
    try {
      if (!options_.certificate) {
        return Begin<PlainStream>(at, address, std::move(socket));
      }
      if (std::chrono::steady_clock::now() - certificate_at_ >=
          absl::ToChronoNanoseconds(kCertificateEvery)) {
        (void)TakeCertificate();
      }
      // OpenSSL counts the references to the context.
      Begin<TlsStream>(at, address, std::move(socket), *tls_);
    } catch (const std::exception&) {
      // There is not enough memory, for this process or within OpenSSL.
      if (at->connection == nullptr) return Forget(at);
      // Close erases the entry, so the connection is kept until it returns.
      const std::shared_ptr<OpenConnection> connection = at->connection;
      connection->Close();
    }
  }

  void Forget(OpenList::iterator at) {
    if (--by_network_[at->network] == 0) by_network_.erase(at->network);
    open_.erase(at);
  }

  template <typename Stream, typename... Args>
  void Begin(OpenList::iterator at, const std::string& address,
             Args&&... args) {
    using Connection = HttpConnection<Stream>;
    typename Connection::Options options{
        options_.limits,
        io_,
        handler_,
        address,
        [this, at] { Forget(at); },
        [this, at] { open_.splice(open_.end(), open_, at); }};
    auto connection = std::make_shared<Connection>(std::move(options),
                                                   std::forward<Args>(args)...);
    at->connection = connection;
    connection->Begin();
  }

  // If there is no room, closes the connection that has waited longest: of this
  // network if that has too many, else of the network with the most. False: all
  // of its connections wait for the daemon, so none was closed.
  bool MakeRoom(const std::string& network) {
    const HttpLimits& limits = options_.limits;
    const auto of = by_network_.find(network);
    std::string from;
    if (of != by_network_.end() &&
        of->second >= limits.connections_per_network_max) {
      from = network;
    } else if (open_.size() >= limits.connections_max) {
      from = std::max_element(by_network_.begin(), by_network_.end(),
                              [](const auto& a, const auto& b) {
                                return a.second < b.second;
                              })
                 ->first;
    } else {
      return true;
    }
    const auto found =
        std::find_if(open_.begin(), open_.end(), [&from](const Open& open) {
          return open.network == from && open.connection != nullptr &&
                 open.connection->waits();
        });
    if (found == open_.end()) return false;
    // Close erases the entry, so the connection is kept until it returns.
    const std::shared_ptr<OpenConnection> connection = found->connection;
    connection->Close();
    return true;
  }

  Options options_;
  const Handler handler_;
  // Shared with replies, which may be called after Stop.
  const std::shared_ptr<asio::io_context> io_ =
      std::make_shared<asio::io_context>(1);
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  TlsContext tls_;
  std::string chain_;
  std::chrono::steady_clock::time_point certificate_at_;
  OpenList open_;
  std::map<std::string, size_t> by_network_;
  HandshakeBudget budget_;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(Options options,
                                                              Handler handler) {
  auto core = std::make_unique<Core>(std::move(options), std::move(handler));
  if (absl::Status started = core->Start(); !started.ok()) return started;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(core)));
}

HttpServer::HttpServer(std::unique_ptr<Core> core) : core_(std::move(core)) {}
HttpServer::~HttpServer() = default;
void HttpServer::Stop() { core_->Stop(); }

}  // namespace rollcall
