#include "daemon/server/web/web_port.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "daemon/security/join_string.h"
#include "daemon/security/server_certificate.h"

namespace rollcall {
namespace {

// The port's URL. For an address that means all addresses, it has a name or an
// address of this machine.
std::string UrlOf(const std::string& address, bool tls, int port) {
  const absl::string_view host =
      absl::string_view(address).substr(0, address.rfind(':'));
  std::string shown(host);
  if (host == "[::]" || host == "0.0.0.0") {
    const std::vector<std::string> names = LocalNames();
    shown = names.empty() ? "localhost" : names.front();
    if (shown.find(':') != std::string::npos) {
      shown = absl::StrCat("[", shown, "]");
    }
  }
  return absl::StrCat(tls ? "https" : "http", "://", shown, ":", port, "/");
}

}  // namespace

absl::StatusOr<std::unique_ptr<WebPort>> WebPort::Open(WebPortOptions options) {
  auto sockets = ListenOn(options.listen, options.limits);
  if (!sockets.ok()) {
    const std::string text(sockets.status().message());
    return absl::Status(
        sockets.status().code(),
        absl::StrCat("--http: ",
                     absl::StrReplaceAll(text, {{"--listen", "--http"}})));
  }
  const bool loopback = std::all_of(
      sockets->begin(), sockets->end(),
      [](const ListeningSocket& one) { return IsLoopback(one.address()); });
  if (loopback || options.insecure) {
    options.certificate = nullptr;
  } else if (!options.certificate) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--http ", options.listen,
        ": expected a loopback address with --insecure, since there is no "
        "certificate, got one that others can reach; omit --insecure, or give "
        "--http 127.0.0.1:PORT"));
  }
  return std::unique_ptr<WebPort>(
      new WebPort(std::move(options), *std::move(sockets), loopback));
}

WebPort::WebPort(WebPortOptions options, std::vector<ListeningSocket> sockets,
                 bool loopback)
    : options_(std::move(options)),
      sockets_(std::move(sockets)),
      loopback_(loopback),
      sockets_port_(sockets_.front().port()),
      url_(UrlOf(sockets_.front().address(), options_.certificate != nullptr,
                 sockets_port_)) {}

absl::Status WebPort::Start(CurrentLoop& loop) {
  site_ = std::make_unique<WebSite>(loop, loopback_);
  HttpServer::Options options;
  options.sockets = std::move(sockets_);
  options.certificate = options_.certificate;
  if (loopback_) {
    options.limits.connections_per_network_max = options.limits.connections_max;
  }
  auto server = HttpServer::Start(
      std::move(options),
      [this](const WebRequest& request, HttpServer::Reply reply) {
        site_->Answer(request, std::move(reply));
      });
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return absl::OkStatus();
}

void WebPort::Stop() {
  if (server_ != nullptr) server_->Stop();
}

}  // namespace rollcall
