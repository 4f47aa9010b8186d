// ServerCertificate: what a daemon shows at its door, as gRPC server
// credentials.
//
// Either issued by its own CA at each start, or files of the user's own PKI,
// which are looked at every few seconds: who replaces them needs no restart.
// Thread rule: any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_SERVER_CERTIFICATE_H_
#define ROLLCALL_DAEMON_SECURITY_SERVER_CERTIFICATE_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/security/authority.h"
#include "google/protobuf/repeated_field.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Files of the user's own PKI, PEM; all of them or none.
struct TlsFiles {
  // The server's certificate and those between it and its CA, and its key.
  std::string cert_file;
  std::string key_file;
  // Who calls must show a certificate that this CA has issued.
  std::string ca_file;

  bool empty() const {
    return cert_file.empty() && key_file.empty() && ca_file.empty();
  }
};

std::shared_ptr<grpc::ServerCredentials> ServerCredentials(
    const IssuedCertificate& certificate);

// FAILED_PRECONDITION: a file is missing, cannot be read, is no PEM, or key and
// certificate do not belong together; named.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentials(
    const TlsFiles& files);

// As above, without making anything.
absl::Status CheckTlsFiles(const TlsFiles& files);

// The DNS names and addresses that a certificate (PEM file, the first one in
// it) is for; wildcards are left out. Empty where it cannot be read.
std::vector<std::string> CertificateNames(const std::string& cert_file);

// Of endpoints HOST:PORT, those that a certificate is for, and its DNS names
// with `port`, which are for others to resolve; all of them where it names
// none.
std::vector<std::string> NamedEndpoints(
    const std::vector<std::string>& endpoints, const std::string& cert_file,
    int port);

// What this machine is called and reached by: its host name, localhost and
// all its addresses, loopback included, those that are worth giving to others
// first.
std::vector<std::string> LocalNames();

// This machine's interfaces with their addresses, whether they are up and which
// is loopback; empty where the system does not tell.
google::protobuf::RepeatedPtrField<v1::Interface> LocalInterfaces();

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_SERVER_CERTIFICATE_H_
