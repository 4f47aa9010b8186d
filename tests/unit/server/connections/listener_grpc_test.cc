// A real gRPC server takes over the connections that the listener hands on: in
// plain text, and over TLS with a temporary certificate.
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/server/connections/listener.h"
#include "rollcall/v1/admin.grpc.pb.h"
#include "tests/unit/server/connections/listener_client.h"

namespace rollcall {
namespace {

struct Pem {
  std::string key;
  std::string certificate;
};

template <typename Write>
std::string PemOf(Write write) {
  BIO* memory = BIO_new(BIO_s_mem());
  write(memory);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory, &bytes);
  std::string text(bytes, static_cast<size_t>(size));
  BIO_free(memory);
  return text;
}

// A self-signed certificate for localhost, valid for an hour.
Pem MakeCertificate() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  const unsigned char common[] = "localhost";
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, common, -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_EXTENSION* names = X509V3_EXT_conf_nid(
      nullptr, nullptr, NID_subject_alt_name, "DNS:localhost");
  X509_add_ext(certificate, names, -1);
  X509_EXTENSION_free(names);
  X509_sign(certificate, key, EVP_sha256());
  Pem pem;
  pem.key = PemOf([&](BIO* to) {
    PEM_write_bio_PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
  pem.certificate =
      PemOf([&](BIO* to) { PEM_write_bio_X509(to, certificate); });
  X509_free(certificate);
  EVP_PKEY_free(key);
  return pem;
}

// A gRPC server without a port: all its connections come from the listener.
class Served {
 public:
  explicit Served(bool plain) : plain_(plain), pem_(MakeCertificate()) {
    absl::StatusOr<std::unique_ptr<Listener>> opened =
        Listener::Open({.listen = "127.0.0.1:0", .plain = plain});
    if (!opened.ok()) {
      ADD_FAILURE() << opened.status();
      return;
    }
    listener_ = *std::move(opened);
    grpc::SslServerCredentialsOptions tls;
    tls.pem_key_cert_pairs = {{pem_.key, pem_.certificate}};
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        plain ? grpc::InsecureServerCredentials()
              : grpc::SslServerCredentials(tls));
    server_ = builder.BuildAndStart();
    listener_->Start([this](int fd, int listener_fd, HandshakeLimiter::Id) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
          connection;
      connection.fd = fd;
      connection.listener_fd = listener_fd;
      acceptor_->HandleNewConnection(&connection);
    });
  }
  ~Served() { Stop(); }

  void Stop() {
    if (listener_ != nullptr) listener_->Stop();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }

  std::shared_ptr<grpc::Channel> NewChannel() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetSslTargetNameOverride("localhost");
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = pem_.certificate;
    return grpc::CreateCustomChannel(
        absl::StrCat("127.0.0.1:", listener_->port()),
        plain_ ? grpc::InsecureChannelCredentials() : grpc::SslCredentials(tls),
        arguments);
  }

  // The service has no such method, so its answer shows that it was reached.
  static grpc::StatusCode Call(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(kPatienceMs));
    v1::JobStatus status;
    return v1::Admin::NewStub(channel)
        ->Status(&context, v1::StatusRequest(), &status)
        .error_code();
  }

  Listener& listener() { return *listener_; }

 private:
  const bool plain_;
  const Pem pem_;
  // This uses the callback interface, as the daemon's services do.
  v1::Admin::CallbackService service_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
};

class ListenerGrpcTest : public testing::TestWithParam<bool> {};

TEST_P(ListenerGrpcTest, ManyConnectionsReachTheServer) {
  Served served(GetParam());
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < 100; ++i) {
    channels.push_back(served.NewChannel());
    channels.back()->GetState(true);  // All connect at once.
  }
  for (const auto& channel : channels) {
    ASSERT_EQ(Served::Call(channel), grpc::StatusCode::UNIMPLEMENTED);
  }
  // One connection also carries many calls.
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(Served::Call(channels[0]), grpc::StatusCode::UNIMPLEMENTED);
  }
}

TEST_P(ListenerGrpcTest, StrangersDoNotReachIt) {
  Served served(GetParam());
  std::vector<ListenerClient> unauthenticated;
  for (int i = 0; i < 300; ++i) {
    unauthenticated.emplace_back(served.listener().port());
    if (i % 3 == 0) {
      ASSERT_TRUE(unauthenticated.back().Say("garbage"));
    }
  }
  EXPECT_EQ(Served::Call(served.NewChannel()), grpc::StatusCode::UNIMPLEMENTED);
  for (size_t i = 0; i < unauthenticated.size(); i += 3) {
    EXPECT_EQ(unauthenticated[i].Hear(), "end");
  }
}

// One client is silent, one is in the middle of a handshake, and one makes
// calls. All end.
TEST_P(ListenerGrpcTest, StopsWhileConnectionsArePending) {
  Served served(GetParam());
  const auto channel = served.NewChannel();
  ASSERT_EQ(Served::Call(channel), grpc::StatusCode::UNIMPLEMENTED);
  std::vector<ListenerClient> pending;
  for (int i = 0; i < 300; ++i) {
    pending.emplace_back(served.listener().port());
    if (i % 3 == 0) {
      ASSERT_TRUE(pending.back().Say(GetParam() ? kHttp2Preface : kTlsHello));
    }
  }
  // These connections are opened while the server stops.
  std::vector<std::shared_ptr<grpc::Channel>> late;
  for (int i = 0; i < 20; ++i) {
    late.push_back(served.NewChannel());
    late.back()->GetState(true);
  }
  served.Stop();
  for (size_t i = 0; i < pending.size(); ++i) {
    // A plain-text server sends its settings before it ends.
    std::string heard = pending[i].Hear();
    while (heard.size() == 1) heard = pending[i].Hear();
    EXPECT_TRUE(heard == "end" || heard == "reset") << heard;
  }
}

std::string NameOf(const testing::TestParamInfo<bool>& plain) {
  return plain.param ? "Plain" : "Tls";
}
INSTANTIATE_TEST_SUITE_P(Wire, ListenerGrpcTest, testing::Bool(), NameOf);

}  // namespace
}  // namespace rollcall
