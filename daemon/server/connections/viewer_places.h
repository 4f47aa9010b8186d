// ViewerPlaces: the connections that have shown only a viewer's token. Their
// number is bounded, for each token and for all tokens together.
//
// Pure: it decides, and UnauthenticatedConnections disconnects. Thread rule:
// one thread at a time.
#ifndef ROLLCALL_DAEMON_SERVER_CONNECTIONS_VIEWER_PLACES_H_
#define ROLLCALL_DAEMON_SERVER_CONNECTIONS_VIEWER_PLACES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace rollcall {

class ViewerPlaces {
 public:
  // Grows with each connection.
  using Id = uint64_t;

  ViewerPlaces(size_t of_token_max, size_t of_all_max)
      : of_token_max_(of_token_max), of_all_max_(of_all_max) {}

  // Adds a connection. If there are too many now, returns the one that has to
  // go: this one if its token has too many, else the newest one of the token
  // that has most.
  std::optional<Id> Add(const std::string& token, Id id) {
    std::set<Id>& own = by_token_[token];
    own.insert(id);
    ++count_;
    if (own.size() > of_token_max_) return id;
    if (count_ <= of_all_max_) return std::nullopt;
    const auto most = std::max_element(
        by_token_.begin(), by_token_.end(), [](const auto& a, const auto& b) {
          return a.second.size() < b.second.size();
        });
    return *most->second.rbegin();
  }

  void Remove(const std::string& token, Id id) {
    const auto at = by_token_.find(token);
    if (at == by_token_.end()) return;
    count_ -= at->second.erase(id);
    if (at->second.empty()) by_token_.erase(at);
  }

 private:
  const size_t of_token_max_;
  const size_t of_all_max_;
  std::map<std::string, std::set<Id>> by_token_;
  size_t count_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_CONNECTIONS_VIEWER_PLACES_H_
