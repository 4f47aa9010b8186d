// Group: two or three rollcalld that share a store, of which one leads. Checks
// what they promise as a group (daemon/core/invariants.h).
//
// It observes what the store carries out, what each loop decides and what it
// sends. To the InvariantChecker, it presents the leader as a single daemon
// that is restarted again and again.
#ifndef ROLLCALL_TESTS_SIM_DAEMONS_GROUP_H_
#define ROLLCALL_TESTS_SIM_DAEMONS_GROUP_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/journal/journal.h"
#include "daemon/security/secrets/value_sealer.h"
#include "tests/sim/checker/invariant_checker.h"
#include "tests/sim/daemons/daemon.h"
#include "tests/sim/daemons/daemons.h"
#include "tests/sim/daemons/fibers.h"
#include "tests/sim/daemons/process.h"
#include "tests/sim/daemons/store.h"
#include "tests/sim/network.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

class Group final : public Daemons, private Store::Watcher {
 public:
  Group(World& world, Network& network, InvariantChecker& checker,
        const DaemonSettings& settings, const std::vector<Clock>& clocks);
  ~Group() override;

  void Start(uint32_t daemon) override;
  // Ends a daemon, most often the leader.
  void Crash(Nanos back_after) override;
  // These do nothing here, because the store keeps everything.
  void LoseJournal(Nanos) override {}
  bool LaunchAgain(Nanos) override { return false; }
  void RollBack(Nanos) override {}
  // A daemon is paused and goes on, or its wall clock is set.
  void Stall(Nanos until) override;
  // The store stands still, or one daemon cannot reach it.
  void BreakJournal(Nanos until) override;
  void AskStop(int exit_code, bool now) override;
  void AskDrain(const std::string& node, absl::Duration deadline) override;
  void AskEvict(const std::string& node) override;
  void Calm() override;

  bool Take(StreamId stream, uint32_t node, Parcel& parcel) override;
  void OnWake(const Wake& wake) override;

  const JournalState& journal() const override { return durable_; }
  bool Attends(StreamId stream) const override;
  bool HasJob() const override { return Leader() != nullptr; }
  std::string JobText() const override;

 private:
  class Seen;

  void Landed(const Process& by, const etcdserverpb::TxnRequest& txn,
              bool carried_out) override;
  void LeaseEnds(const Process& of, int64_t lease) override;
  // Called when the run's record has changed in the store.
  void NoteHistory();
  void MaybeDieAtEnd();

  Process* Leader() const;
  Process& Victim();
  template <typename Call, typename Request>
  void Ask(Request request);

  World& world_;
  Network& network_;
  InvariantChecker& checker_;
  const DaemonSettings settings_;
  const ValueSealer sealer_;
  Fibers fibers_;
  Store store_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Seen>> seen_;
  // The run as the store has it, and the store's revision of that record.
  JournalState durable_;
  std::string record_;
  int64_t record_revision_ = 0;
  // Transactions that changed something in the store.
  std::set<std::string> carried_out_;
  // The job has ended, or its end is decided.
  bool ends_ = false;
  bool calm_ = false;
  std::string job_state_ = "not there";
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_DAEMONS_GROUP_H_
