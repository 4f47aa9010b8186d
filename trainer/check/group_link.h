// GroupLink: connects the two or three processes of a paired check over TCP and
// exchanges small values among them.
//
// The first node of the group listens and the others connect to it. Each side
// proves by an HMAC over both sides' nonces that it has the group's secret. An
// unauthenticated connection is closed if its proof is wrong, after 5 s, or if
// more than 64 wait; the group goes on.
// After that, the connections are neither encrypted nor authenticated again,
// like those of the collectives that use them.
//
// Everything that arrives is bounded and checked.
//
// Thread rule: one thread at a time.
#ifndef ROLLCALL_TRAINER_CHECK_GROUP_LINK_H_
#define ROLLCALL_TRAINER_CHECK_GROUP_LINK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/files/fd.h"
#include "trainer/check/group_request.h"

namespace rollcall {

struct GroupListener {
  // Listens on all addresses, on a port that the kernel chooses. UNAVAILABLE:
  // the message has the system's error.
  static absl::StatusOr<GroupListener> Open();

  Fd fd;
  uint16_t port = 0;
};

class GroupLink {
 public:
  // The first node: waits until all others have connected. DEADLINE_EXCEEDED:
  // a node did not connect in time; the message names its address.
  static absl::StatusOr<std::unique_ptr<GroupLink>> Accept(
      const GroupListener& listener, const GroupRequest& request,
      absl::Time until);
  // Another node: connects to the first. UNAVAILABLE: it was not reached.
  // PERMISSION_DENIED: what answers there does not have the secret.
  // DEADLINE_EXCEEDED: it does not answer in time.
  static absl::StatusOr<std::unique_ptr<GroupLink>> Dial(
      const GroupRequest& request, absl::Time until);

  // Gives a value of at most Limits::exchange_value_bytes_max for a key.
  // Returns the values of all nodes, by place. All nodes must call it with the
  // same keys in the same order. UNAVAILABLE: a node has left.
  // DEADLINE_EXCEEDED: a node is silent. INTERNAL: a node sent something else.
  // After an error, the link is unusable.
  absl::StatusOr<std::vector<std::string>> Exchange(const std::string& key,
                                                    const std::string& value);

 private:
  GroupLink(std::vector<std::string> addresses, size_t place, absl::Time until)
      : addresses_(std::move(addresses)), place_(place), until_(until) {}

  absl::StatusOr<std::string> Receive(size_t from, const std::string& key);

  const std::vector<std::string> addresses_;
  const size_t place_;
  const absl::Time until_;
  // By place. The first node has one to each other node; the others have one
  // to the first.
  Fd peers_[GroupRequest::kNodesMax];
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_GROUP_LINK_H_
