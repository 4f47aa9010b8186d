// Store: etcd as several simulated daemons see it. It has one history of
// revisions, leases that end by its own clock, and calls whose result is
// uncertain.
//
// A request may be lost, arrive late (after its caller has given up, or after
// another daemon was elected), or be carried out twice. An answer may be lost.
// The whole store may stand still, or be out of one daemon's reach.
#ifndef ROLLCALL_TESTS_SIM_DAEMONS_STORE_H_
#define ROLLCALL_TESTS_SIM_DAEMONS_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "daemon/journal/etcd/key_value.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

class Process;

class Store {
 public:
  struct Entry {
    std::string value;
    int64_t create_revision = 0;
    int64_t mod_revision = 0;
    int64_t lease = 0;
  };
  // Checks what happens to the store against the promises.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    // A transaction of this daemon has arrived. `carried_out`: its comparison
    // held. The store already has the result.
    virtual void Landed(const Process& by, const etcdserverpb::TxnRequest& txn,
                        bool carried_out) = 0;
    // A lease of this daemon is about to end.
    virtual void LeaseEnds(const Process& of, int64_t lease) = 0;
  };

  Store(World& world, Watcher& watcher);

  // Returns the client of one daemon. The process and this store must outlive
  // it.
  std::unique_ptr<KeyValueStore> ClientOf(Process& process);

  // No request is carried out until `until`.
  void StandStill(Nanos until);
  // Acts like a slow disk: transactions that are sent before `until` arrive at
  // some time, and get no answer. Reads and leases work.
  void WriteSlowly(Nanos until);
  // No request of this daemon is carried out until `until`, and it gets no
  // answers.
  void CutOff(uint32_t daemon, Nanos until);
  void Calm();
  void OnWake(uint64_t flight);

  // Null: the key does not exist.
  const Entry* Find(const std::string& key) const;
  // The process that owns the lease; null: none does, or the lease has ended.
  const Process* OwnerOf(int64_t lease) const;
  int64_t revision() const { return revision_; }

 private:
  friend class StoreClient;
  friend class StoreWatch;

  struct Lease {
    Process* process;
    Nanos ends;
  };
  struct Watched {
    std::string key;
    uint32_t daemon;
    std::function<void()> tell;
  };

  // Does `what` after that time.
  void Later(Nanos after, std::function<void()> what);
  // Sends a request of this daemon, which arrives once, more than once, or
  // never. `land` carries it out and returns the function that delivers its
  // answer. `writes`: the request changes something.
  void Launch(const Process& process, bool writes,
              const std::function<std::function<void()>()>& land);
  bool OneIn(uint64_t many) { return !calm_ && world_.chance.OneIn(many); }
  Nanos LeaseNanos(absl::Duration time_to_live);
  void ExpectEnd(int64_t lease);
  void EndLease(int64_t lease);
  void Changed(const std::string& key);
  void Tell(uint64_t watch);

  absl::StatusOr<etcdserverpb::RangeResponse> Range(
      const etcdserverpb::RangeRequest& request) const;
  absl::StatusOr<etcdserverpb::TxnResponse> Txn(
      const Process& process, const etcdserverpb::TxnRequest& request);
  etcdserverpb::LeaseGrantResponse Grant(Process& process,
                                         absl::Duration time_to_live);
  absl::Duration KeepAlive(int64_t lease, absl::Duration time_to_live);

  World& world_;
  Watcher& watcher_;
  // How many microseconds the store's clock gains in a second.
  const int64_t drift_ppm_;
  // One of this many requests meets a fault; 0: none does.
  const uint64_t faults_in_;
  const Nanos latency_max_;
  bool calm_ = false;
  Nanos still_until_ = 0;
  Nanos slow_until_ = 0;
  std::map<uint32_t, Nanos> cut_until_;
  std::map<std::string, Entry> entries_;
  int64_t revision_ = 1;
  // By key: the revision of its latest change.
  std::map<std::string, int64_t> changed_;
  std::map<int64_t, Lease> leases_;
  std::map<uint64_t, Watched> watches_;
  std::map<uint64_t, std::function<void()>> flights_;
  uint64_t last_flight_ = 0;
  uint64_t last_watch_ = 0;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_DAEMONS_STORE_H_
