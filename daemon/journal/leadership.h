// Leadership: which one of several daemons leads, by a key in etcd that is
// bound to a lease.
//
// It campaigns as long as it lives: it waits until there is no leader, puts
// itself forward, and keeps its lease alive while it leads. Who leads says
// under the key where it is reached. It decides nothing else and writes nothing
// else; whoever writes compares with the Reign that it was given (EtcdJournal),
// so that a former leader can write nothing, whatever its clock says.
//
// Thread rule: Leads and Abdicate from any thread. Made and ended by one
// thread; the callbacks are called on a thread of its own and must only post.
//
// Invariants:
//   1. At most one Reign is in force at a time over all daemons of a name; no
//      two have the same create_revision.
//   2. Leads() is false before the lease can have ended at etcd (Tenure), and
//      never true again for the same Reign.
#ifndef ROLLCALL_DAEMON_JOURNAL_LEADERSHIP_H_
#define ROLLCALL_DAEMON_JOURNAL_LEADERSHIP_H_

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
#include "daemon/journal/key_value.h"
#include "daemon/journal/tenure.h"
#include "daemon/security/value_sealer.h"

namespace rollcall {

// One time of leading, from its election to its end.
struct Reign {
  int64_t lease = 0;
  // Of the leader's key. What is written is compared with it.
  int64_t create_revision = 0;
};

class Leadership {
 public:
  struct Callbacks {
    std::function<void(const Reign&)> elected;
    // It leads no more, or did not for a moment: what was begun under the last
    // Reign is void.
    std::function<void(const std::string& why)> deposed;
    // Another one leads, there; nobody does, or its value does not open, or
    // nobody can say: empty. Only when it changes.
    std::function<void(const std::vector<std::string>& endpoints)> other;
  };

  // etcd's least.
  static constexpr absl::Duration kTimeToLive = absl::Seconds(2);

  // `prefix`: of all keys, see EtcdPlace. `endpoints`: where this daemon is
  // reached. `sealer`: of the leader's value, so that nobody else can say where
  // the leader is. `client` and `machine` must outlive this.
  Leadership(KeyValueStore& client, const std::string& prefix,
             const std::vector<std::string>& endpoints, ValueSealer sealer,
             Callbacks callbacks, Machine& machine = RealMachine());
  // Gives the lead up, at once where etcd answers.
  ~Leadership();

  // Whether the Reign of this create_revision is in force, by our own clock.
  // False ends the Reign.
  bool Leads(const Reign& reign) const;
  // Gives up a Reign: a write of it has failed, or nobody knows whether it has.
  // The next one, if it comes to that, is another Reign.
  void Abdicate(const Reign& reign, std::string why);

 private:
  // The key may have changed; says the watch of this number.
  struct Look {
    uint64_t watch;
  };
  struct Abdicated {
    int64_t create_revision;
    std::string why;
  };
  struct Quit {};
  using Input = std::variant<Look, Abdicated, Quit>;

  void Run();
  // One round: looks who leads, and stands where nobody does.
  void Campaign();
  void Stand();
  void Lead(int64_t create_revision);
  // While leading: why no more; empty: nothing has changed.
  std::string Trouble(int64_t create_revision);
  // False: the lease has ended, or could not be renewed in time.
  bool Renew();

  absl::Time LeaseNow() const { return machine_.LeaseNow(); }
  void Watch(int64_t from_revision);
  // Takes what comes until `until`, and returns with the first of it.
  void Await(absl::Duration most);
  void TellOther(const std::vector<std::string>& endpoints);
  // One attempt at it, where there is one.
  void GiveBackLease();

  KeyValueStore& client_;
  const std::string key_;
  const std::string writes_key_;
  // What is said under the key; sealed for each candidacy.
  const std::string value_;
  const ValueSealer sealer_;
  const Callbacks callbacks_;
  Machine& machine_;
  Inbox<Input> inbox_;

  // Of the thread.
  Tenure tenure_;
  // Granted and not given back; 0: none. After `lease_ends_` it is etcd's
  // business alone.
  int64_t lease_ = 0;
  absl::Time lease_ends_ = absl::InfinitePast();
  std::unique_ptr<KeyValueWatch> watch_;
  uint64_t watch_number_ = 0;
  bool look_ = false;
  bool quit_ = false;
  std::optional<Abdicated> abdicated_;
  // What was told last; nothing: that it leads itself, or nothing yet.
  std::optional<std::vector<std::string>> told_other_;

  // What Leads goes by: the Reign's create_revision, 0: none; and until when,
  // in nanoseconds of the lease's clock.
  mutable std::atomic<int64_t> leading_ = 0;
  std::atomic<int64_t> leading_until_ns_ = 0;

  std::unique_ptr<Machine::Thread> thread_;
};

// Names below a prefix. Under the second lies what every write of a Reign moves
// on, so that one that was sent twice is carried out once; see EtcdJournal.
inline constexpr char kLeaderKey[] = "leader";
inline constexpr char kWritesKey[] = "writes";

// What it is after this many writes under a lease.
std::string WritesValue(int64_t lease, uint64_t number);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_LEADERSHIP_H_
