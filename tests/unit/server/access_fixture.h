// AccessTest: a daemon whose tokens are made, revoked and listed by hand, and
// its reports of refused clients.
#ifndef ROLLCALL_TESTS_UNIT_SERVER_ACCESS_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_SERVER_ACCESS_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/unit/server/server_fixture.h"

namespace rollcall {

using Counts = std::map<std::string, uint64_t>;

class AccessTest : public JournaledServerTest {
 protected:
  v1::CreateTokenRequest Wanted(v1::Role role, uint32_t uses = 0,
                                int64_t seconds = 0) {
    v1::CreateTokenRequest request;
    request.set_role(role);
    request.set_uses(uses);
    if (seconds != 0) request.mutable_lifetime()->set_seconds(seconds);
    return request;
  }
  v1::JoinToken MustCreate(const v1::CreateTokenRequest& request) {
    grpc::ClientContext context;
    Authorize(context);
    v1::CreateTokenResponse response;
    const grpc::Status made =
        AdminStub()->CreateToken(&context, request, &response);
    EXPECT_TRUE(made.ok()) << made.error_message();
    return response.token();
  }
  grpc::Status Revoke(const std::string& id) {
    grpc::ClientContext context;
    Authorize(context);
    v1::RevokeTokenRequest request;
    request.set_id(id);
    v1::RevokeTokenResponse response;
    return AdminStub()->RevokeToken(&context, request, &response);
  }
  // Revokes with --cascade, and returns the names of the evicted nodes.
  std::vector<std::string> Cascade(const std::string& id) {
    grpc::ClientContext context;
    Authorize(context);
    v1::RevokeTokenRequest request;
    request.set_id(id);
    request.set_cascade(true);
    v1::RevokeTokenResponse response;
    const grpc::Status revoked =
        AdminStub()->RevokeToken(&context, request, &response);
    EXPECT_TRUE(revoked.ok()) << revoked.error_message();
    return {response.evicted().begin(), response.evicted().end()};
  }
  grpc::Status Evict(const std::string& node) {
    grpc::ClientContext context;
    Authorize(context);
    v1::EvictRequest request;
    request.set_node(node);
    v1::EvictResponse response;
    return AdminStub()->Evict(&context, request, &response);
  }
  grpc::Status Drain(const std::string& node) {
    grpc::ClientContext context;
    Authorize(context);
    v1::DrainRequest request;
    request.set_node(node);
    v1::DrainResponse response;
    return AdminStub()->Drain(&context, request, &response);
  }
  v1::TokenStatus Listed(const std::string& id) {
    grpc::ClientContext context;
    Authorize(context);
    v1::ListTokensResponse response;
    EXPECT_TRUE(AdminStub()
                    ->ListTokens(&context, v1::ListTokensRequest(), &response)
                    .ok());
    for (const v1::TokenStatus& token : response.tokens()) {
      if (token.id() == id) return token;
    }
    ADD_FAILURE() << "no token " << id;
    return v1::TokenStatus();
  }
  // Calls Status with this token, and returns how the call ends.
  grpc::Status Look(const v1::JoinToken& token, const std::string& job = "") {
    grpc::ClientContext context;
    Authorize(context, token);
    v1::StatusRequest request;
    request.set_job(job);
    v1::JobStatus status;
    return AdminStub()->Status(&context, request, &status);
  }
  // Asks until the token has expired.
  void AwaitExpiry(const v1::JoinToken& token) {
    const absl::Time give_up = absl::Now() + absl::Seconds(60);
    grpc::Status status;
    do {
      status = Look(token);
    } while (status.ok() && absl::Now() < give_up);
    ExpectRefused(status, grpc::StatusCode::UNAUTHENTICATED,
                  v1::REFUSAL_CODE_TOKEN_EXPIRED);
  }
  v1::Hello HelloWith(const std::string& node, const v1::JoinToken& token) {
    v1::Hello hello = HelloOf(node);
    *hello.mutable_token() = token;
    return hello;
  }
  // The next Hello of an agent that was welcomed.
  static v1::Hello Next(v1::Hello hello, const v1::Welcome& welcome) {
    hello.set_run(welcome.run());
    hello.set_node_credential(welcome.node_credential());
    return hello;
  }
  // An agent attends with this Hello and hangs up. Returns once its stream has
  // ended.
  v1::Welcome AttendAndHangUp(const v1::Hello& hello) {
    HandAgent agent(Dial());
    EXPECT_TRUE(agent.SayHello(hello));
    const v1::Welcome welcome = agent.HearWelcome().value_or(v1::Welcome());
    agent.HangUp();
    EXPECT_TRUE(agent.End().ok());
    return welcome;
  }
  // As above, but "train" is stopped with exit code 4, and the agent
  // acknowledges the end before it hangs up.
  v1::Welcome AttendToTheEnd(const v1::Hello& hello) {
    HandAgent agent(Dial());
    EXPECT_TRUE(agent.SayHello(hello));
    const v1::Welcome welcome = agent.HearWelcome().value_or(v1::Welcome());
    v1::StopResponse response;
    EXPECT_TRUE(Stop("train", 4, &response).ok());
    EXPECT_TRUE(agent.HearKind(v1::DaemonMessage::kEnd).has_value());
    v1::AgentMessage seen;
    seen.mutable_end_seen();
    EXPECT_TRUE(agent.Say(seen));
    agent.HangUp();
    EXPECT_TRUE(agent.End().ok());
    return welcome;
  }
  Counts Refused() {
    const v1::JobStatus status = StatusOf("");
    return Counts(status.refused().begin(), status.refused().end());
  }
};

// The number of times that `what` occurs in `text`.
inline size_t Times(const std::string& text, const std::string& what) {
  size_t times = 0;
  for (size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + 1)) {
    ++times;
  }
  return times;
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_SERVER_ACCESS_FIXTURE_H_
