#include "client/launch/run_spec/exclusive_flags.h"

#include <algorithm>
#include <set>
#include <vector>

namespace rollcall {
namespace {

// Groups of flags. Flags of one row may be given together, but not with flags
// of another row of the same group.
const std::vector<std::vector<std::set<std::string>>>& Exclusive() {
  static const auto& groups =
      *new std::vector<std::vector<std::set<std::string>>>{
          {{"--job"}, {"--rdzv-id"}},
          {{"--no-hosts"}, {"--hosts-file", "--hosts-names"}},
          {{"--insecure"},
           {"--secret-file"},
           {"--tls-ca", "--tls-cert", "--tls-key", "--tls-bind-names"}},
          {{"--local-workers"},
           {"--hostfile", "--host", "--ssh", "--push"},
           {"--worker-template", "--submit"}},
          {{"--hostfile"}, {"--host"}},
      };
  return groups;
}

}  // namespace

bool ExcludesFlag(const std::string& one, const std::string& other) {
  for (const auto& group : Exclusive()) {
    const auto row_of = [&group](const std::string& flag) {
      return std::find_if(group.begin(), group.end(), [&flag](const auto& row) {
        return row.contains(flag);
      });
    };
    const auto a = row_of(one), b = row_of(other);
    if (a != group.end() && b != group.end() && a != b) return true;
  }
  return false;
}

}  // namespace rollcall
