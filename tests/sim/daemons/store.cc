#include "tests/sim/daemons/store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "tests/sim/daemons/process.h"

namespace rollcall::sim {
namespace {

using etcdserverpb::Compare;
using etcdserverpb::RangeRequest;
using etcdserverpb::RangeResponse;
using etcdserverpb::RequestOp;
using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;

// As EtcdClient does: this many members, each asked twice.
constexpr int kAttemptsMax = 6;
constexpr Nanos kLateMax = 8 * kSecond;

absl::Status Unanswered() {
  return absl::UnavailableError("no answer from the store");
}

int64_t CreateRevisionOf(const Store::Entry* entry) {
  return entry == nullptr ? 0 : entry->create_revision;
}

}  // namespace

class StoreWatch final : public KeyValueWatch {
 public:
  StoreWatch(Store& store, uint64_t number) : store_(store), number_(number) {}
  ~StoreWatch() override { store_.watches_.erase(number_); }

 private:
  Store& store_;
  const uint64_t number_;
};

class StoreClient final : public KeyValueStore {
 public:
  StoreClient(Store& store, Process& process)
      : store_(store), process_(process) {}

  absl::StatusOr<RangeResponse> Range(const RangeRequest& request,
                                      absl::Duration patience) override {
    return Call<RangeResponse>(
        patience, false, [this, request] { return store_.Range(request); });
  }
  absl::StatusOr<TxnResponse> Txn(const TxnRequest& request,
                                  absl::Duration patience) override {
    return Call<TxnResponse>(patience, true, [this, request] {
      return store_.Txn(process_, request);
    });
  }
  absl::StatusOr<etcdserverpb::LeaseGrantResponse> Grant(
      absl::Duration time_to_live, absl::Duration patience) override {
    return Call<etcdserverpb::LeaseGrantResponse>(
        patience, false,
        [this, time_to_live] { return store_.Grant(process_, time_to_live); });
  }
  absl::Status Revoke(int64_t lease, absl::Duration patience) override {
    return Call<bool>(patience, false,
                      [this, lease] {
                        store_.EndLease(lease);
                        return true;
                      })
        .status();
  }
  absl::StatusOr<absl::Duration> KeepAlive(int64_t lease,
                                           absl::Duration patience) override {
    process_.Renews();
    return Call<absl::Duration>(patience, false, [this, lease] {
      return store_.KeepAlive(lease, absl::Seconds(2));
    });
  }
  std::unique_ptr<KeyValueWatch> Watch(std::string_view key,
                                       int64_t from_revision,
                                       std::function<void()> tell) override {
    const uint64_t number = ++store_.last_watch_;
    store_.watches_[number] = {std::string(key), process_.number(),
                               std::move(tell)};
    const auto changed = store_.changed_.find(std::string(key));
    if (changed != store_.changed_.end() && changed->second >= from_revision) {
      store_.Tell(number);
    }
    return std::make_unique<StoreWatch>(store_, number);
  }

 private:
  template <typename Answer>
  struct Calling {
    std::optional<absl::StatusOr<Answer>> answer;
    Mutex mutex;
    CondVar answered;
  };

  template <typename Answer>
  absl::StatusOr<Answer> Call(
      absl::Duration patience, bool writes,
      const std::function<absl::StatusOr<Answer>()>& carry_out) {
    const absl::Time until = process_.Now() + patience;
    // Shared with the calls in progress, which may outlive the caller's wait.
    const auto call = std::make_shared<Calling<Answer>>();
    Process* const process = &process_;
    for (int i = 0; i < kAttemptsMax && !process_.dead(); ++i) {
      const absl::Time attempt_until =
          std::min(until, process_.Now() + kAttempt);
      if (process_.Now() >= attempt_until) break;
      store_.Launch(process_, writes, [call, carry_out, process] {
        return [call, process, got = carry_out()] {
          MutexLock lock(call->mutex);
          if (!call->answer.has_value()) call->answer = got;
          process->Notify(call->answered);
        };
      });
      MutexLock lock(call->mutex);
      while (!call->answer.has_value() && !process_.dead() &&
             process_.Now() < attempt_until) {
        process_.WaitFor(call->answered, call->mutex,
                         attempt_until - process_.Now());
      }
      if (call->answer.has_value() && !process_.dead()) return *call->answer;
    }
    return Unanswered();
  }

  Store& store_;
  Process& process_;
};

Store::Store(World& world, Watcher& watcher)
    : world_(world),
      watcher_(watcher),
      drift_ppm_(world.chance.Between(-50000, 50000)),
      faults_in_(world.chance.OneIn(4)
                     ? 0
                     : static_cast<uint64_t>(world.chance.Skewed(4, 400))),
      latency_max_(world.chance.Skewed(kMilli, 100 * kMilli)) {}

std::unique_ptr<KeyValueStore> Store::ClientOf(Process& process) {
  return std::make_unique<StoreClient>(*this, process);
}

// --- Faults ------------------------------------------------------------------

void Store::StandStill(Nanos until) {
  world_.Trace("the store stands still for ",
               absl::FormatDuration(absl::Nanoseconds(until - world_.now())));
  still_until_ = std::max(still_until_, until);
}

void Store::WriteSlowly(Nanos until) {
  world_.Trace("the store writes slowly for ",
               absl::FormatDuration(absl::Nanoseconds(until - world_.now())));
  slow_until_ = std::max(slow_until_, until);
}

void Store::CutOff(uint32_t daemon, Nanos until) {
  world_.Trace("daemon ", daemon, " is cut off from the store for ",
               absl::FormatDuration(absl::Nanoseconds(until - world_.now())));
  cut_until_[daemon] = std::max(cut_until_[daemon], until);
}

void Store::Calm() {
  calm_ = true;
  still_until_ = std::min(still_until_, world_.now());
  slow_until_ = 0;
  cut_until_.clear();
}

void Store::Later(Nanos after, std::function<void()> what) {
  flights_[++last_flight_] = std::move(what);
  world_.Schedule(world_.now() + after, Wake::Kind::kStoreActs, 0,
                  last_flight_);
}

void Store::OnWake(uint64_t flight) {
  const auto at = flights_.find(flight);
  CHECK(at != flights_.end());
  const std::function<void()> what = std::move(at->second);
  flights_.erase(at);
  what();
}

void Store::Launch(const Process& process, bool writes,
                   const std::function<std::function<void()>()>& land) {
  Chance& chance = world_.chance;
  const Nanos held =
      std::max(still_until_, cut_until_[process.number()]) - world_.now();
  // While the store does not answer, some requests wait and the others are
  // lost.
  if (held > 0 && !chance.OneIn(3)) return;
  Nanos after =
      std::max<Nanos>(held, 0) + chance.Between(20 * kMicro, latency_max_);
  if (writes && world_.now() + after < slow_until_) {
    after += chance.Between(0, slow_until_ - world_.now());
    return Later(after, [land] { land(); });
  }
  if (OneIn(faults_in_)) return;
  if (OneIn(faults_in_)) after += chance.Skewed(10 * kMilli, kLateMax);
  const bool answer_lost = OneIn(faults_in_);
  const int times = OneIn(faults_in_) ? 2 : 1;
  for (int i = 0; i < times; ++i) {
    if (i > 0) after += chance.Skewed(kMilli, kLateMax);
    Later(after, [this, land, answer_lost, daemon = process.number()] {
      const std::function<void()> answer = land();
      if (answer_lost || world_.now() < cut_until_[daemon]) return;
      Later(world_.chance.Between(20 * kMicro, latency_max_), answer);
    });
  }
}

// --- Leases ------------------------------------------------------------------

Nanos Store::LeaseNanos(absl::Duration time_to_live) {
  return ToNanos(time_to_live) / 1000000 * (1000000 - drift_ppm_);
}

etcdserverpb::LeaseGrantResponse Store::Grant(Process& process,
                                              absl::Duration time_to_live) {
  etcdserverpb::LeaseGrantResponse response;
  const auto id = static_cast<int64_t>(world_.chance.Next() >> 2 | 1);
  leases_[id] = {&process, world_.now() + LeaseNanos(time_to_live)};
  ExpectEnd(id);
  response.set_id(id);
  response.set_ttl(absl::ToInt64Seconds(time_to_live));
  return response;
}

absl::Duration Store::KeepAlive(int64_t lease, absl::Duration time_to_live) {
  const auto at = leases_.find(lease);
  if (at == leases_.end()) return absl::ZeroDuration();
  at->second.ends = world_.now() + LeaseNanos(time_to_live);
  ExpectEnd(lease);
  return time_to_live;
}

// Some leases end at the earliest moment that is allowed, some a little later.
void Store::ExpectEnd(int64_t lease) {
  const Nanos late =
      world_.chance.OneIn(2) ? 0 : world_.chance.Between(0, 500 * kMilli);
  const Nanos at =
      std::max(leases_.at(lease).ends + late, still_until_ + kMilli);
  Later(at - world_.now(), [this, lease] {
    const auto found = leases_.find(lease);
    if (found == leases_.end() || found->second.ends > world_.now()) return;
    if (world_.now() < still_until_) return ExpectEnd(lease);
    EndLease(lease);
  });
}

void Store::EndLease(int64_t lease) {
  const auto at = leases_.find(lease);
  if (at == leases_.end()) return;
  watcher_.LeaseEnds(*at->second.process, lease);
  leases_.erase(at);
  std::vector<std::string> keys;
  for (const auto& [key, entry] : entries_) {
    if (entry.lease == lease) keys.push_back(key);
  }
  if (keys.empty()) return;
  ++revision_;
  for (const std::string& key : keys) {
    entries_.erase(key);
    Changed(key);
  }
}

const Process* Store::OwnerOf(int64_t lease) const {
  const auto at = leases_.find(lease);
  return at == leases_.end() ? nullptr : at->second.process;
}

// --- Keys --------------------------------------------------------------------

const Store::Entry* Store::Find(const std::string& key) const {
  const auto at = entries_.find(key);
  return at == entries_.end() ? nullptr : &at->second;
}

void Store::Changed(const std::string& key) {
  changed_[key] = revision_;
  for (const auto& [number, watched] : watches_) {
    if (watched.key == key) Tell(number);
  }
}

// A watcher that is not told asks again after a while.
void Store::Tell(uint64_t watch) {
  if (OneIn(faults_in_)) return;
  Later(world_.chance.Between(20 * kMicro, latency_max_), [this, watch] {
    const auto at = watches_.find(watch);
    if (at == watches_.end() ||
        world_.now() < std::max(still_until_, cut_until_[at->second.daemon])) {
      return;
    }
    at->second.tell();
  });
}

absl::StatusOr<RangeResponse> Store::Range(const RangeRequest& request) const {
  RangeResponse response;
  response.mutable_header()->set_revision(revision_);
  for (auto at = entries_.lower_bound(request.key()); at != entries_.end();
       ++at) {
    const bool in = request.range_end().empty()
                        ? at->first == request.key()
                        : at->first < request.range_end();
    if (!in) break;
    etcdserverpb::KeyValue& kv = *response.add_kvs();
    kv.set_key(at->first);
    kv.set_value(at->second.value);
    kv.set_create_revision(at->second.create_revision);
    kv.set_mod_revision(at->second.mod_revision);
    kv.set_lease(at->second.lease);
  }
  // No daemon in these runs has so many keys that a second page is needed.
  CHECK(request.limit() == 0 || response.kvs_size() < request.limit());
  return response;
}

absl::StatusOr<TxnResponse> Store::Txn(const Process& process,
                                       const TxnRequest& request) {
  bool succeeded = true;
  for (const Compare& compare : request.compare()) {
    CHECK(compare.result() == Compare::EQUAL);
    const Entry* entry = Find(compare.key());
    if (compare.target() == Compare::CREATE) {
      succeeded =
          succeeded && CreateRevisionOf(entry) == compare.create_revision();
    } else {
      CHECK(compare.target() == Compare::VALUE);
      succeeded =
          succeeded && entry != nullptr && entry->value == compare.value();
    }
  }
  const auto& operations = succeeded ? request.success() : request.failure();
  bool changes = false;
  for (const RequestOp& operation : operations) {
    changes = changes || !operation.has_request_range();
    const int64_t lease = operation.request_put().lease();
    if (lease != 0 && !leases_.contains(lease)) {
      return absl::NotFoundError("requested lease not found");
    }
  }
  if (changes) ++revision_;
  TxnResponse response;
  response.set_succeeded(succeeded);
  for (const RequestOp& operation : operations) {
    etcdserverpb::ResponseOp& out = *response.add_responses();
    if (operation.has_request_range()) {
      *out.mutable_response_range() = *Range(operation.request_range());
    } else if (operation.has_request_put()) {
      out.mutable_response_put();
      const etcdserverpb::PutRequest& put = operation.request_put();
      Entry& entry = entries_[put.key()];
      if (entry.create_revision == 0) entry.create_revision = revision_;
      entry.mod_revision = revision_;
      entry.value = put.value();
      entry.lease = put.lease();
      Changed(put.key());
    } else {
      out.mutable_response_delete_range();
      const etcdserverpb::DeleteRangeRequest& gone =
          operation.request_delete_range();
      auto at = entries_.lower_bound(gone.key());
      while (at != entries_.end() &&
             (gone.range_end().empty() ? at->first == gone.key()
                                       : at->first < gone.range_end())) {
        const std::string key = at->first;
        at = entries_.erase(at);
        Changed(key);
      }
    }
  }
  response.mutable_header()->set_revision(revision_);
  watcher_.Landed(process, request, succeeded);
  return response;
}

}  // namespace rollcall::sim
