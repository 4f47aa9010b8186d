// ServerCertificate: a daemon's certificate as gRPC server credentials.
//
// Either issued by its own CA at each start, or files of the user's own PKI,
// which are read again every few seconds: replacing them needs no restart.
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
  // The server's certificate with the intermediate ones, and its key.
  std::string cert_file;
  std::string key_file;
  // Callers must show a certificate that this CA has issued.
  std::string ca_file;

  bool empty() const {
    return cert_file.empty() && key_file.empty() && ca_file.empty();
  }
};

std::shared_ptr<grpc::ServerCredentials> ServerCredentials(
    const IssuedCertificate& certificate);

// FAILED_PRECONDITION: a file is missing, cannot be read, is no PEM, or key and
// certificate do not belong together; the message names it.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentials(
    const TlsFiles& files);

// The checks of the above alone.
absl::Status CheckTlsFiles(const TlsFiles& files);

// The DNS names and addresses that the first certificate in a PEM file is for;
// wildcards are left out. Empty if it cannot be read.
std::vector<std::string> CertificateNames(const std::string& cert_file);

// Those of `endpoints` (HOST:PORT) that the certificate is for, and the
// certificate's DNS names with `port`, which other machines resolve; all of
// `endpoints` if that gives none.
std::vector<std::string> NamedEndpoints(
    const std::vector<std::string>& endpoints, const std::string& cert_file,
    int port);

// The names and addresses of this machine: its host name, localhost and all its
// addresses, loopback included; those that peers can use come first.
std::vector<std::string> LocalNames();

// This machine's interfaces with their addresses, whether they are up and which
// is loopback; empty if the system does not list them.
google::protobuf::RepeatedPtrField<v1::Interface> LocalInterfaces();

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_SERVER_CERTIFICATE_H_
