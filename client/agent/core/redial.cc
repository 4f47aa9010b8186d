#include "client/agent/core/redial.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/printable.h"

namespace rollcall {
namespace {

constexpr size_t kRefusalBytesMax = 4 << 10;

}  // namespace

Redial::Redial(const Limits& limits, absl::Duration join_timeout,
               absl::Time now)
    : dial_at_(now),
      delay_(limits.redial_first),
      give_up_at_(now + join_timeout),
      failures_(now) {}

void Redial::Welcomed() {
  delay_.LetIn();
  leader_sought_ = false;
  name_taken_until_ = absl::InfiniteFuture();
  last_error_.clear();
  failures_.LetIn();
  welcomed_ = true;
}

void Redial::Ended(const StreamDown& down, bool attended, const Limits& limits,
                   absl::Time now) {
  if (attended) {
    lost_at_ = now;
    give_up_at_ = now + limits.daemon_grace;
    failures_.Lost(now);
  }
  last_error_ =
      Printable(down.refusal.has_value() && !down.refusal->text().empty()
                    ? std::string_view(down.refusal->text())
                    : std::string_view(down.status.message().data(),
                                       down.status.message().size()),
                kRefusalBytesMax);
}

void Redial::Schedule(double jitter, const Limits& limits, absl::Time now) {
  const absl::Duration longest =
      leader_sought_ ? 2 * limits.redial_leader : limits.redial_max;
  dial_at_ = std::min(now + delay_.Next(jitter, longest), give_up_at_);
}

void Redial::SeekLeader(const Limits& limits) {
  leader_sought_ = true;
  delay_.AtMost(limits.redial_leader);
}

std::string Redial::GiveUpReason() const {
  return absl::StrCat(
      welcomed_ ? "the daemon did not come back" : "could not attend the job",
      " in time; last: ", last_error_.empty() ? "no answer" : last_error_);
}

bool Redial::AwaitName(const Limits& limits, absl::Time now,
                       std::optional<Report>& news) {
  if (name_taken_until_ != absl::InfiniteFuture()) {
    return now < name_taken_until_;
  }
  const absl::Duration wait = limits.lease + absl::Seconds(1);
  name_taken_until_ = now + wait;
  news = {Report::Kind::kWarning,
          absl::StrCat(last_error_, "; trying for ", absl::FormatDuration(wait),
                       " in case it is gone")};
  return true;
}

std::optional<Report> Redial::TurnedAway(const StreamDown& down,
                                         const Limits& limits) {
  if (!down.refusal.has_value()) {
    turned_away_.clear();
    return std::nullopt;
  }
  if (down.refusal->code() != v1::REFUSAL_CODE_UNSPECIFIED ||
      last_error_ == turned_away_) {
    return std::nullopt;
  }
  turned_away_ = last_error_;
  return Report{Report::Kind::kWarning,
                absl::StrCat("the daemon cannot go on: ", last_error_,
                             "; redialling for ",
                             absl::FormatDuration(limits.daemon_grace))};
}

std::optional<Report> Redial::Unreachable(const StreamDown& down,
                                          absl::Time now) {
  if (!failures_.Failed(down.endpoint, last_error_, now)) return std::nullopt;
  const bool refused = down.refusal.has_value() || down.other_daemon;
  return Report{Report::Kind::kUnreachable,
                absl::StrCat(refused     ? "not let in yet: "
                             : welcomed_ ? "the daemon does not answer: "
                                         : "no daemon answers yet: ",
                             last_error_)};
}

std::optional<Report> Redial::Silence(absl::Time now) {
  if (now < failures_.silent_until()) return std::nullopt;
  failures_.SaidNothing(now);
  return Report{
      Report::Kind::kUnreachable,
      absl::StrCat(
          welcomed_ ? "the daemon does not answer" : "no daemon answers yet",
          ": no answer and no error so far; a name server or a "
          "firewall may be in the way")};
}

}  // namespace rollcall
