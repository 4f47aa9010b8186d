#include "daemon/security/trust.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/security/certificates/authority.h"
#include "daemon/security/certificates/chain.h"
#include "daemon/security/certificates/identity.h"

namespace rollcall {
namespace {

using Check = std::function<absl::Status(std::string_view chain)>;

// gRPC calls this as the last step of the handshake, before any call begins.
class DaemonVerifier final
    : public grpc::experimental::ExternalCertificateVerifier {
 public:
  DaemonVerifier(Check check, std::shared_ptr<TrustVerdict> verdict)
      : check_(std::move(check)), verdict_(std::move(verdict)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>,
              grpc::Status* sync_status) override {
    const grpc::string_ref chain = request->peer_cert_full_chain();
    const absl::Status verified =
        check_(std::string_view(chain.data(), chain.size()));
    if (!verified.ok()) {
      if (verdict_ != nullptr) verdict_->Refuse(verified);
      *sync_status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                                  std::string(verified.message()));
    }
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {
  }

 private:
  const Check check_;
  const std::shared_ptr<TrustVerdict> verdict_;
};

// A root certificate that verifies nothing. It is made once per process, and
// its key is discarded. Without a root provider gRPC reads the system's default
// roots before it connects, although it verifies nothing with them here. On a
// machine that has none (a minimal container image), every connection would
// fail.
const std::string& UnusedRoot() {
  static const std::string* const root = [] {
    const absl::StatusOr<Authority> authority = Authority::Make();
    return new std::string(authority.ok() ? authority->certificate() : "");
  }();
  return *root;
}

// `own`: the client's own certificate; may be empty.
void Use(grpc::experimental::TlsChannelCredentialsOptions& options, Check check,
         std::shared_ptr<TrustVerdict> verdict,
         const std::vector<grpc::experimental::IdentityKeyCertPair>& own) {
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
          UnusedRoot(), own));
  options.watch_root_certs();
  if (!own.empty()) options.watch_identity_key_cert_pairs();
  // gRPC's own checks need CA files and names. DaemonVerifier makes all checks
  // instead.
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<DaemonVerifier>(
          std::move(check), std::move(verdict)));
}

absl::Status ReadInto(const std::string& file, bool secret, std::string& text) {
  absl::StatusOr<std::string> read =
      secret ? ReadPrivateFile(file) : ReadSecretFile(file);
  if (!read.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(std::string(read.status().message()),
                     "; check --tls-ca, --tls-cert and --tls-key"));
  }
  text = *std::move(read);
  return absl::OkStatus();
}

// The host of HOST:PORT, without brackets.
std::string HostOf(const std::string& endpoint) {
  std::string host = endpoint.substr(0, endpoint.rfind(':'));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentials(
    const Trust& trust, const std::string& endpoint,
    std::shared_ptr<TrustVerdict> verdict) {
  if (trust.insecure) return grpc::InsecureChannelCredentials();
  if (UnusedRoot().empty()) {
    return absl::FailedPreconditionError(
        "OpenSSL cannot make a P-256 key and certificate; check the machine's "
        "OpenSSL configuration (OPENSSL_CONF)");
  }
  // gRPC never frees options from which no credentials are made. So options are
  // created only when no error can follow.
  if (!trust.pin.empty()) {
    grpc::experimental::TlsChannelCredentialsOptions options;
    Use(options,
        [pin = trust.pin](std::string_view chain) {
          return VerifyPinned(chain, pin);
        },
        std::move(verdict), {});
    return grpc::experimental::TlsCredentials(options);
  }
  // Without a CA nothing identifies the daemon; gRPC's default, the system's
  // CAs, would accept the certificates of many other servers.
  if (trust.ca_file.empty()) {
    return absl::FailedPreconditionError(
        "nothing identifies the daemon: give its join string, a shared secret, "
        "or --tls-ca");
  }
  std::string ca, cert, key;
  for (const absl::Status& read : {ReadInto(trust.ca_file, false, ca),
                                   ReadInto(trust.cert_file, false, cert),
                                   ReadInto(trust.key_file, true, key)}) {
    if (!read.ok()) return read;
  }
  grpc::experimental::TlsChannelCredentialsOptions options;
  const std::string name =
      trust.server_name.empty() ? HostOf(endpoint) : trust.server_name;
  Use(options,
      [ca, name](std::string_view chain) {
        return VerifyIssued(chain, ca, name);
      },
      std::move(verdict), {{key, cert}});
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace rollcall
