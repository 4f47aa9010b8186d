#include "daemon/server/watch_list.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace rollcall {

void WatchList::Add(uint64_t id, const std::string& job,
                    std::shared_ptr<Watcher> watcher) {
  const absl::StatusOr<std::string> name = jobs_.Resolve(job);
  if (!name.ok()) return watcher->End(name.status());
  if (jobs_.Find(*name) == nullptr && jobs_.FindEnded(*name) == nullptr) {
    return watcher->End(absl::NotFoundError(
        absl::StrCat("this daemon has no job ", *name, "; check --job")));
  }
  if (watches_.size() >= kWatchersMax) {
    return watcher->End(absl::ResourceExhaustedError(
        absl::StrCat("this daemon already has ", kWatchersMax,
                     " watchers, the most there can be")));
  }
  watches_[id] = Watch{*name, std::move(watcher)};
}

bool WatchList::HasNews(const Watch& watch) const {
  const LiveJob* live = jobs_.Find(watch.job);
  return live == nullptr || live->job.revision() != watch.told_revision;
}

void WatchList::Publish(absl::Time now) {
  // One snapshot a job, however many watch it.
  std::map<std::string, absl::StatusOr<v1::JobStatus>> snapshots;
  for (auto at = watches_.begin(); at != watches_.end();) {
    Watch& watch = at->second;
    if (now < watch.due || !HasNews(watch)) {
      ++at;
      continue;
    }
    auto [snapshot, fresh] =
        snapshots.try_emplace(watch.job, absl::UnknownError(""));
    if (fresh) snapshot->second = jobs_.Status(watch.job, now);
    if (fresh && snapshot->second.ok()) {
      snapshot->second = finish_(*std::move(snapshot->second));
    }
    const absl::StatusOr<v1::JobStatus>& status = snapshot->second;
    if (!status.ok()) {
      watch.watcher->End(absl::UnavailableError(status.status().message()));
      at = watches_.erase(at);
      continue;
    }
    const bool last = status->state() == v1::JOB_STATE_FINISHED ||
                      status->state() == v1::JOB_STATE_FAILED;
    watch.watcher->Offer(*status, last);
    watch.told_revision = status->revision();
    watch.due = now + kInterval;
    at = last ? watches_.erase(at) : std::next(at);
  }
}

absl::Time WatchList::NextDue() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [id, watch] : watches_) {
    if (HasNews(watch)) next = std::min(next, watch.due);
  }
  return next;
}

void WatchList::EndAll(const absl::Status& status) {
  for (auto& [id, watch] : watches_) watch.watcher->End(status);
  watches_.clear();
}

}  // namespace rollcall
