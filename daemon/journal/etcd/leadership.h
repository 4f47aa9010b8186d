// Leadership: elects one of several daemons as the leader, by a key in etcd
// that is bound to a lease.
//
// It campaigns until it is destroyed: it waits until there is no leader, tries
// to create the key, and keeps its lease alive while it leads. The value of the
// key is the leader's address. It decides and writes nothing else. Every writer
// compares the key with the LeaderTerm that it was given (EtcdJournal), so that
// a former leader can write nothing, even if its clock is wrong.
//
// Thread rule: Leads and Resign from any thread. Created and destroyed by one
// thread. The callbacks are called on its own thread and must only post.
//
// Invariants:
//   1. At most one LeaderTerm is in force at a time over all daemons of a name,
//      and no two have the same create_revision.
//   2. Leads() is false before the lease can have ended in etcd (LeaderLease),
//      and is never true again for the same LeaderTerm.
#ifndef ROLLCALL_DAEMON_JOURNAL_ETCD_LEADERSHIP_H_
#define ROLLCALL_DAEMON_JOURNAL_ETCD_LEADERSHIP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/inbox.h"
#include "daemon/base/machine.h"
#include "daemon/journal/etcd/key_value.h"
#include "daemon/journal/etcd/leader_lease.h"
#include "daemon/security/secrets/value_sealer.h"

namespace rollcall {

// A leader term, from election to end.
struct LeaderTerm {
  int64_t lease = 0;
  // The create_revision of the leader's key. Every write compares it.
  int64_t create_revision = 0;
};

class Leadership {
 public:
  struct Callbacks {
    std::function<void(const LeaderTerm&)> elected;
    // This daemon no longer leads, or did not lead for a moment. Everything
    // that was begun in the last LeaderTerm is void.
    std::function<void(const std::string& why)> lost_leadership;
    // Another daemon leads, at `endpoints`. Empty: no daemon leads, the
    // leader's value cannot be decrypted, or etcd does not answer. Called only
    // on changes.
    std::function<void(const std::vector<std::string>& endpoints)> other;
  };

  // The shortest lease that etcd grants.
  static constexpr absl::Duration kTimeToLive = absl::Seconds(2);

  // `prefix`: the prefix of all keys, see EtcdLocation. `endpoints`: addresses
  // of this daemon. `sealer`: encrypts the leader's value, so that a client
  // without the key cannot announce a false leader. `client` and `machine` must
  // outlive this.
  Leadership(KeyValueStore& client, const std::string& prefix,
             const std::vector<std::string>& endpoints, ValueSealer sealer,
             Callbacks callbacks, Machine& machine = RealMachine());
  // Resigns. Another daemon can lead at once if etcd answers, otherwise when
  // the lease ends.
  ~Leadership();

  // Whether this LeaderTerm is in force, by the local clock. A result of false
  // ends the LeaderTerm.
  bool Leads(const LeaderTerm& leader_term) const;
  // Ends a LeaderTerm, because a write in it has failed or its result is
  // unknown. If this daemon is elected again, that is another LeaderTerm.
  void Resign(const LeaderTerm& leader_term, std::string why);

 private:
  // The watch with this number reports that the key may have changed.
  struct Look {
    uint64_t watch;
  };
  struct Resigned {
    int64_t create_revision;
    std::string why;
  };
  struct Quit {};
  using Input = std::variant<Look, Resigned, Quit>;

  void Run();
  // One round: reads the leader's key, and stands for election if there is no
  // leader.
  void Campaign();
  void Stand();
  void Lead(int64_t create_revision);
  // Called while it leads. Returns why it no longer leads; empty: it still
  // does.
  std::string Trouble(int64_t create_revision);
  // False: the lease has ended, or could not be renewed in time.
  bool Renew();

  absl::Time LeaseNow() const { return machine_.LeaseNow(); }
  void Watch(int64_t from_revision);
  // Waits for inputs, at most for `most`, and returns as soon as it has taken
  // some.
  void Await(absl::Duration most);
  void TellOther(const std::vector<std::string>& endpoints);
  // Tries once to revoke its lease, if it has one.
  void GiveBackLease();

  KeyValueStore& client_;
  const std::string key_;
  const std::string writes_key_;
  // The value of the leader's key; encrypted again for each candidacy.
  const std::string value_;
  const ValueSealer sealer_;
  const Callbacks callbacks_;
  Machine& machine_;
  Inbox<Input> inbox_;

  // The next fields are used only by the thread of this object.
  LeaderLease leader_lease_;
  // The lease that was granted and not revoked; 0: none. etcd ends it after
  // `lease_ends_`.
  int64_t lease_ = 0;
  absl::Time lease_ends_ = absl::InfinitePast();
  std::unique_ptr<KeyValueWatch> watch_;
  uint64_t watch_number_ = 0;
  bool look_ = false;
  bool quit_ = false;
  std::optional<Resigned> resigned_;
  // The argument of the last callback `other`; nullopt: this daemon leads, or
  // there was no call yet.
  std::optional<std::vector<std::string>> told_other_;

  // Leads reads these two: the create_revision of the LeaderTerm in force (0:
  // none), and the end of that LeaderTerm in nanoseconds on the clock of
  // LeaseNow.
  mutable std::atomic<int64_t> leading_ = 0;
  std::atomic<int64_t> leading_until_ns_ = 0;

  std::unique_ptr<Machine::Thread> thread_;
};

// Key names below a prefix. Every write of a LeaderTerm changes the value of
// the second one, so that a write that was sent twice is carried out once; see
// EtcdJournal.
inline constexpr char kLeaderKey[] = "leader";
inline constexpr char kWritesKey[] = "writes";

// The value of kWritesKey after `number` writes with `lease`.
std::string WritesValue(int64_t lease, uint64_t number);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_ETCD_LEADERSHIP_H_
