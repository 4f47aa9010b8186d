// What a person reads about a failed connection. The left column is what gRPC
// 1.51 reported in tests.
#include "client/agent/link/call_status.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {
namespace {

TEST(CallStatus, SaysInWordsWhyAnEndpointCannotBeReached) {
  const std::string last =
      "failed to connect to all addresses; last error: UNKNOWN: "
      "ipv4:10.0.0.1:29400: ";
  const struct {
    std::string said;
    const char* words;
  } kRows[] = {
      {last + "Failed to connect to remote host: Connection refused",
       "connection refused: nothing listens there"},
      {last + "Failed to connect to remote host: No route to host",
       "no route to host"},
      {last + "Failed to connect to remote host: Network is unreachable",
       "no route to host: network is unreachable"},
      {"DNS resolution failed for nosuch.invalid:80: C-ares status is not "
       "ARES_SUCCESS qtype=AAAA name=nosuch.invalid is_balancer=0: Domain name "
       "not found",
       "name not found (Domain name not found)"},
      {last + "connect() timed out",
       "no answer in time: a firewall, or a machine that is down"},
      {last + "Handshake read failed",
       "connected, but no TLS handshake in time: it is overloaded or stands "
       "still, another service answers there, or the path drops large packets "
       "(MTU)"},
      {last + "Tls handshake failed: SSL_ERROR_SSL: error:0A00010B:SSL "
              "routines::wrong version number",
       "no TLS: another service answers there, or its daemon is --insecure "
       "(error:0A00010B:SSL routines::wrong version number)"},
      {last + "Cannot check peer: missing selected ALPN property.",
       "TLS without HTTP/2: another service answers there"},
      {last + "Endpoint read failed error:0A00045C:SSL routines::tlsv13 alert "
              "certificate required",
       "TLS: the daemon wants a client certificate; give --tls-cert and "
       "--tls-key"},
      {last + "Endpoint read failed error:0A000412:SSL routines::sslv3 alert "
              "bad certificate",
       "TLS failed (Endpoint read failed error:0A000412:SSL routines::sslv3 "
       "alert bad certificate)"},
      {last + "Failed to create security handshaker",
       "TLS cannot be set up on this machine; GRPC_VERBOSITY=error says why"},
      // Unknown texts are passed on unchanged.
      {"Socket closed", "Socket closed"},
      {last + "recvmsg:Connection reset by peer",
       "recvmsg:Connection reset by peer"},
  };
  for (const auto& row : kRows) {
    const absl::Status status =
        CallStatus("10.0.0.1:29400",
                   grpc::Status(grpc::StatusCode::UNAVAILABLE, row.said));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(),
              absl::StrCat("cannot reach 10.0.0.1:29400: ", row.words));
  }
}

// The status has a Refusal in its details, as WireStatus sends it.
TEST(CallStatus, PassesOnWhatADaemonAnswersThatCannotGoOn) {
  v1::Refusal refusal;
  refusal.set_text("the journal: cannot be written: timeout: disk full");
  const absl::Status status = CallStatus(
      "a:1", grpc::Status(grpc::StatusCode::UNAVAILABLE, refusal.text(),
                          refusal.SerializeAsString()));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), absl::StrCat("a:1: ", refusal.text()));
}

TEST(CallStatus, KeepsTheCodeOfWhatTheDaemonSays) {
  const absl::Status status =
      CallStatus("a:1", grpc::Status(grpc::StatusCode::NOT_FOUND, "no job: x"));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "a:1: no job: x");
}

}  // namespace
}  // namespace rollcall
