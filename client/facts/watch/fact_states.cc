#include "client/facts/watch/fact_states.h"

#include <linux/if.h>

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/bytes_text.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/limits.h"
#include "daemon/core/network_plan/plan_node.h"

namespace rollcall {
namespace {

constexpr char kGone[] = "gone";

void Add(std::optional<v1::FactChange> change,
         std::vector<v1::FactChange>& changes) {
  if (change) changes.push_back(*std::move(change));
}

}  // namespace

v1::FactChange MakeFactChange(v1::FactKind kind, std::string_view subject,
                              std::string_view before, std::string_view after) {
  constexpr size_t kMost = Limits::fact_text_bytes_max;
  v1::FactChange change;
  change.set_kind(kind);
  change.set_subject(Printable(subject, kMost));
  change.set_before(Printable(before, kMost));
  change.set_after(Printable(after, kMost));
  change.set_count(1);
  return change;
}

std::optional<v1::FactChange> FactStates::Take(const std::string& subject,
                                               const std::string& value) {
  const auto [at, is_new] = values_.try_emplace(subject, value);
  if (is_new || at->second == value) return std::nullopt;
  const std::string before = std::exchange(at->second, value);
  return MakeFactChange(kind_, subject, before, value);
}

std::string LinkValue(const NetworkLink& link) {
  if ((link.flags & IFF_UP) == 0) return "down";
  return (link.flags & IFF_RUNNING) == 0 ? "no carrier" : "up";
}

std::vector<v1::FactChange> LinkStates::TakeAll(
    const absl::Status& status, const std::vector<NetworkLink>& links) {
  if (!status.ok()) return Take(links);
  std::set<std::string> present;
  for (const NetworkLink& link : links) {
    present.insert(link.name);
    const bool wanted = (link.flags & IFF_LOOPBACK) == 0 &&
                        !IsLocalBridge(link.name) &&
                        (link.kind != "veth" || link.master == 0) &&
                        watched_.size() < Limits::interfaces_per_node_max;
    if (!begun_ && wanted) {
      watched_.try_emplace(link.name, absl::StrCat("interface ", link.name));
    }
  }
  begun_ = true;
  std::vector<v1::FactChange> changes = Take(links);
  for (const auto& [name, subject] : watched_) {
    if (!present.contains(name)) Add(states_.Take(subject, kGone), changes);
  }
  return changes;
}

std::vector<v1::FactChange> LinkStates::Take(
    const std::vector<NetworkLink>& links) {
  std::vector<v1::FactChange> changes;
  for (const NetworkLink& link : links) {
    const auto at = watched_.find(link.name);
    if (at == watched_.end()) continue;
    Add(states_.Take(at->second, LinkValue(link)), changes);
  }
  return changes;
}

std::vector<v1::FactChange> LinkStates::TakeGone(
    const std::vector<NetworkLink>& links) {
  std::vector<v1::FactChange> changes;
  for (const NetworkLink& link : links) {
    const auto at = watched_.find(link.name);
    if (at != watched_.end()) Add(states_.Take(at->second, kGone), changes);
  }
  return changes;
}

SpaceStates::SpaceStates(const std::string& folder)
    : subject_(absl::StrCat("folder ", folder)) {}

std::optional<v1::FactChange> SpaceStates::Take(uint64_t free_bytes,
                                                uint64_t size_bytes) {
  const bool is_low =
      IsLowOnSpace(free_bytes, size_bytes, was_low_.value_or(false));
  const std::optional<bool> was_low = std::exchange(was_low_, is_low);
  if (was_low == is_low) return std::nullopt;
  const std::string before =
      std::exchange(before_, SpaceText(free_bytes, size_bytes));
  if (!was_low.has_value()) return std::nullopt;
  return MakeFactChange(v1::FACT_KIND_DISK_SPACE, subject_, before, before_);
}

bool IsLowOnSpace(uint64_t free_bytes, uint64_t size_bytes, bool was_low) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  uint64_t least = size_bytes / 20;
  if (size_bytes >= 4 * kGiB && least < kGiB) least = kGiB;
  return free_bytes < (was_low ? least + least / 5 : least);
}

std::string SpaceText(uint64_t free_bytes, uint64_t size_bytes) {
  const double percent = size_bytes == 0
                             ? 0
                             : 100.0 * static_cast<double>(free_bytes) /
                                   static_cast<double>(size_bytes);
  return absl::StrCat(BytesText(free_bytes), " free (",
                      static_cast<int>(percent), "%)");
}

}  // namespace rollcall
