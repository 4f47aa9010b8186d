// EtcdPlace: where in etcd the state of some daemons lies, as `--state` says
// it: etcd://HOST:PORT,HOST:PORT/NAME.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_JOURNAL_ETCD_PLACE_H_
#define ROLLCALL_DAEMON_JOURNAL_ETCD_PLACE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rollcall {

struct EtcdPlace {
  // HOST:PORT of etcd's members, 1 to kEndpointsMax.
  std::vector<std::string> endpoints;
  // Daemons of one name share one state; of another, nothing.
  std::string name = "default";

  static constexpr size_t kEndpointsMax = 16;

  // Whether `state` means etcd and not a folder.
  static bool Means(std::string_view state);
  // NAME may be left out, and so may a PORT (2379). INVALID_ARGUMENT: `url`
  // breaks the grammar; says what was expected.
  static absl::StatusOr<EtcdPlace> Parse(std::string_view url);

  // What all keys begin with: /rollcall/NAME/.
  std::string Prefix() const;
  // As Parse takes it.
  std::string Text() const;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_ETCD_PLACE_H_
