#include "daemon/journal/etcd/leadership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace rollcall {
namespace {

using etcdserverpb::Compare;
using etcdserverpb::KeyValue;
using etcdserverpb::RangeRequest;
using etcdserverpb::RangeResponse;
using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;

// Time until the next try if etcd does not answer.
constexpr absl::Duration kRetry = absl::Milliseconds(100);
// For one call, over all members.
constexpr absl::Duration kPatience = absl::Seconds(2);
constexpr absl::Duration kGiveBackPatience = absl::Milliseconds(300);
// How much of a leader's value is used; the rest is ignored. It is bounded
// because it is sent to clients.
constexpr size_t kEndpointsMax = 8;
constexpr size_t kEndpointBytesMax = 300;
constexpr size_t kInboxMax = 1024;

std::vector<std::string> EndpointsOf(const std::string& value) {
  std::vector<std::string> endpoints;
  for (const absl::string_view one :
       absl::StrSplit(value, ',', absl::SkipEmpty())) {
    if (endpoints.size() == kEndpointsMax) break;
    if (one.size() <= kEndpointBytesMax) endpoints.emplace_back(one);
  }
  return endpoints;
}

RangeRequest ReadOf(const std::string& key) {
  RangeRequest read;
  read.set_key(key);
  return read;
}

// Creates the key if it does not exist, else reads it.
TxnRequest Candidacy(const std::string& key, const std::string& value,
                     const std::string& writes_key, int64_t lease) {
  TxnRequest txn;
  Compare& compare = *txn.add_compare();
  compare.set_result(Compare::EQUAL);
  compare.set_target(Compare::CREATE);
  compare.set_key(key);
  compare.set_create_revision(0);
  auto& leader = *txn.add_success()->mutable_request_put();
  leader.set_key(key);
  leader.set_value(value);
  leader.set_lease(lease);
  auto& writes = *txn.add_success()->mutable_request_put();
  writes.set_key(writes_key);
  writes.set_value(WritesValue(lease, 0));
  *txn.add_failure()->mutable_request_range() = ReadOf(key);
  return txn;
}

// The create_revision of the key if this lease owns it; 0: it does not.
int64_t Won(const TxnResponse& answer, int64_t lease) {
  if (answer.succeeded()) return answer.header().revision();
  if (answer.responses_size() == 0) return 0;
  const RangeResponse& read = answer.responses(0).response_range();
  // An earlier attempt of the same candidacy may have succeeded.
  if (read.kvs_size() == 0 || read.kvs(0).lease() != lease) return 0;
  return read.kvs(0).create_revision();
}

}  // namespace

std::string WritesValue(int64_t lease, uint64_t number) {
  return absl::StrCat(lease, ":", number);
}

Leadership::Leadership(KeyValueStore& client, const std::string& prefix,
                       const std::vector<std::string>& endpoints,
                       ValueSealer sealer, Callbacks callbacks,
                       Machine& machine)
    : client_(client),
      key_(absl::StrCat(prefix, kLeaderKey)),
      writes_key_(absl::StrCat(prefix, kWritesKey)),
      value_(absl::StrJoin(endpoints, ",")),
      sealer_(sealer),
      callbacks_(std::move(callbacks)),
      machine_(machine),
      inbox_(kInboxMax, machine),
      thread_(machine.Start([this] { Run(); })) {}

Leadership::~Leadership() {
  inbox_.PostAlways(Quit{});
  thread_->Join();
}

bool Leadership::Leads(const LeaderTerm& leader_term) const {
  // The two are read in this order: if `until` belongs to a later LeaderTerm,
  // `leading_` no longer has this LeaderTerm's number.
  const int64_t until = leading_until_ns_;
  int64_t leading = leader_term.create_revision;
  if (leading_ != leading) return false;
  if (absl::ToUnixNanos(LeaseNow()) < until) return true;
  // The answer to a renewal may still be unread, as after a pause of the whole
  // process. The caller acts as a former leader, so the LeaderTerm must not
  // become valid again.
  leading_.compare_exchange_strong(leading, 0);
  return false;
}

void Leadership::Resign(const LeaderTerm& leader_term, std::string why) {
  // Leads must return false from now on, also before the thread has taken this
  // input.
  int64_t leading = leader_term.create_revision;
  leading_.compare_exchange_strong(leading, 0);
  inbox_.PostAlways(Resigned{leader_term.create_revision, std::move(why)});
}

void Leadership::Run() {
  while (!quit_) Campaign();
  GiveBackLease();
}

void Leadership::Campaign() {
  GiveBackLease();
  if (quit_) return;
  const absl::StatusOr<RangeResponse> found =
      client_.Range(ReadOf(key_), kPatience);
  if (!found.ok()) {
    TellOther({});
    return Await(kRetry);
  }
  if (found->kvs_size() == 0) return Stand();
  const KeyValue& leader = found->kvs(0);
  if (lease_ != 0 && leader.lease() == lease_) {
    // This is still the key of this daemon's own last LeaderTerm, and no daemon
    // can continue in that one.
    TellOther({});
    return Await(kRetry);
  }
  const absl::StatusOr<std::string> where = sealer_.Open(key_, leader.value());
  TellOther(where.ok() ? EndpointsOf(*where) : std::vector<std::string>());
  Watch(found->header().revision() + 1);
  // A frozen member reports no changes, so another one is asked after a while.
  Await(kTimeToLive);
  watch_.reset();
}

void Leadership::Stand() {
  const absl::Time sent = LeaseNow();
  const auto granted = client_.Grant(kTimeToLive, kPatience);
  if (!granted.ok() || granted->id() == 0) {
    TellOther({});
    return Await(kRetry);
  }
  lease_ = granted->id();
  const absl::Duration left = absl::Seconds(granted->ttl());
  lease_ends_ = LeaseNow() + left;
  leader_lease_.Renewed(sent, left);
  const absl::StatusOr<TxnResponse> answer = client_.Txn(
      Candidacy(key_, sealer_.Seal(key_, value_), writes_key_, lease_),
      leader_lease_.until() - LeaseNow());
  const int64_t create_revision = answer.ok() ? Won(*answer, lease_) : 0;
  if (create_revision != 0) return Lead(create_revision);
  leader_lease_.End();
  if (answer.ok()) return;  // Another daemon was faster.
  TellOther({});
  Await(kRetry);
}

void Leadership::Lead(int64_t create_revision) {
  resigned_.reset();
  told_other_.reset();
  leading_until_ns_ = absl::ToUnixNanos(leader_lease_.until());
  leading_ = create_revision;
  callbacks_.elected(LeaderTerm{lease_, create_revision});
  Watch(create_revision + 1);
  std::string why;
  while (why.empty()) {
    Await(leader_lease_.renew_at() - LeaseNow());
    why = Trouble(create_revision);
  }
  leading_ = 0;
  leader_lease_.End();
  watch_.reset();
  callbacks_.lost_leadership(why);
}

std::string Leadership::Trouble(int64_t create_revision) {
  if (quit_) return "this daemon is shutting down";
  if (resigned_.has_value() && resigned_->create_revision == create_revision) {
    return resigned_->why;
  }
  if (leading_ != create_revision) return "its lease was not renewed in time";
  if (look_) {
    look_ = false;
    const auto found = client_.Range(ReadOf(key_), KeyValueStore::kAttempt);
    if (found.ok() && (found->kvs_size() == 0 ||
                       found->kvs(0).create_revision() != create_revision)) {
      return "the leader's key in etcd is gone";
    }
    // The watch may have ended before it reported a change.
    if (found.ok()) Watch(found->header().revision() + 1);
  }
  if (LeaseNow() < leader_lease_.renew_at() || Renew()) return "";
  return "its lease in etcd has ended, or could not be renewed in time";
}

bool Leadership::Renew() {
  const absl::Time sent = LeaseNow();
  if (!leader_lease_.Holds(sent)) return false;
  const absl::StatusOr<absl::Duration> left =
      client_.KeepAlive(lease_, leader_lease_.until() - sent);
  if (!left.ok()) {
    Await(std::min(kRetry, leader_lease_.until() - LeaseNow()));
    return leader_lease_.Holds(LeaseNow());
  }
  leader_lease_.Renewed(sent, *left);
  lease_ends_ = LeaseNow() + *left;
  leading_until_ns_ = absl::ToUnixNanos(leader_lease_.until());
  return leader_lease_.Holds(LeaseNow());
}

void Leadership::Watch(int64_t from_revision) {
  watch_.reset();
  look_ = false;
  const uint64_t number = ++watch_number_;
  watch_ = client_.Watch(key_, from_revision,
                         [this, number] { inbox_.Post(Look{number}); });
}

void Leadership::Await(absl::Duration most) {
  for (Input& input : inbox_.Take(std::max(most, absl::ZeroDuration()))) {
    if (const Look* look = std::get_if<Look>(&input)) {
      look_ = look_ || look->watch == watch_number_;
    } else if (Resigned* resigned = std::get_if<Resigned>(&input)) {
      resigned_ = std::move(*resigned);
    } else {
      quit_ = true;
    }
  }
}

void Leadership::TellOther(const std::vector<std::string>& endpoints) {
  if (told_other_ == endpoints) return;
  told_other_ = endpoints;
  callbacks_.other(endpoints);
}

void Leadership::GiveBackLease() {
  if (lease_ == 0) return;
  const absl::Status revoked = client_.Revoke(lease_, kGiveBackPatience);
  if (revoked.ok() || LeaseNow() > lease_ends_) lease_ = 0;
}

}  // namespace rollcall
