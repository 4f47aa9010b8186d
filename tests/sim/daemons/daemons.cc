#include "tests/sim/daemons/daemons.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "daemon/base/check.h"

namespace rollcall::sim {
namespace {

constexpr char kNetwork[] = "10.9.0.";
constexpr char kPort[] = ":29400";

}  // namespace

std::string EndpointOf(uint32_t daemon) {
  return absl::StrCat(kNetwork, 1 + daemon, kPort);
}

uint32_t DaemonAt(const std::string& endpoint) {
  absl::string_view text = endpoint;
  uint32_t number = 0;
  CHECK(absl::ConsumePrefix(&text, kNetwork) &&
        absl::ConsumeSuffix(&text, kPort) && absl::SimpleAtoi(text, &number));
  return number - 1;
}

}  // namespace rollcall::sim
