#include "daemon/server/web/routes.h"

#include <map>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/core/admission/admission.h"
#include "daemon/security/join_string.h"
#include "daemon/security/secrets/token.h"

namespace rollcall {
namespace {

std::optional<WebPath> PathOf(std::string_view path) {
  static const auto& kPaths = *new std::map<std::string_view, WebPath>{
      {"/", WebPath::kPage},
      {"/healthz", WebPath::kHealth},
      {"/readyz", WebPath::kReady},
      {"/status.json", WebPath::kStatus},
      {"/events.json", WebPath::kEvents},
      {"/metrics", WebPath::kMetrics},
  };
  const auto at = kPaths.find(path);
  if (at == kPaths.end()) return std::nullopt;
  return at->second;
}

// Parses the query. Errors contain nothing from the request.
absl::Status TakeQuery(std::string_view query, Route& route) {
  if (query.empty()) return absl::OkStatus();
  const bool status = route.path == WebPath::kStatus;
  const bool events = route.path == WebPath::kEvents;
  if (!status && !events) {
    return absl::InvalidArgumentError(
        "expected no query; /status.json takes job=NAME and pings=1, "
        "/events.json job=NAME and after=ID");
  }
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(query.data(), query.size()), '&')) {
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (pair.first == "job") {
      if (!AdmitJobId(pair.second).ok()) {
        return absl::InvalidArgumentError(
            "job: expected 1 to 63 of a-z, 0-9 and -, got something else");
      }
      route.job = pair.second;
    } else if (status && part == "pings=1") {
      route.pings = true;
    } else if (events && pair.first == "after") {
      if (!absl::SimpleAtoi(pair.second, &route.after)) {
        return absl::InvalidArgumentError(
            "after: expected the id of an event, got something else");
      }
    } else if (pair.first == "token") {
      return absl::InvalidArgumentError(
          "a token does not belong into a URL, which is logged on its way; "
          "send it as `Authorization: Bearer TOKEN`, or open the page with "
          "/#token=TOKEN; revoke this one with `rollcall token revoke`");
    } else {
      return absl::InvalidArgumentError(
          status ? "query: expected job=NAME or pings=1, got something else"
                 : "query: expected job=NAME or after=ID, got something else");
    }
  }
  return absl::OkStatus();
}

// The token in an Authorization header; empty if the header has none. The loop
// refuses an empty token and counts the refusal.
v1::JoinToken TokenOf(std::string_view authorization) {
  constexpr std::string_view kBearer = "bearer ";
  if (authorization.size() < kBearer.size() ||
      !absl::EqualsIgnoreCase(
          absl::string_view(authorization.data(), kBearer.size()),
          absl::string_view(kBearer.data(), kBearer.size()))) {
    return {};
  }
  const std::string_view text = authorization.substr(kBearer.size());
  absl::StatusOr<v1::JoinToken> token = ParseTokenText(text);
  if (token.ok()) return *std::move(token);
  // `rollcall token create` prints a join string, which contains the token.
  const absl::StatusOr<v1::JoinString> join =
      DecodeJoinString(std::string(text));
  return join.ok() ? join->token() : v1::JoinToken();
}

WebAnswer Unauthenticated(std::string text) {
  WebAnswer answer = TextAnswer(401, std::move(text));
  answer.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"rollcall\"");
  return answer;
}

}  // namespace

WebAnswer TextAnswer(int status, std::string text) {
  WebAnswer answer;
  answer.status = status;
  answer.body = std::make_shared<const std::string>(absl::StrCat(text, "\n"));
  return answer;
}

WebAnswer ErrorAnswer(const absl::Status& status) {
  std::string text(status.message());
  switch (status.code()) {
    case absl::StatusCode::kUnauthenticated:
      return Unauthenticated(std::move(text));
    case absl::StatusCode::kPermissionDenied:
      return TextAnswer(403, std::move(text));
    case absl::StatusCode::kNotFound:
      return TextAnswer(404, std::move(text));
    case absl::StatusCode::kInvalidArgument:
      return TextAnswer(400, std::move(text));
    case absl::StatusCode::kResourceExhausted:
      return TextAnswer(429, std::move(text));
    default:
      return TextAnswer(503, std::move(text));
  }
}

std::variant<Route, WebAnswer> RouteOf(const WebRequest& request,
                                       bool loopback) {
  if (request.method != "GET" && request.method != "HEAD") {
    WebAnswer answer =
        TextAnswer(405, "expected GET or HEAD: this port only shows");
    answer.headers.emplace_back("Allow", "GET, HEAD");
    return answer;
  }
  const std::string_view target = request.target;
  const size_t mark = target.find('?');
  const std::optional<WebPath> path = PathOf(target.substr(0, mark));
  if (!path.has_value()) {
    return TextAnswer(
        404,
        "expected /, /status.json, /events.json, /metrics, /healthz or "
        "/readyz, got another path");
  }
  Route route{*path};
  const absl::Status fits = TakeQuery(
      mark == std::string_view::npos ? "" : target.substr(mark + 1), route);
  if (!fits.ok()) return ErrorAnswer(fits);
  const bool shows_jobs = route.path == WebPath::kStatus ||
                          route.path == WebPath::kEvents ||
                          route.path == WebPath::kMetrics;
  if (loopback) {
    if (shows_jobs && !IsLoopback(absl::AsciiStrToLower(request.host))) {
      return TextAnswer(
          421,
          "Host: expected localhost or a loopback address, got another name; "
          "a port that other machines use is opened by --http ADDR:PORT with "
          "their address of this one");
    }
    route.open = true;
    return route;
  }
  route.open = !shows_jobs;
  if (route.open) return route;
  if (request.authorization.empty()) {
    return Unauthenticated(
        "expected `Authorization: Bearer TOKEN` with what `rollcall token "
        "create --role viewer` prints, got none");
  }
  route.token = TokenOf(request.authorization);
  return route;
}

}  // namespace rollcall
