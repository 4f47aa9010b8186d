#include "daemon/server/web/status_page.h"

#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/security/crypto/digest.h"
#include "status_page_text.h"

namespace rollcall {
namespace {

// The digest of the only element of this name, in the form that a policy uses.
std::string SourceOf(std::string_view page, const std::string& element) {
  const std::string begin = absl::StrCat("<", element, ">");
  const size_t from = page.find(begin) + begin.size();
  const size_t to = page.find(absl::StrCat("</", element, ">"), from);
  return absl::StrCat(
      "'sha256-",
      absl::Base64Escape(Sha256(std::string(page.substr(from, to - from)))),
      "'");
}

}  // namespace

const std::shared_ptr<const std::string>& StatusPage() {
  static const auto& kPage = *new std::shared_ptr<const std::string>(
      std::make_shared<const std::string>(kStatusPageText,
                                          sizeof(kStatusPageText)));
  return kPage;
}

const std::string& StatusPagePolicy() {
  static const auto& kPolicy = *new std::string(absl::StrCat(
      "default-src 'none'; script-src ", SourceOf(*StatusPage(), "script"),
      "; style-src ", SourceOf(*StatusPage(), "style"),
      "; connect-src 'self'; img-src data:; base-uri 'none'; form-action "
      "'none'; frame-ancestors 'none'"));
  return kPolicy;
}

}  // namespace rollcall
