#include "daemon/server/trace/otlp_json.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/security/crypto/digest.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

constexpr size_t kTraceIdBytes = 16;
constexpr size_t kSpanIdBytes = 8;

std::string OtlpId(size_t bytes, const std::string& text) {
  return absl::BytesToHexString(Sha256(text).substr(0, bytes));
}

}  // namespace

std::string OtlpTime(absl::Time time) {
  return absl::StrCat(absl::ToUnixNanos(time));
}

nlohmann::ordered_json OtlpAttribute(const std::string& key,
                                     const std::string& value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}
nlohmann::ordered_json OtlpAttribute(const std::string& key, uint64_t value) {
  return {{"key", key}, {"value", {{"intValue", absl::StrCat(value)}}}};
}

std::string OtlpTraceId(const std::string& run) {
  return OtlpId(kTraceIdBytes, absl::StrCat("trace ", run));
}
std::string OtlpRunSpanId(const std::string& run) {
  return OtlpSpanId(absl::StrCat("run ", run));
}
std::string OtlpSpanId(const std::string& text) {
  return OtlpId(kSpanIdBytes, text);
}

std::string OtlpRequest(nlohmann::ordered_json spans) {
  using nlohmann::ordered_json;
  const ordered_json request = {
      {"resourceSpans",
       ordered_json::array(
           {{{"resource",
              {{"attributes",
                ordered_json::array(
                    {OtlpAttribute("service.name", std::string("rollcall")),
                     OtlpAttribute("service.version",
                                   std::string(ROLLCALL_VERSION))})}}},
             {"scopeSpans",
              ordered_json::array({{{"scope", {{"name", "rollcall"}}},
                                    {"spans", std::move(spans)}}})}}})}};
  return request.dump(-1, ' ', /*ensure_ascii=*/false,
                      ordered_json::error_handler_t::replace);
}

}  // namespace rollcall
