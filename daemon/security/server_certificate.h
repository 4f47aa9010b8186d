// ServerCertificate: a daemon's certificate as gRPC server credentials.
//
// The certificate is issued by the daemon's own CA at each start, or comes from
// files of the user's own PKI. The files are read again every few seconds, so
// replacing them needs no restart. Thread rule: any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_SERVER_CERTIFICATE_H_
#define ROLLCALL_DAEMON_SECURITY_SERVER_CERTIFICATE_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/security/certificates/authority.h"
#include "google/protobuf/repeated_field.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Files of the user's own PKI, PEM; all of them or none.
struct TlsFiles {
  // The server's certificate with the intermediate ones, and its key.
  std::string cert_file;
  std::string key_file;
  // Clients must show a certificate that this CA has issued.
  std::string ca_file;

  bool empty() const {
    return cert_file.empty() && key_file.empty() && ca_file.empty();
  }
};

std::shared_ptr<grpc::ServerCredentials> ServerCredentials(
    const IssuedCertificate& certificate);

// INVALID_ARGUMENT: a file name is missing. FAILED_PRECONDITION: a file cannot
// be read or is not PEM, or key and certificate do not belong together; the
// message names the file.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentials(
    const TlsFiles& files);

// Only makes the checks of ServerCredentials(files).
absl::Status CheckTlsFiles(const TlsFiles& files);

// The DNS names and addresses that the first certificate in a PEM file is for;
// wildcards are left out. Empty if the file cannot be read.
std::vector<std::string> CertificateNames(const std::string& cert_file);

// The endpoints (HOST:PORT) in `endpoints` that the certificate is for, and the
// certificate's DNS names with `port`, because other machines may resolve them.
// If there are none, returns `endpoints`.
std::vector<std::string> NamedEndpoints(
    const std::vector<std::string>& endpoints, const std::string& cert_file,
    int port);

// The names and addresses of this machine: its host name, localhost and all its
// addresses, including loopback. Addresses that peers can use come first.
std::vector<std::string> LocalNames();

// This machine's interfaces that have addresses, with these addresses, whether
// each is up and whether it is loopback; empty if the system does not list
// them.
google::protobuf::RepeatedPtrField<v1::Interface> LocalInterfaces();

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_SERVER_CERTIFICATE_H_
