// HttpConnection: one client's connection to the HttpServer. It reads a
// request, gets the answer from the handler, sends it, and waits for the next
// request. Only http_server.cc includes this file, because Boost.Beast takes
// long to compile.
//
// Thread rule: the server's thread.
#ifndef ROLLCALL_DAEMON_SERVER_WEB_HTTP_CONNECTION_H_
#define ROLLCALL_DAEMON_SERVER_WEB_HTTP_CONNECTION_H_

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/time/time.h"
#include "daemon/server/web/http_server.h"

namespace rollcall {

using PlainStream = boost::beast::tcp_stream;
using TlsStream = boost::beast::ssl_stream<boost::beast::tcp_stream>;

// The interface of a connection in the server's list.
class OpenConnection {
 public:
  virtual ~OpenConnection() = default;
  virtual void Close() = 0;
  // Whether the connection may be closed to make room: it waits for its client,
  // not for the daemon.
  virtual bool waits() const = 0;
};

template <typename Stream>
class HttpConnection final
    : public OpenConnection,
      public std::enable_shared_from_this<HttpConnection<Stream>> {
 public:
  struct Options {
    HttpLimits limits;
    // Weak, because replies may come after the server is gone, and because the
    // io_context owns the operations, which own the connections.
    std::weak_ptr<boost::asio::io_context> io;
    const HttpServer::Handler& handler;
    std::string address;
    // Called once, when the connection is closed.
    std::function<void()> closed;
    // Called when the connection begins to wait for a request or to send an
    // answer. It then counts as the one that has waited for the shortest time.
    std::function<void()> moved;
  };

  template <typename... Args>
  explicit HttpConnection(Options options, Args&&... args)
      : options_(std::move(options)),
        stream_(std::forward<Args>(args)...),
        timer_(stream_.get_executor()) {}

  void Begin() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      Expire(options_.limits.handshake_patience);
      stream_.async_handshake(
          boost::asio::ssl::stream_base::server,
          [self = this->shared_from_this()](boost::beast::error_code error) {
            if (error) return self->Close();
            self->Read();
          });
    } else {
      Read();
    }
  }

  void Close() override {
    if (closed_) return;
    closed_ = true;
    timer_.cancel();
    boost::beast::get_lowest_layer(stream_).close();
    options_.closed();
  }

  bool waits() const override { return !asked_; }

 private:
  using Parser =
      boost::beast::http::request_parser<boost::beast::http::empty_body>;

  void Expire(absl::Duration patience) {
    boost::beast::get_lowest_layer(stream_).expires_after(
        absl::ToChronoNanoseconds(patience));
  }

  void Read() {
    if (closed_) return;
    options_.moved();
    parser_.emplace();
    parser_->header_limit(
        static_cast<uint32_t>(options_.limits.header_bytes_max));
    Expire(options_.limits.request_patience);
    boost::beast::http::async_read_header(
        stream_, buffer_, *parser_,
        [self = this->shared_from_this()](boost::beast::error_code error,
                                          size_t) { self->Came(error); });
  }

  void Came(boost::beast::error_code error) {
    namespace http = boost::beast::http;
    if (closed_) return;
    began_ = std::chrono::steady_clock::now();
    if (error.category() ==
            http::make_error_code(http::error::bad_method).category() &&
        error != http::error::end_of_stream &&
        error != http::error::partial_message) {
      keep_alive_ = false;
      return Send(error == http::error::header_limit
                      ? TextAnswer(431, "the header is too large")
                      : TextAnswer(400, "expected HTTP/1.1"));
    }
    if (error) return Close();
    const auto& message = parser_->get();
    // A body is not read, so no further request can follow on this connection.
    keep_alive_ = parser_->keep_alive() && parser_->is_done();
    only_head_ = message.method() == http::verb::head;
    WebRequest request;
    request.method = std::string(message.method_string());
    request.target = std::string(message.target());
    request.host = std::string(message[http::field::host]);
    request.authorization = std::string(message[http::field::authorization]);
    request.address = options_.address;
    Ask(request);
  }

  void Ask(const WebRequest& request) {
    boost::beast::get_lowest_layer(stream_).expires_never();
    asked_ = true;
    const uint64_t number = ++number_;
    timer_.expires_after(
        absl::ToChronoNanoseconds(options_.limits.answer_patience));
    timer_.async_wait([self = this->shared_from_this(),
                       number](boost::beast::error_code error) {
      if (error) return;
      self->Answer(number,
                   TextAnswer(503,
                              "the daemon has not answered in time; see "
                              "its log, and try again"));
    });
    options_.handler(request, [weak = this->weak_from_this(), number,
                               weak_io = options_.io](HttpServer::Work work) {
      const auto io = weak_io.lock();
      if (io == nullptr) return;
      boost::asio::post(*io, [weak, number, work = std::move(work)] {
        const auto self = weak.lock();
        if (self != nullptr && self->Expects(number)) {
          self->Answer(number, work());
        }
      });
    });
  }

  // Whether this request has no answer yet.
  bool Expects(uint64_t number) const {
    return !closed_ && asked_ && number == number_;
  }

  void Answer(uint64_t number, WebAnswer answer) {
    if (!Expects(number)) return;
    timer_.cancel();
    asked_ = false;
    Send(std::move(answer));
  }

  // Asio writes the head, as text, and the body. With http::async_write of
  // Boost.Beast this file took three times as long to compile.
  void Send(WebAnswer answer) {
    options_.moved();
    answer_ = std::move(answer);
    head_ = HeadText();
    Expire(options_.limits.send_patience);
    boost::asio::async_write(
        stream_,
        std::array{
            boost::asio::const_buffer(head_.data(), head_.size()),
            boost::asio::const_buffer(answer_.body->data(),
                                      only_head_ ? 0 : answer_.body->size())},
        [self = this->shared_from_this()](boost::beast::error_code error,
                                          size_t) { self->Sent(error); });
  }

  // The answer's status line and header fields.
  std::string HeadText() const {
    namespace http = boost::beast::http;
    http::response<http::empty_body> message;
    message.version(11);
    message.result(static_cast<unsigned>(answer_.status));
    message.set(http::field::content_type, answer_.content_type);
    message.set(http::field::cache_control, "no-store");
    message.set("X-Content-Type-Options", "nosniff");
    message.set("Referrer-Policy", "no-referrer");
    for (const auto& [name, value] : answer_.headers) message.set(name, value);
    message.content_length(answer_.body->size());
    message.keep_alive(keep_alive_);
    std::ostringstream text;
    text << message.base();
    return text.str();
  }

  void Sent(boost::beast::error_code error) {
    if (closed_) return;
    if (error) return Close();
    only_head_ = false;
    if (!keep_alive_) return End();
    const auto next =
        began_ + absl::ToChronoNanoseconds(options_.limits.request_interval);
    if (next <= std::chrono::steady_clock::now()) return Read();
    timer_.expires_at(next);
    timer_.async_wait(
        [self = this->shared_from_this()](boost::beast::error_code late) {
          if (!late) self->Read();
        });
  }

  // Ends the connection so that the client knows that the answer is complete,
  // then closes it.
  void End() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      Expire(options_.limits.handshake_patience);
      stream_.async_shutdown([self = this->shared_from_this()](
                                 boost::beast::error_code) { self->Close(); });
    } else {
      boost::beast::error_code ignored;
      boost::beast::get_lowest_layer(stream_).socket().shutdown(
          boost::asio::ip::tcp::socket::shutdown_send, ignored);
      Close();
    }
  }

  const Options options_;
  Stream stream_;
  // For answer_patience while the handler works, then for the pause between two
  // requests.
  boost::asio::steady_timer timer_;
  boost::beast::flat_buffer buffer_{16 << 10};
  std::optional<Parser> parser_;
  std::chrono::steady_clock::time_point began_;
  bool closed_ = false;
  bool asked_ = false;
  bool keep_alive_ = false;
  bool only_head_ = false;
  uint64_t number_ = 0;
  // Both are kept until the answer is sent.
  WebAnswer answer_;
  std::string head_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_WEB_HTTP_CONNECTION_H_
