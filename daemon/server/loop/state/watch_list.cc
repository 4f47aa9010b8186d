#include "daemon/server/loop/state/watch_list.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"

namespace rollcall {

void WatchList::Add(uint64_t id, const std::string& job,
                    std::shared_ptr<Watcher> watcher,
                    const std::string& viewer) {
  const absl::StatusOr<std::string> name = jobs_.Resolve(job);
  if (!name.ok()) return watcher->End(name.status());
  if (jobs_.Find(*name) == nullptr && jobs_.FindEnded(*name) == nullptr) {
    return watcher->End(absl::NotFoundError(
        absl::StrCat("this daemon has no job ", *name, "; check --job")));
  }
  if (absl::Status full = AdmitOneMore(viewer); !full.ok()) {
    return watcher->End(full);
  }
  Watch watch;
  watch.job = *name;
  watch.watcher = std::move(watcher);
  watch.viewer = viewer;
  watches_[id] = std::move(watch);
}

// One viewer cannot take the places of all viewers, and all viewers together
// cannot take the places of admins.
absl::Status WatchList::AdmitOneMore(const std::string& viewer) const {
  const auto same = std::count_if(
      watches_.begin(), watches_.end(),
      [&viewer](const auto& entry) { return entry.second.viewer == viewer; });
  if (!viewer.empty() &&
      static_cast<size_t>(same) >= Limits::watches_per_viewer_max) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "token ", viewer, " already has ", Limits::watches_per_viewer_max,
        " watchers, the most there can be of one token; end one of them, or "
        "use another token"));
  }
  const size_t most =
      viewer.empty() ? Limits::watchers_max
                     : Limits::watchers_max - Limits::watches_per_viewer_max;
  if (watches_.size() < most) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("this daemon already has ", watches_.size(),
                   " watchers, the most there can be; end one of them"));
}

bool WatchList::HasNews(const Watch& watch) const {
  const LiveJob* live = jobs_.Find(watch.job);
  if (live == nullptr || live->job.revision() != watch.told_revision) {
    return true;
  }
  return live->job.state() == v1::JOB_STATE_GATHERING &&
         failed_() != watch.told_failed;
}

absl::Time WatchList::LooksAgain(const Watch& watch) const {
  const LiveJob* live = jobs_.Find(watch.job);
  return live != nullptr && live->job.state() == v1::JOB_STATE_GATHERING
             ? watch.looked_at + kFailedInterval
             : absl::InfiniteFuture();
}

// `now` is InfiniteFuture when the last statuses are published; then no watcher
// counts as stalled.
bool WatchList::IsStalled(Watch& watch, absl::Time now) const {
  if (now == absl::InfiniteFuture() || now < watch.behind_since + patience_) {
    return false;
  }
  if (watch.watcher->IsBehind()) return true;
  watch.behind_since = absl::InfiniteFuture();
  return false;
}

void WatchList::Publish(absl::Time now) {
  // One snapshot per job, even if many watchers watch it.
  std::map<std::string, absl::StatusOr<std::shared_ptr<const v1::JobStatus>>>
      snapshots;
  for (auto at = watches_.begin(); at != watches_.end();) {
    Watch& watch = at->second;
    if (IsStalled(watch, now)) {
      watch.watcher->Cancel();
      at = watches_.erase(at);
      continue;
    }
    if (now < watch.due) {
      ++at;
      continue;
    }
    if (!HasNews(watch)) {
      if (now >= LooksAgain(watch)) watch.looked_at = now;
      ++at;
      continue;
    }
    auto [snapshot, fresh] =
        snapshots.try_emplace(watch.job, absl::UnknownError(""));
    if (fresh) {
      absl::StatusOr<v1::JobStatus> made = jobs_.Status(watch.job, now);
      if (made.ok()) {
        snapshot->second =
            std::make_shared<const v1::JobStatus>(finish_(*std::move(made)));
      } else {
        snapshot->second = made.status();
      }
    }
    if (!snapshot->second.ok()) {
      watch.watcher->End(
          absl::UnavailableError(snapshot->second.status().message()));
      at = watches_.erase(at);
      continue;
    }
    const std::shared_ptr<const v1::JobStatus>& status = *snapshot->second;
    const bool last = status->state() == v1::JOB_STATE_FINISHED ||
                      status->state() == v1::JOB_STATE_FAILED;
    Tell(watch, status, last, now);
    at = last ? watches_.erase(at) : std::next(at);
  }
}

void WatchList::Tell(Watch& watch, std::shared_ptr<const v1::JobStatus> status,
                     bool last, absl::Time now) {
  watch.told_revision = status->revision();
  watch.told_failed = failed_();
  watch.due = now + kInterval;
  watch.looked_at = now;
  if (watch.watcher->Offer(std::move(status), last)) {
    watch.behind_since = absl::InfiniteFuture();
  } else if (watch.behind_since == absl::InfiniteFuture()) {
    watch.behind_since = now;
  }
}

absl::Time WatchList::NextDue() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [id, watch] : watches_) {
    next = std::min(next, HasNews(watch) ? watch.due : LooksAgain(watch));
    next = std::min(next, watch.behind_since + patience_);
  }
  return next;
}

void WatchList::EndAll(const absl::Status& status) {
  for (auto& [id, watch] : watches_) watch.watcher->End(status);
  watches_.clear();
}

}  // namespace rollcall
