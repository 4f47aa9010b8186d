#include "client/facts/communication.h"

#include <openssl/sha.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/admission/communication_variables.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

bool MayBeSent(const std::string& name, const std::string& value) {
  return value.size() <= Limits::variable_value_bytes_max &&
         std::all_of(value.begin(), value.end(), absl::ascii_isprint) &&
         !MayBeSecret(name, value);
}

}  // namespace

v1::CommunicationVariables CommunicationVariablesIn(
    const std::vector<std::string>& environment,
    const std::vector<std::string>& nccl_conf) {
  std::map<std::string, std::string> found;
  for (const auto* list : {&environment, &nccl_conf}) {
    std::map<std::string, std::string> here;
    for (const std::string& entry : *list) {
      const size_t at = entry.find('=');
      if (at == std::string::npos) continue;
      std::string name = entry.substr(0, at);
      if (!IsCommunicationVariable(name)) continue;
      here.try_emplace(std::move(name), entry.substr(at + 1));
    }
    std::erase_if(here, [](const auto& each) { return each.second.empty(); });
    found.merge(here);
  }
  v1::CommunicationVariables all;
  for (const auto& [name, value] : found) {
    if (static_cast<size_t>(all.variables_size()) ==
        Limits::communication_variables_max) {
      all.set_more(true);
      break;
    }
    v1::CommunicationVariable& variable = *all.add_variables();
    variable.set_name(name);
    if (MayBeSent(name, value)) {
      variable.set_value(value);
    } else {
      const std::string text = absl::StrCat(name, std::string(1, '\0'), value);
      unsigned char digest[SHA256_DIGEST_LENGTH];
      SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
             digest);
      variable.set_digest(digest, kVariableDigestBytes);
    }
  }
  return all;
}

}  // namespace rollcall
