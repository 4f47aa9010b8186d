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

#include "client/facts/netlink.h"
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

// The interfaces that the node had when the watch began. Loopback is left out;
// so are veths in a bridge, since they come and go with containers.
class LinkStates {
 public:
  // The first call sets which interfaces are watched. `whole`: an interface
  // that `links` lacks is gone.
  std::vector<v1::FactChange> Take(const std::vector<NetworkLink>& links,
                                   bool whole);
  // These interfaces are gone.
  std::vector<v1::FactChange> TakeGone(const std::vector<NetworkLink>& links);

 private:
  std::map<std::string, std::string> watched_;  // Interface to subject.
  bool begun_ = false;
  FactStates states_{v1::FACT_KIND_INTERFACE};
};

// "up", "no carrier" or "down".
std::string LinkValue(const NetworkLink& link);

// Whether a folder's file system has little space: less than 5% free, or less
// than 1 GiB of 4 GiB or more. `was_low`: it must have a fifth more than that
// to count as recovered.
bool IsLowOnSpace(uint64_t free_bytes, uint64_t size_bytes, bool was_low);
// "512 MiB free (3%)".
std::string SpaceText(uint64_t free_bytes, uint64_t size_bytes);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_WATCH_FACT_STATES_H_
