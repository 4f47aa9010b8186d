#include "daemon/security/server_certificate.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/address_text.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/network_plan/plan_node.h"
#include "daemon/security/certificates/identity.h"
#include "daemon/security/crypto/openssl_owned.h"
#include "daemon/security/join_string.h"

namespace rollcall {
namespace {

// How often the files are read again.
constexpr unsigned int kRefreshSeconds = 2;

using openssl::Certificate;
using openssl::Key;
using openssl::Names;
using openssl::Reading;

absl::Status Unfit(const char* flag, const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(flag, ": ", what));
}

// The first certificate of a PEM file.
absl::StatusOr<Certificate> ReadCertificate(const char* flag,
                                            const std::string& file) {
  const absl::StatusOr<std::string> text = ReadSecretFile(file);
  if (!text.ok()) return Unfit(flag, std::string(text.status().message()));
  Certificate certificate(
      PEM_read_bio_X509(Reading(*text).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (certificate != nullptr) return certificate;
  return Unfit(flag, absl::StrCat(file,
                                  ": expected a certificate in PEM, got "
                                  "something else"));
}

absl::StatusOr<Key> ReadKey(const char* flag, const std::string& file) {
  const absl::StatusOr<std::string> text = ReadPrivateFile(file);
  if (!text.ok()) return Unfit(flag, std::string(text.status().message()));
  Key key(PEM_read_bio_PrivateKey(
      Reading(*text).get(), nullptr, [](char*, int, int, void*) { return -1; },
      nullptr));
  ERR_clear_error();
  if (key != nullptr) return key;
  return Unfit(flag, absl::StrCat(file,
                                  ": expected a private key in PEM "
                                  "without a passphrase, got something else"));
}

}  // namespace

std::shared_ptr<grpc::ServerCredentials> ServerCredentials(
    const IssuedCertificate& certificate) {
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  options.pem_key_cert_pairs.push_back({certificate.key, certificate.chain});
  return grpc::SslServerCredentials(options);
}

absl::Status CheckTlsFiles(const TlsFiles& files) {
  if (files.cert_file.empty() || files.key_file.empty() ||
      files.ca_file.empty()) {
    return absl::InvalidArgumentError(
        "--tls-cert, --tls-key and --tls-ca go together: expected all three, "
        "got fewer");
  }
  const absl::StatusOr<Certificate> certificate =
      ReadCertificate("--tls-cert", files.cert_file);
  if (!certificate.ok()) return certificate.status();
  const absl::StatusOr<Key> key = ReadKey("--tls-key", files.key_file);
  if (!key.ok()) return key.status();
  if (X509_check_private_key(certificate->get(), key->get()) != 1) {
    ERR_clear_error();
    return Unfit("--tls-key", absl::StrCat(files.key_file,
                                           " is not the key of the "
                                           "certificate in ",
                                           files.cert_file));
  }
  return ReadCertificate("--tls-ca", files.ca_file).status();
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentials(
    const TlsFiles& files) {
  if (absl::Status fits = CheckTlsFiles(files); !fits.ok()) return fits;
  using grpc::experimental::FileWatcherCertificateProvider;
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(
          files.key_file, files.cert_file, files.ca_file, kRefreshSeconds));
  options.watch_identity_key_cert_pairs();
  options.watch_root_certs();
  options.set_cert_request_type(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

std::vector<std::string> CertificateNames(const std::string& cert_file) {
  std::vector<std::string> found;
  const absl::StatusOr<Certificate> certificate =
      ReadCertificate("--tls-cert", cert_file);
  if (!certificate.ok()) return found;
  const Names names(static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(
      certificate->get(), NID_subject_alt_name, nullptr, nullptr)));
  const int count = names == nullptr ? 0 : sk_GENERAL_NAME_num(names.get());
  for (int i = 0; i < count; ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) {
      const unsigned char* data = ASN1_STRING_get0_data(name->d.dNSName);
      std::string text(
          reinterpret_cast<const char*>(data),
          static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
      if (AdmitNodeName(text).ok()) found.push_back(std::move(text));
    } else if (name->type == GEN_IPADD) {
      const int size = ASN1_STRING_length(name->d.iPAddress);
      const unsigned char* data = ASN1_STRING_get0_data(name->d.iPAddress);
      std::string text = AddressText(
          {reinterpret_cast<const char*>(data), static_cast<size_t>(size)});
      if (!text.empty()) found.push_back(std::move(text));
    }
  }
  return found;
}

std::vector<std::string> NamedEndpoints(
    const std::vector<std::string>& endpoints, const std::string& cert_file,
    int port) {
  std::vector<std::string> named;
  for (const std::string& name : CertificateNames(cert_file)) {
    const bool six = name.find(':') != std::string::npos;
    const std::string endpoint = six ? absl::StrCat("[", name, "]:", port)
                                     : absl::StrCat(name, ":", port);
    const bool known = std::find(endpoints.begin(), endpoints.end(),
                                 endpoint) != endpoints.end();
    if (known || (!AdmitAddress(name).ok() && !IsLoopback(name))) {
      named.push_back(endpoint);
    }
  }
  return named.empty() ? endpoints : named;
}

google::protobuf::RepeatedPtrField<v1::Interface> LocalInterfaces() {
  google::protobuf::RepeatedPtrField<v1::Interface> interfaces;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return interfaces;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    const std::string text = AddressText(at->ifa_addr);
    if (text.empty()) continue;
    auto interface = std::find_if(
        interfaces.begin(), interfaces.end(),
        [&](const v1::Interface& i) { return i.name() == at->ifa_name; });
    if (interface == interfaces.end()) {
      v1::Interface& added = *interfaces.Add();
      added.set_name(at->ifa_name);
      added.set_up((at->ifa_flags & IFF_UP) != 0);
      added.set_loopback((at->ifa_flags & IFF_LOOPBACK) != 0);
      interface = std::prev(interfaces.end());
    }
    interface->add_addresses()->set_address(text);
  }
  freeifaddrs(list);
  return interfaces;
}

std::vector<std::string> LocalNames() {
  std::vector<std::string> good, others;
  for (const v1::Interface& interface : LocalInterfaces()) {
    for (const v1::InterfaceAddress& address : interface.addresses()) {
      const std::string& text = address.address();
      const bool worth = interface.up() && !interface.loopback() &&
                         !IsLocalBridge(interface.name()) && !IsUnusable(text);
      std::vector<std::string>& to = worth ? good : others;
      if (std::find(to.begin(), to.end(), text) == to.end()) {
        to.push_back(text);
      }
    }
  }
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) == 0 && AdmitNodeName(host).ok()) {
    others.push_back(host);
  }
  others.push_back("localhost");
  good.insert(good.end(), others.begin(), others.end());
  return good;
}

}  // namespace rollcall
