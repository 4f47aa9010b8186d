// EtcdLocation: where in etcd several daemons keep their state, as written in
// `--state`: etcd://HOST:PORT,HOST:PORT/NAME.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_JOURNAL_ETCD_ETCD_LOCATION_H_
#define ROLLCALL_DAEMON_JOURNAL_ETCD_ETCD_LOCATION_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rollcall {

struct EtcdLocation {
  // HOST:PORT of etcd's members, 1 to kEndpointsMax.
  std::vector<std::string> endpoints;
  // Daemons with the same name share one state; daemons with different names
  // share nothing.
  std::string name = "default";

  static constexpr size_t kEndpointsMax = 16;

  // Whether `state` means etcd, not a folder.
  static bool Means(std::string_view state);
  // /NAME and each :PORT (default 2379) are optional. INVALID_ARGUMENT: `url`
  // breaks the grammar; the message says what was expected.
  static absl::StatusOr<EtcdLocation> Parse(std::string_view url);

  // Prefix of all keys: /rollcall/NAME/.
  std::string Prefix() const;
  // The location in the format that Parse reads.
  std::string Text() const;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_ETCD_ETCD_LOCATION_H_
