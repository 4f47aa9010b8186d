// Which clients and daemons accept each other over TLS.
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/security/certificates/chain.h"
#include "daemon/security/certificates/identity.h"
#include "tests/unit/server/server_fixture.h"
#include "tests/unit/test_ca.h"

namespace rollcall {
namespace {

// The certificates that a daemon presents, as PEM; empty: none.
std::string ChainShownBy(int port, const std::string& address = "127.0.0.1") {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  const unsigned char kH2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context, kH2, sizeof(kH2));
  BIO* connection = BIO_new_ssl_connect(context);
  BIO_set_conn_hostname(connection, absl::StrCat(address, ":", port).c_str());
  std::string chain;
  if (BIO_do_handshake(connection) == 1) {
    SSL* ssl = nullptr;
    BIO_get_ssl(connection, &ssl);
    STACK_OF(X509)* shown = SSL_get_peer_cert_chain(ssl);
    for (int i = 0; i < sk_X509_num(shown); ++i) {
      BIO* pem = BIO_new(BIO_s_mem());
      PEM_write_bio_X509(pem, sk_X509_value(shown, i));
      char* data = nullptr;
      const long size = BIO_get_mem_data(pem, &data);
      chain.append(data, static_cast<size_t>(size));
      BIO_free(pem);
    }
  }
  BIO_free_all(connection);
  SSL_CTX_free(context);
  return chain;
}

class TlsTest : public JournaledServerTest {
 protected:
  // The result of an attempt to attend. `stranger`: the attempt reported
  // another daemon than the expected one.
  struct Attempt {
    bool welcome = false;
    bool stranger = false;
  };
  Attempt Attend(const Trust& trust, const std::string& node) {
    const auto verdict = std::make_shared<TrustVerdict>();
    HandAgent agent(ChannelTo(port(), trust, verdict));
    agent.SayHello(HelloOf(node));
    Attempt attempt;
    attempt.welcome = agent.IsWelcome();
    if (!attempt.welcome) {
      const grpc::Status status = agent.End();
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE)
          << status.error_message();
      EXPECT_TRUE(status.error_details().empty());
    }
    attempt.stranger =
        verdict->status().code() == absl::StatusCode::kUnauthenticated;
    return attempt;
  }
  // Expects that the daemon received nothing. It would admit any client with
  // our token.
  void ExpectNothingTold() {
    EXPECT_EQ(StatusOf("train").nodes_size(), 0);
    EXPECT_TRUE(StatusOf("train").refused().empty());
  }

  std::string file(const std::string& name) const {
    return folder_ + "/" + name;
  }
  // Writes NAME.crt and NAME.key.
  void Write(const std::string& name, const TestCa::Issued& issued) {
    ReplaceFile(file(name + ".crt"), issued.certificate);
    ReplaceFile(file(name + ".key"), issued.key);
  }
  Trust Files(const std::string& name, const std::string& ca = "ca.crt") {
    Trust trust;
    trust.ca_file = file(ca);
    trust.cert_file = file(name + ".crt");
    trust.key_file = file(name + ".key");
    return trust;
  }
  ServerOptions WithFiles(const std::string& name) {
    ServerOptions options = Options();
    options.tls = {file(name + ".crt"), file(name + ".key"), file("ca.crt")};
    return options;
  }
  // Calls StartJob. Later calls are made as this client.
  void StartWithFiles(const std::string& name, const std::string& client) {
    StartJob(3, WithFiles(name));
    trust_ = Files(client);
  }
};

// --- The daemon's own CA -----------------------------------------------------

TEST_F(TlsTest, AStrangerIsToldNothing) {
  StartJob(3);
  EXPECT_EQ(server_->pin().size(), kPinBytes);
  Trust other;
  other.pin = Identity::Make()->authority.pin();
  const Attempt attempt = Attend(other, "a");
  EXPECT_FALSE(attempt.welcome);
  EXPECT_TRUE(attempt.stranger);
  ExpectNothingTold();
  const Attempt right = Attend(trust_, "a");
  EXPECT_TRUE(right.welcome);
  EXPECT_FALSE(right.stranger);
}

TEST_F(TlsTest, EachLetterOfThePinCounts) {
  StartJob(3);
  for (size_t i = 0; i < kPinBytes; i += 5) {
    Trust wrong = trust_;
    wrong.pin[i] ^= 1;
    EXPECT_TRUE(Attend(wrong, "a").stranger);
  }
  ExpectNothingTold();
}

TEST_F(TlsTest, ThePinStaysWithTheStateAndNotWithoutIt) {
  StartJob(3, Journaled(false));
  const std::string pin = server_->pin();
  const std::string chain = ChainShownBy(port());
  server_.reset();
  StartJob(3, Journaled(false));
  EXPECT_EQ(server_->pin(), pin);
  EXPECT_NE(ChainShownBy(port()), chain) << "the certificate is a new one";
  EXPECT_TRUE(VerifyPinned(ChainShownBy(port()), pin).ok());
  server_.reset();
  StartJob(3);
  EXPECT_NE(server_->pin(), pin);
}

TEST_F(TlsTest, ItsCertificateNamesTheMachine) {
  StartJob(3);
  const std::string chain = ChainShownBy(port());
  ASSERT_FALSE(chain.empty());
  EXPECT_TRUE(VerifyPinned(chain, server_->pin()).ok());
  const std::string ca = chain.substr(chain.find("-----BEGIN", 1));
  const std::vector<std::string> names = LocalNames();
  EXPECT_GE(names.size(), 2u);
  for (const std::string& name : names) {
    const absl::Status verified = VerifyIssued(chain, ca, name);
    EXPECT_TRUE(verified.ok()) << name << ": " << verified;
  }
  for (const char* name : {"127.0.0.1", "localhost"}) {
    EXPECT_TRUE(VerifyIssued(chain, ca, name).ok()) << name;
  }
  EXPECT_FALSE(VerifyIssued(chain, ca, "203.0.113.7").ok());
}

TEST_F(TlsTest, ItsCertificateNamesWhatItListensOn) {
  ServerOptions options = Options();
  options.listen = "127.77.0.1:0";
  StartJob(3, std::move(options));
  const std::string chain = ChainShownBy(port(), "127.77.0.1");
  ASSERT_FALSE(chain.empty());
  const std::string ca = chain.substr(chain.find("-----BEGIN", 1));
  EXPECT_TRUE(VerifyIssued(chain, ca, "127.77.0.1").ok());
  EXPECT_FALSE(VerifyIssued(chain, ca, "127.77.0.2").ok());
}

TEST_F(TlsTest, WhoSpeaksInTheClearIsGarbage) {
  StartJob(3);
  Trust plain;
  plain.insecure = true;
  const Attempt attempt = Attend(plain, "a");
  EXPECT_FALSE(attempt.welcome);
  EXPECT_GT(StatusOf("train").unauthenticated().garbage(), 0u);
  ExpectNothingTold();
}

TEST_F(TlsTest, NothingToKnowItByIsNoTrust) {
  EXPECT_EQ(ChannelCredentials(Trust(), "127.0.0.1:1", nullptr).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// --- A shared secret ---------------------------------------------------------

TEST_F(TlsTest, WhoHoldsTheSecretKnowsTheDaemon) {
  const auto secret = SharedSecret::Parse(SharedSecret::MakeText());
  const auto other = SharedSecret::Parse(SharedSecret::MakeText());
  ASSERT_TRUE(secret.ok() && other.ok());
  ServerOptions options = Options();
  options.secret = *secret;
  options.tokens.push_back(
      {secret->Token(v1::ROLE_WORKER), v1::ROLE_WORKER, ""});
  StartJob(3, std::move(options));
  worker_ = secret->Token(v1::ROLE_WORKER);
  Trust trust;
  trust.pin = Authority::FromSecret(*other)->pin();
  EXPECT_TRUE(Attend(trust, "a").stranger);
  ExpectNothingTold();
  trust.pin = Authority::FromSecret(*secret)->pin();
  EXPECT_EQ(trust.pin, server_->pin());
  EXPECT_TRUE(Attend(trust, "a").welcome);
}

TEST_F(TlsTest, WithASecretADaemonWithoutADiskIsTheSameAgain) {
  const auto secret = SharedSecret::Parse(SharedSecret::MakeText());
  ServerOptions options = Options();
  options.secret = *secret;
  options.job = "";
  Start(options);
  v1::Hello hello = HelloOf("a");
  hello.mutable_settings()->set_nodes_max(2);
  v1::Welcome welcome;
  {
    HandAgent a(Dial());
    ASSERT_TRUE(a.SayHello(hello));
    welcome = a.HearWelcome().value_or(v1::Welcome());
  }
  const std::string pin = server_->pin();
  server_.reset();
  Start(options);
  EXPECT_EQ(server_->pin(), pin);
  // The agent's credential is valid. Its run is unknown here and may still be
  // adopted.
  HandAgent other(Dial());
  v1::Hello first = HelloOf("b");
  first.mutable_settings()->set_nodes_max(2);
  ASSERT_TRUE(other.SayHello(first));
  ASSERT_TRUE(other.IsWelcome());
  hello.set_run(welcome.run());
  hello.set_node_credential(welcome.node_credential());
  ExpectRefused(Turned(hello), grpc::StatusCode::UNAVAILABLE,
                v1::REFUSAL_CODE_UNSPECIFIED);
}

// --- Without TLS -------------------------------------------------------------

TEST_F(TlsTest, InsecureIsForLoopbackAlone) {
  for (const char* listen : {"0.0.0.0:0", "[::]:0", "10.0.0.1:0", "[fd00::1]:0",
                             "localhost.example:0"}) {
    ServerOptions options = Options();
    options.insecure = true;
    options.listen = listen;
    EXPECT_EQ(Server::Start(std::move(options)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << listen;
  }
  ServerOptions options = Options();
  options.insecure = true;
  StartJob(3, std::move(options));
  EXPECT_TRUE(server_->pin().empty());
  EXPECT_TRUE(Attend(trust_, "a").welcome);
}

// --- The user's own PKI ------------------------------------------------------

TEST_F(TlsTest, OptionsExcludeEachOther) {
  const TestCa ca;
  ReplaceFile(file("ca.crt"), ca.certificate());
  Write("daemon", ca.Issue());
  const auto secret = SharedSecret::Parse(SharedSecret::MakeText());
  const std::function<void(ServerOptions&)> changes[] = {
      [&](ServerOptions& o) { o.secret = *secret; },
      [](ServerOptions& o) { o.insecure = true; },
      [](ServerOptions& o) { o.tls.ca_file.clear(); },
      [](ServerOptions& o) { o.tls.key_file.clear(); },
      [](ServerOptions& o) { o.tls.cert_file.clear(); },
  };
  for (const auto& change : changes) {
    ServerOptions options = WithFiles("daemon");
    change(options);
    EXPECT_EQ(Server::Start(std::move(options)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(TlsTest, FilesThatDoNotFitAreNamed) {
  const TestCa ca;
  ReplaceFile(file("ca.crt"), ca.certificate());
  Write("daemon", ca.Issue());
  Write("other", ca.Issue());
  ReplaceFile(file("garbage"), "garbage");
  const struct {
    const char* cert;
    const char* key;
    const char* ca;
    const char* named;
  } rows[] = {
      {"none", "daemon.key", "ca.crt", "none"},
      {"daemon.crt", "none", "ca.crt", "none"},
      {"daemon.crt", "daemon.key", "none", "none"},
      {"garbage", "daemon.key", "ca.crt", "garbage"},
      {"daemon.crt", "garbage", "ca.crt", "garbage"},
      {"daemon.crt", "daemon.key", "garbage", "garbage"},
      {"daemon.crt", "other.key", "ca.crt", "other.key"},
      {"daemon.key", "daemon.crt", "ca.crt", "daemon.key"},
      {"daemon.crt", "daemon.key", "daemon.key", "daemon.key"},
  };
  for (const auto& row : rows) {
    const absl::Status status =
        CheckTlsFiles({file(row.cert), file(row.key), file(row.ca)});
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition)
        << row.cert << " " << row.key << " " << row.ca;
    EXPECT_NE(status.ToString().find(file(row.named)), std::string::npos)
        << status;
  }
  EXPECT_TRUE(
      CheckTlsFiles({file("daemon.crt"), file("daemon.key"), file("ca.crt")})
          .ok());
  EXPECT_EQ(
      ChannelCredentials(Files("none"), "127.0.0.1:1", nullptr).status().code(),
      absl::StatusCode::kFailedPrecondition);
}

TEST_F(TlsTest, TheNamesOfACertificateAreRead) {
  const TestCa ca;
  TestCa::Wanted wanted;
  wanted.names =
      "DNS:node1.example,DNS:*.example,IP:10.0.0.1,IP:fd00::1,"
      "email:a@example.com";
  Write("daemon", ca.Issue(wanted));
  EXPECT_EQ(CertificateNames(file("daemon.crt")),
            (std::vector<std::string>{"node1.example", "10.0.0.1", "fd00::1"}));
  wanted.names = "";
  Write("nameless", ca.Issue(wanted));
  EXPECT_TRUE(CertificateNames(file("nameless.crt")).empty());
  EXPECT_TRUE(CertificateNames(file("none")).empty());
}

TEST_F(TlsTest, BothSidesMustBeOfTheCa) {
  const TestCa ca, stranger;
  ReplaceFile(file("ca.crt"), ca.certificate());
  ReplaceFile(file("stranger.crt"), stranger.certificate());
  Write("daemon", ca.Issue());
  Write("agent", ca.Issue());
  Write("forger", stranger.Issue());
  StartWithFiles("daemon", "agent");
  EXPECT_TRUE(server_->pin().empty());
  EXPECT_TRUE(Attend(Files("agent"), "a").welcome);
  // The daemon refuses an agent with a certificate of another CA.
  const Attempt forger = Attend(Files("forger"), "b");
  EXPECT_FALSE(forger.welcome);
  EXPECT_FALSE(forger.stranger);
  // It also refuses one without a certificate.
  grpc::SslCredentialsOptions bare;
  bare.pem_root_certs = ca.certificate();
  HandAgent nobody(ChannelTo(port(), grpc::SslCredentials(bare)));
  nobody.SayHello(HelloOf("c"));
  EXPECT_FALSE(nobody.IsWelcome());
  EXPECT_EQ(nobody.End().error_code(), grpc::StatusCode::UNAVAILABLE);
  // The agent refuses a daemon with a certificate of another CA.
  EXPECT_TRUE(Attend(Files("agent", "stranger.crt"), "d").stranger);
  EXPECT_EQ(StatusOf("train").nodes_size(), 1);
  EXPECT_TRUE(StatusOf("train").refused().empty());
}

TEST_F(TlsTest, ANodeNameCanBeBoundToTheCertificate) {
  const TestCa ca;
  ReplaceFile(file("ca.crt"), ca.certificate());
  Write("daemon", ca.Issue());
  TestCa::Wanted wanted;
  wanted.names = "DNS:a,DNS:b.example";
  Write("agent", ca.Issue(wanted));
  wanted.names = "IP:127.0.0.1";
  Write("unnamed", ca.Issue(wanted));
  for (const bool bound : {false, true}) {
    ServerOptions options = WithFiles("daemon");
    options.tls_bind_names = bound;
    // Node names are used again at once, with other certificates.
    options.limits.reconnect_grace = absl::ZeroDuration();
    StartJob(9, options);
    trust_ = Files("agent");
    // The common name (leaf) counts only if there is no DNS name.
    const struct {
      const char* certificate;
      const char* node;
      bool fits;
    } kRows[] = {{"agent", "a", true},         {"agent", "B.example", true},
                 {"agent", "c", false},        {"agent", "leaf", false},
                 {"agent", "example", false},  {"unnamed", "leaf", true},
                 {"unnamed", "unnamed", false}};
    for (const auto& row : kRows) {
      HandAgent agent(ChannelTo(port(), Files(row.certificate)));
      agent.SayHello(HelloOf(row.node));
      const bool welcome = agent.IsWelcome();
      EXPECT_EQ(welcome, row.fits || !bound)
          << row.certificate << " as " << row.node;
      if (welcome) continue;
      const grpc::Status status = agent.End();
      EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
      v1::Refusal refusal;
      ASSERT_TRUE(refusal.ParseFromString(status.error_details()));
      EXPECT_EQ(refusal.code(), v1::REFUSAL_CODE_UNAUTHENTICATED);
      EXPECT_NE(refusal.text().find(row.node), std::string::npos);
    }
    server_.reset();
  }
}

TEST_F(TlsTest, OnlyCertificatesOfTheUsersOwnPkiCanBindNames) {
  ServerOptions options = Options();
  options.tls_bind_names = true;
  EXPECT_EQ(Server::Start(options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(TlsTest, TheDaemonsCertificateMustBeForItsName) {
  const TestCa ca;
  ReplaceFile(file("ca.crt"), ca.certificate());
  TestCa::Wanted wanted;
  wanted.names = "DNS:node1.example";
  Write("daemon", ca.Issue(wanted));
  Write("agent", ca.Issue());
  StartWithFiles("daemon", "agent");
  trust_.server_name = "node1.example";
  EXPECT_TRUE(Attend(Files("agent"), "a").stranger);
  ExpectNothingTold();
  EXPECT_TRUE(Attend(trust_, "a").welcome);
}

TEST_F(TlsTest, ReplacedFilesAreServedWithoutARestart) {
  const TestCa old_ca, new_ca;
  ReplaceFile(file("ca.crt"), old_ca.certificate());
  Write("daemon", old_ca.Issue());
  Write("agent", old_ca.Issue());
  StartWithFiles("daemon", "agent");
  const Trust before = Files("agent");
  HandAgent good(Dial());
  ASSERT_TRUE(good.SayHello(HelloOf("good")));
  ASSERT_TRUE(good.IsWelcome());
  ReplaceFile(file("old.crt"), old_ca.certificate());
  Write("old_agent", old_ca.Issue());
  ReplaceFile(file("ca.crt"), new_ca.certificate());
  Write("daemon", new_ca.Issue());
  Write("agent", new_ca.Issue());
  const absl::Time give_up = absl::Now() + absl::Seconds(60);
  bool welcome = false;
  while (!welcome && absl::Now() < give_up) {
    const auto channel = ChannelTo(port(), Files("agent"));
    HandAgent agent(channel);
    agent.SayHello(HelloOf("a"));
    welcome = agent.IsWelcome();
  }
  EXPECT_TRUE(welcome);
  // Certificates from before the change are no longer accepted, but open
  // streams stay.
  EXPECT_TRUE(Attend(Files("old_agent", "old.crt"), "b").stranger);
  EXPECT_FALSE(Attend(Files("old_agent"), "c").welcome);
  v1::AgentMessage beat;
  beat.mutable_heartbeat();
  EXPECT_TRUE(good.Say(beat));
  EXPECT_GE(StatusOf("train").nodes_size(), 1);
}

}  // namespace
}  // namespace rollcall
