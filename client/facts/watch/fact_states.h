// FactStates: the latest value of each watched fact, as text, and what has
// changed.
//
// A pure value, and pure functions that put a fact's state into a word or two.
#ifndef ROLLCALL_CLIENT_FACTS_WATCH_FACT_STATES_H_
#define ROLLCALL_CLIENT_FACTS_WATCH_FACT_STATES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/facts/system/netlink.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// `count` is 1. The texts are printable and cut to their bounds.
v1::FactChange MakeFactChange(v1::FactKind kind, std::string_view subject,
                              std::string_view before, std::string_view after);

class FactStates {
 public:
  explicit FactStates(v1::FactKind kind) : kind_(kind) {}

  // The first value of a subject is no change: the Hello has it.
  std::optional<v1::FactChange> Take(const std::string& subject,
                                     const std::string& value);
  bool Knows(const std::string& subject) const {
    return values_.contains(subject);
  }

 private:
  const v1::FactKind kind_;
  std::map<std::string, std::string> values_;
};

// The interfaces that the node had when the watch began. Those that only exist
// inside the machine (loopback, IsLocalBridge, veths in a bridge) are left out:
// they come and go with containers, and peers never use them.
class LinkStates {
 public:
  // The answer to a request for all interfaces. The first complete one sets
  // which interfaces are watched. In later ones, an interface that `links`
  // lacks is gone; if `status` is an error, `links` says nothing about those
  // that it lacks.
  std::vector<v1::FactChange> TakeAll(const absl::Status& status,
                                      const std::vector<NetworkLink>& links);
  // These interfaces have changed.
  std::vector<v1::FactChange> Take(const std::vector<NetworkLink>& links);
  // These interfaces are gone.
  std::vector<v1::FactChange> TakeGone(const std::vector<NetworkLink>& links);

 private:
  std::map<std::string, std::string> watched_;  // Interface to subject.
  bool begun_ = false;
  FactStates states_{v1::FACT_KIND_INTERFACE};
};

// "up", "no carrier" or "down".
std::string LinkValue(const NetworkLink& link);

// The free space of a folder's file system.
class SpaceStates {
 public:
  explicit SpaceStates(const std::string& folder);

  // A change: there is little space now, or no longer. The first call returns
  // nullopt even if there is little space: the Hello says so already.
  std::optional<v1::FactChange> Take(uint64_t free_bytes, uint64_t size_bytes);

 private:
  const std::string subject_;
  std::optional<bool> was_low_;
  // At the start, and at the latest change.
  std::string before_;
};

// Whether a folder's file system has little space: less than 5% free, or less
// than 1 GiB of 4 GiB or more. `was_low`: it must have a fifth more than that
// to count as recovered.
bool IsLowOnSpace(uint64_t free_bytes, uint64_t size_bytes, bool was_low);
// "512 MiB free (3%)".
std::string SpaceText(uint64_t free_bytes, uint64_t size_bytes);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_WATCH_FACT_STATES_H_
