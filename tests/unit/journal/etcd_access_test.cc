// How a real etcd is accessed: with TLS on both sides, and as a user with a
// password.
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/client_unary_call.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/journal/etcd/etcd_client.h"
#include "etcd/etcd.grpc.pb.h"
#include "tests/unit/journal/real_etcd.h"
#include "tests/unit/test_ca.h"

namespace rollcall {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(30);
// Long enough for a refusal, and short because some tests wait until it ends.
constexpr absl::Duration kBrief = absl::Seconds(2);

etcdserverpb::RangeRequest ReadOf(const std::string& key) {
  etcdserverpb::RangeRequest read;
  read.set_key(key);
  return read;
}

// Records the deadline of its last authentication.
class NotesDeadlines final : public etcdserverpb::Auth::Service,
                             public etcdserverpb::KV::Service {
 public:
  absl::Time authenticate;

 private:
  grpc::Status Authenticate(
      grpc::ServerContext* context, const etcdserverpb::AuthenticateRequest*,
      etcdserverpb::AuthenticateResponse* answer) override {
    authenticate = absl::FromChrono(context->deadline());
    answer->set_token("t");
    return grpc::Status::OK;
  }
  grpc::Status Range(grpc::ServerContext*, const etcdserverpb::RangeRequest*,
                     etcdserverpb::RangeResponse*) override {
    return grpc::Status::OK;
  }
};

TEST(EtcdAuthentication, HasMoreTimeThanACall) {
  NotesDeadlines member;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(static_cast<etcdserverpb::Auth::Service*>(&member));
  builder.RegisterService(static_cast<etcdserverpb::KV::Service*>(&member));
  const auto server = builder.BuildAndStart();
  EtcdClient client(
      {{absl::StrCat("127.0.0.1:", port)}, "", "", "", "user", "word"});

  const absl::Time began = absl::Now();
  ASSERT_TRUE(client.Range(ReadOf("x"), kDeadline).ok());
  // Checking a password is expensive for etcd, and a busy machine is slow at
  // it.
  EXPECT_GE(member.authenticate, began + 4 * KeyValueStore::kAttempt);

  // The caller's own deadline bounds the authentication.
  EtcdClient brief(
      {{absl::StrCat("127.0.0.1:", port)}, "", "", "", "user", "word"});
  EXPECT_TRUE(brief.Range(ReadOf("x"), absl::Seconds(2)).ok());
  EXPECT_LT(member.authenticate, absl::Now() + absl::Milliseconds(2500));
}

class EtcdAccessTest : public testing::Test {
 protected:
  void SetUp() override {
    if (access(RealEtcd::kProgram, X_OK) != 0) {
      GTEST_SKIP() << "NOT TESTED: there is no " << RealEtcd::kProgram
                   << " here; scripts/packages.sh test installs it";
    }
    const TestCa::Issued shown = ca_.Issue();
    etcd_ = RealEtcd::Start({ca_.certificate(), shown.certificate, shown.key});
    ASSERT_NE(etcd_, nullptr) << "etcd does not start";
  }

  EtcdAccess Closed(const TestCa& issuer) const {
    const TestCa::Issued ours = issuer.Issue();
    return {{etcd_->endpoint()},
            ca_.certificate(),
            ours.certificate,
            ours.key,
            "",
            ""};
  }
  absl::Status Reads(const EtcdAccess& access, absl::Duration patience,
                     const std::string& key = "x") const {
    return EtcdClient(access).Range(ReadOf(key), patience).status();
  }

  // Makes a call of etcd's Auth service. These requests have no fields, or two
  // fields with the same numbers and wire types as those of Authenticate.
  void Auth(const std::string& method, const std::string& first = "",
            const std::string& second = "", const std::string& token = "") {
    const std::string name = absl::StrCat("/etcdserverpb.Auth/", method);
    const grpc::internal::RpcMethod rpc(name.c_str(),
                                        grpc::internal::RpcMethod::NORMAL_RPC);
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("token", token);
    etcdserverpb::AuthenticateRequest request;
    request.set_name(first);
    request.set_password(second);
    etcdserverpb::AuthenticateResponse response;
    const auto channel = etcd_->Channel();
    const grpc::Status status = grpc::internal::BlockingUnaryCall<
        etcdserverpb::AuthenticateRequest, etcdserverpb::AuthenticateResponse,
        google::protobuf::MessageLite, google::protobuf::MessageLite>(
        channel.get(), rpc, &context, request, &response);
    ASSERT_TRUE(status.ok()) << method << ": " << status.error_message();
    token_ = response.token();
  }
  // Adds a user who may read and write below /rollcall/t/, and nothing else.
  void EnableUsers() {
    Auth("UserAdd", "root", "of root");
    Auth("UserGrantRole", "root", "root");
    Auth("RoleAdd", "rollcall");
    // The bytes are an authpb.Permission: READWRITE, key and range_end.
    Auth("RoleGrantPermission", "rollcall",
         "\x08\x02\x12\x0c/rollcall/t/\x1a\x0c/rollcall/t0");
    Auth("UserAdd", "daemon", "right");
    Auth("UserGrantRole", "daemon", "rollcall");
    Auth("AuthEnable");
  }
  EtcdAccess As(const std::string& user, const std::string& password) const {
    EtcdAccess access = Closed(ca_);
    access.user = user;
    access.password = password;
    return access;
  }

  const TestCa ca_;
  const TestCa other_{"another CA"};
  std::unique_ptr<RealEtcd> etcd_;
  std::string token_;
};

TEST_F(EtcdAccessTest, EachSideMustShowACertificateOfTheCa) {
  EXPECT_EQ(Reads(Closed(ca_), kDeadline), absl::OkStatus());
  EtcdAccess bare = Closed(ca_);
  bare.certificate.clear();
  bare.key.clear();
  EtcdAccess other_etcd = Closed(ca_);
  other_etcd.ca = other_.certificate();
  const struct {
    const char* what;
    EtcdAccess access;
  } rows[] = {
      {"no certificate of ours", bare},
      {"a certificate of another CA", Closed(other_)},
      {"etcd's is of another CA", other_etcd},
      {"plaintext", {{etcd_->endpoint()}, "", "", "", "", ""}},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Reads(row.access, kBrief).code(), absl::StatusCode::kUnavailable)
        << row.what;
  }
}

TEST_F(EtcdAccessTest, AUserMayWhatEtcdAllows) {
  EnableUsers();
  const EtcdAccess daemon = As("daemon", "right");
  EXPECT_EQ(Reads(daemon, kDeadline, "/rollcall/t/jobs/j"), absl::OkStatus());
  EXPECT_EQ(Reads(daemon, kDeadline, "/rollcall/u/jobs/j").code(),
            absl::StatusCode::kPermissionDenied);
  const absl::Status wrong =
      Reads(As("daemon", "wrong"), kDeadline, "/rollcall/t/jobs/j");
  EXPECT_EQ(wrong.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_NE(wrong.message().find("--etcd-password-file"),
            absl::string_view::npos);
  EXPECT_EQ(wrong.message().find("wrong"), absl::string_view::npos);
  EXPECT_FALSE(Reads(Closed(ca_), kDeadline, "/rollcall/t/jobs/j").ok())
      << "without a user";
}

TEST_F(EtcdAccessTest, ATokenThatEtcdTakesNoMoreIsReplaced) {
  EnableUsers();
  EtcdClient client(As("daemon", "right"));
  EXPECT_EQ(client.Range(ReadOf("/rollcall/t/a"), kDeadline).status(),
            absl::OkStatus());
  // etcd forgets a user's tokens when the password is set, even to the same
  // one.
  Auth("Authenticate", "root", "of root");
  Auth("UserChangePassword", "daemon", "right", token_);
  EXPECT_EQ(client.Range(ReadOf("/rollcall/t/a"), kDeadline).status(),
            absl::OkStatus());
  const auto lease = client.Grant(absl::Seconds(60), kDeadline);
  ASSERT_TRUE(lease.ok()) << lease.status();
  Auth("Authenticate", "root", "of root");
  Auth("UserChangePassword", "daemon", "right", token_);
  EXPECT_EQ(client.KeepAlive(lease->id(), kDeadline).status(),
            absl::OkStatus());
  Auth("Authenticate", "root", "of root");
  Auth("UserChangePassword", "daemon", "another", token_);
  EXPECT_EQ(client.Range(ReadOf("/rollcall/t/a"), kDeadline).status().code(),
            absl::StatusCode::kUnauthenticated);
}

}  // namespace
}  // namespace rollcall
