// Which callers may inspect and control a daemon.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "tests/unit/server/access_fixture.h"

namespace rollcall {
namespace {

using AdminTest = AccessTest;

using AdminCall =
    std::function<grpc::Status(v1::Admin::Stub&, grpc::ClientContext&)>;

struct NamedCall {
  const char* name;
  v1::Role least;
  AdminCall call;
};

template <typename Request, typename Response>
AdminCall Calling(grpc::Status (v1::Admin::Stub::*method)(grpc::ClientContext*,
                                                          const Request&,
                                                          Response*),
                  Request request = Request()) {
  return [=](v1::Admin::Stub& stub, grpc::ClientContext& context) {
    Response response;
    return (stub.*method)(&context, request, &response);
  };
}

std::vector<NamedCall> AllCalls() {
  v1::DrainRequest drain;
  drain.set_node("a");
  v1::EvictRequest evict;
  evict.set_node("a");
  v1::CreateTokenRequest create;
  create.set_role(v1::ROLE_VIEWER);
  v1::RevokeTokenRequest revoke;
  revoke.set_id("nobody");
  v1::RotateTokenRequest rotate;
  rotate.set_id("nobody");
  return {
      {"status", v1::ROLE_VIEWER, Calling(&v1::Admin::Stub::Status)},
      {"events", v1::ROLE_VIEWER, Calling(&v1::Admin::Stub::Events)},
      {"watch", v1::ROLE_VIEWER,
       [](v1::Admin::Stub& stub, grpc::ClientContext& context) {
         const auto watch = stub.Watch(&context, v1::StatusRequest());
         v1::JobStatus status;
         if (watch->Read(&status)) {
           context.TryCancel();
           watch->Finish();
           return grpc::Status::OK;
         }
         return watch->Finish();
       }},
      {"drain", v1::ROLE_ADMIN, Calling(&v1::Admin::Stub::Drain, drain)},
      {"evict", v1::ROLE_ADMIN, Calling(&v1::Admin::Stub::Evict, evict)},
      {"create", v1::ROLE_ADMIN,
       Calling(&v1::Admin::Stub::CreateToken, create)},
      {"list", v1::ROLE_ADMIN, Calling(&v1::Admin::Stub::ListTokens)},
      {"revoke", v1::ROLE_ADMIN,
       Calling(&v1::Admin::Stub::RevokeToken, revoke)},
      {"rotate", v1::ROLE_ADMIN,
       Calling(&v1::Admin::Stub::RotateToken, rotate)},
      {"stop", v1::ROLE_ADMIN, Calling(&v1::Admin::Stub::Stop)},
  };
}

TEST_F(AdminTest, TheServiceHasTheseCallsOnly) {
  EXPECT_EQ(AllCalls().size(),
            static_cast<size_t>(v1::StatusRequest::descriptor()
                                    ->file()
                                    ->FindServiceByName("Admin")
                                    ->method_count()));
}

// The answers to wrong tokens come later and later, so all calls are made at
// once.
TEST_F(AdminTest, AdminCallsNeedAToken) {
  StartJob(2);
  v1::JoinToken other = admin_;
  other.mutable_secret()->front() ^= 1;
  const std::string values[] = {"",
                                "Bearer",
                                TokenText(admin_),
                                "Bearer " + TokenText(other),
                                "Bearer x.y",
                                "bearer " + TokenText(admin_),
                                "Basic " + TokenText(admin_)};
  std::vector<std::thread> threads;
  for (const std::string& value : values) {
    for (const NamedCall& call : AllCalls()) {
      threads.emplace_back([this, value, call] {
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() +
                             kServerPatience);
        if (!value.empty()) context.AddMetadata("authorization", value);
        const std::unique_ptr<v1::Admin::Stub> stub = AdminStub();
        const grpc::Status status = call.call(*stub, context);
        EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED)
            << call.name << " with " << value.substr(0, 7);
        EXPECT_EQ(RefusalIn(status), v1::REFUSAL_CODE_UNAUTHENTICATED);
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(
      Refused(),
      (Counts{{"unauthenticated", std::size(values) * AllCalls().size()}}));
  EXPECT_EQ(StatusOf("").state(), v1::JOB_STATE_GATHERING);
}

TEST_F(AdminTest, RolesMayWhatTheyMay) {
  const struct {
    const v1::JoinToken* token;
    bool steers;
  } rows[] = {{&viewer_, false}, {&worker_, false}, {&admin_, true}};
  for (const auto& row : rows) {
    StartJob(2);
    uint64_t refused = 0;
    for (const NamedCall& call : AllCalls()) {
      grpc::ClientContext context;
      Authorize(context, *row.token);
      const std::unique_ptr<v1::Admin::Stub> stub = AdminStub();
      const grpc::Status status = call.call(*stub, context);
      if (call.least == v1::ROLE_VIEWER || row.steers) {
        EXPECT_NE(status.error_code(), grpc::StatusCode::PERMISSION_DENIED)
            << call.name;
        EXPECT_NE(status.error_code(), grpc::StatusCode::UNAUTHENTICATED)
            << call.name;
      } else {
        ExpectRefused(status, grpc::StatusCode::PERMISSION_DENIED,
                      v1::REFUSAL_CODE_ROLE);
        ++refused;
      }
    }
    EXPECT_EQ(StatusOf("").state(),
              row.steers ? v1::JOB_STATE_FAILED : v1::JOB_STATE_GATHERING);
    EXPECT_EQ(Refused(), refused == 0 ? Counts{} : Counts({{"role", refused}}));
    server_.reset();
  }
}

TEST_F(AdminTest, ATokensSecretIsToldOnce) {
  StartJob(2);
  v1::CreateTokenRequest request = Wanted(v1::ROLE_VIEWER, 3, 60);
  request.set_description("for a dashboard");
  const v1::JoinToken token = MustCreate(request);
  EXPECT_TRUE(IsToken(token));
  const v1::TokenStatus listed = Listed(token.id());
  EXPECT_EQ(listed.role(), v1::ROLE_VIEWER);
  // The daemon has only one job, so a token without a job is for that one.
  EXPECT_EQ(listed.job(), "");
  EXPECT_EQ(listed.uses_left(), 3u);
  EXPECT_EQ(listed.description(), "for a dashboard");
  EXPECT_TRUE(listed.has_expires_at());
  EXPECT_EQ(listed.SerializeAsString().find(token.secret()), std::string::npos);
  for (const char* bad : {"No Job", "other job\n"}) {
    grpc::ClientContext context;
    Authorize(context);
    v1::CreateTokenRequest wrong = request;
    wrong.set_job(bad);
    v1::CreateTokenResponse response;
    EXPECT_EQ(AdminStub()->CreateToken(&context, wrong, &response).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
}

TEST_F(AdminTest, EventsAreThoseOfOneJob) {
  StartJob(2);
  const auto ask = [this](const v1::EventsRequest& request) {
    grpc::ClientContext context;
    Authorize(context);
    v1::EventsResponse response;
    const grpc::Status status =
        AdminStub()->Events(&context, request, &response);
    return std::make_pair(status, response);
  };
  v1::EventsRequest request;
  const auto [status, answer] = ask(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_GE(answer.lines_size(), 1);
  EXPECT_NE(answer.lines(0).find("\"event\":\"start\""), std::string::npos);
  request.set_after(answer.last());
  EXPECT_EQ(ask(request).second.lines_size(), 0);
  request.mutable_within()->set_seconds(-1);
  EXPECT_EQ(ask(request).first.error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  request.clear_within();
  request.set_job("none");
  EXPECT_EQ(ask(request).first.error_code(), grpc::StatusCode::NOT_FOUND);
}

// A standing daemon with two jobs: each viewer sees the events of its own.
TEST_F(AdminTest, AViewerSeesTheEventsOfItsJobAlone) {
  Start(Options());
  std::vector<std::unique_ptr<HandAgent>> agents;
  std::map<std::string, v1::JoinToken> viewers;
  for (const std::string job : {"train", "eval"}) {
    v1::Hello hello = HelloOf(job + "-node");
    hello.set_job(job);
    hello.mutable_settings()->set_nodes_max(2);
    agents.push_back(std::make_unique<HandAgent>(Dial()));
    ASSERT_TRUE(agents.back()->SayHello(hello));
    ASSERT_TRUE(agents.back()->IsWelcome());
    v1::CreateTokenRequest request = Wanted(v1::ROLE_VIEWER);
    request.set_job(job);
    viewers[job] = MustCreate(request);
  }
  const auto ask = [this](const v1::JoinToken& token, const std::string& job) {
    grpc::ClientContext context;
    Authorize(context, token);
    v1::EventsRequest request;
    request.set_job(job);
    v1::EventsResponse response;
    const grpc::Status status =
        AdminStub()->Events(&context, request, &response);
    return std::make_pair(status, absl::StrJoin(response.lines(), "\n"));
  };
  for (const auto& [job, token] : viewers) {
    const std::string other = job == "train" ? "eval" : "train";
    for (const std::string& named : {job, std::string()}) {
      const auto [status, lines] = ask(token, named);
      ASSERT_TRUE(status.ok()) << job << ": " << status.error_message();
      EXPECT_TRUE(absl::StrContains(lines, job + "-node")) << lines;
      EXPECT_FALSE(absl::StrContains(lines, other + "-node")) << lines;
    }
    ExpectRefused(ask(token, other).first, grpc::StatusCode::PERMISSION_DENIED,
                  v1::REFUSAL_CODE_OTHER_JOB);
  }
}

}  // namespace
}  // namespace rollcall
