#include "tests/sim/daemons/group.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/journal/run_record.h"

namespace rollcall::sim {
namespace {

constexpr char kPrefix[] = "rollcall/sim/";
constexpr char kSecret[] = "00112233445566778899aabbccddeeff";
constexpr char kAdminId[] = "adm123";
constexpr char kAdminSecret[] = "fedcba9876543210";

std::string KeyOf(const char* name) { return absl::StrCat(kPrefix, name); }

SharedSecret Secret() {
  absl::StatusOr<SharedSecret> secret = SharedSecret::Parse(kSecret);
  CHECK(secret.ok());
  return *std::move(secret);
}

SeededToken TokenOf(const char* id, const char* secret, v1::Role role) {
  SeededToken seeded;
  seeded.token.set_id(id);
  seeded.token.set_secret(secret);
  seeded.role = role;
  return seeded;
}

const etcdserverpb::PutRequest* PutOf(const etcdserverpb::TxnRequest& txn,
                                      const std::string& key) {
  for (const etcdserverpb::RequestOp& operation : txn.success()) {
    if (operation.request_put().key() == key) return &operation.request_put();
  }
  return nullptr;
}

bool Changes(const etcdserverpb::TxnRequest& txn) {
  return std::any_of(txn.success().begin(), txn.success().end(),
                     [](const etcdserverpb::RequestOp& operation) {
                       return !operation.has_request_range();
                     });
}

}  // namespace

// Observes the loops of one daemon.
class Group::Seen final : public LoopObserver {
 public:
  Seen(Group& group, Process& process) : group_(group), process_(process) {}

  void Begins(JournalStore* journal,
              const std::function<bool()>& leads) override {
    if (process_.dead()) return;
    const Store::Entry* leader = group_.store_.Find(KeyOf(kLeaderKey));
    // `leads` alone is not enough: this loop may belong to a term whose lease
    // has ended, while a later campaign of this daemon has won. Such a loop can
    // write nothing.
    const bool own = leads() && leader != nullptr &&
                     group_.store_.OwnerOf(leader->lease) == &process_;
    process_.NoteLeaderTerm(own ? leader->create_revision : 0, leads);
    journal_ = journal;
    compared_ = 0;
    if (!IsLeader()) return;
    group_.checker_.DaemonDied();
    group_.checker_.Restored(group_.durable_);
    group_.ends_ = group_.durable_.end.has_value();
    if (group_.ends_) group_.checker_.Tested(Invariant::kEndedStaysEnded);
    fresh_ = true;
  }

  void TookUp(const Job& job, const std::vector<Action>& actions,
              absl::Time now) override {
    if (process_.dead() || !IsLeader()) return;
    CheckKnows();
    InvariantChecker& checker = group_.checker_;
    if (!std::exchange(fresh_, false)) {
      checker.DaemonDied();
      checker.Restored(group_.durable_);
    }
    checker.TookUp(job, group_.durable_, now);
    checker.Started(actions, now);
  }

  void BeforeStep(const Job& job, const Event& event, absl::Time now) override {
    if (process_.dead()) return;
    CheckLeads("steps");
    CheckKnows();
    if (group_.checker_.broken()) process_.Halt();
    group_.checker_.BeforeStep(job, event, now);
  }

  void AfterStep(const Job& job, const Event& event, absl::Time now,
                 const std::vector<Action>& actions) override {
    if (process_.dead()) return;
    group_.checker_.AfterStep(job, event, now, actions);
    group_.job_state_ = v1::JobState_Name(job.state());
    group_.ends_ = group_.ends_ || job.end().has_value();
    if (group_.checker_.broken()) process_.Halt();
  }

  void Durable() override {
    if (!process_.dead()) group_.checker_.Durable();
  }

  void Sends(const v1::DaemonMessage& message) override {
    if (process_.dead()) return;
    CheckLeads("sends");
    group_.checker_.Sent(message, group_.durable_);
    if (group_.checker_.broken()) process_.Halt();
  }

 private:
  // A loop can begin after its lease has ended. It then fails to write, and
  // decides nothing.
  bool IsLeader() const {
    const Store::Entry* leader = group_.store_.Find(KeyOf(kLeaderKey));
    return leader != nullptr &&
           leader->create_revision == process_.leader_term();
  }

  // Checks that a daemon that acts as the leader is the leader.
  void CheckLeads(const char* what) {
    if (IsLeader()) return;
    const Store::Entry* leader = group_.store_.Find(KeyOf(kLeaderKey));
    group_.checker_.Broken(
        Invariant::kFormerIsSilent,
        absl::StrCat("daemon ", process_.number(), " ", what,
                     " as leader of revision ", process_.leader_term(),
                     ", and ", leader == nullptr ? 0 : leader->create_revision,
                     " is the leader's"));
  }

  // Checks that the leader knows the run's record. Done again only once the
  // record has changed.
  void CheckKnows() {
    if (compared_ == group_.record_revision_) return;
    compared_ = group_.record_revision_;
    group_.checker_.Tested(Invariant::kLeaderKnows);
    const absl::StatusOr<std::optional<JournaledRun>> run =
        journal_->Load(group_.settings_.name);
    if (run.ok() && run->has_value() && *PackRun(**run) == group_.record_) {
      return;
    }
    group_.checker_.Broken(
        Invariant::kLeaderKnows,
        absl::StrCat(
            "daemon ", process_.number(), " knows of generation ",
            run.ok() && run->has_value() ? (*run)->state.generation : 0,
            ", and the store has generation ", group_.durable_.generation,
            " or more of it"));
  }

  Group& group_;
  Process& process_;
  JournalStore* journal_ = nullptr;
  int64_t compared_ = 0;
  bool fresh_ = false;
};

Group::Group(World& world, Network& network, InvariantChecker& checker,
             const DaemonSettings& settings, const std::vector<Clock>& clocks)
    : world_(world),
      network_(network),
      checker_(checker),
      settings_(settings),
      sealer_(Secret()),
      store_(world, *this) {
  for (const Clock& clock : clocks) {
    const auto number = static_cast<uint32_t>(processes_.size());
    const auto wall =
        absl::Nanoseconds(world.chance.Between(-600 * kSecond, 600 * kSecond));
    processes_.push_back(std::make_unique<Process>(
        world, network, fibers_, store_, number, clock, wall));
    seen_.push_back(std::make_unique<Seen>(*this, *processes_.back()));
  }
}

Group::~Group() {
  // After a broken promise, the daemons are not run any further.
  if (checker_.broken()) return;
  for (const auto& process : processes_) process->Kill();
}

void Group::Start(uint32_t daemon) {
  // The daemon still gives its lease back, which may take a while.
  if (processes_[daemon]->ending()) {
    return world_.Schedule(world_.now() + 100 * kMilli,
                           Wake::Kind::kDaemonStarts, daemon);
  }
  LeaderSession::Options options{kPrefix,         sealer_, false,
                                 absl::Hours(24), {},      {}};
  options.endpoints = {EndpointOf(daemon)};
  options.loop.limits.lease = FromProto(settings_.job.lease());
  options.loop.proof_key = "proof key";
  options.loop.tokens = {TokenOf("abc123", "0123456789abcdef", v1::ROLE_WORKER),
                         TokenOf(kAdminId, kAdminSecret, v1::ROLE_ADMIN)};
  options.loop.observer = seen_[daemon].get();
  processes_[daemon]->Boot(std::move(options));
}

// --- Faults and requests -----------------------------------------------------

Process* Group::Leader() const {
  const Store::Entry* leader = store_.Find(KeyOf(kLeaderKey));
  const Process* owner =
      leader == nullptr ? nullptr : store_.OwnerOf(leader->lease);
  return owner == nullptr ? nullptr : processes_[owner->number()].get();
}

Process& Group::Victim() {
  Process* leader = Leader();
  Process& any = *processes_[world_.chance.Below(processes_.size())];
  return leader != nullptr && !world_.chance.OneIn(3) ? *leader : any;
}

void Group::Crash(Nanos back_after) {
  Process& process = Victim();
  if (!process.up()) return;
  if (world_.chance.OneIn(4)) {
    process.EndInOrder();
  } else {
    process.Kill();
  }
  world_.Schedule(world_.now() + back_after, Wake::Kind::kDaemonStarts,
                  process.number());
}

void Group::Stall(Nanos until) {
  Process& process = Victim();
  if (world_.chance.OneIn(4)) {
    return process.StepWall(absl::Nanoseconds(
        world_.chance.Between(-600 * kSecond, 600 * kSecond)));
  }
  // The pause often lasts until the last term is over, while the next renewal
  // still holds, whose answer the daemon has not read.
  if (world_.chance.OneIn(3)) {
    return process.PauseAtRenewal(world_.chance.Between(kSecond, 2 * kSecond));
  }
  process.Pause(until);
}

void Group::BreakJournal(Nanos until) {
  until += 2 * (until - world_.now());
  // About half of these last longer than a write is retried.
  if (world_.chance.OneIn(3)) {
    return store_.WriteSlowly(world_.now() +
                              world_.chance.Between(kSecond, 20 * kSecond));
  }
  if (world_.chance.OneIn(2)) return store_.StandStill(until);
  store_.CutOff(Victim().number(), until);
}

void Group::Calm() {
  calm_ = true;
  store_.Calm();
  for (const auto& process : processes_) process->Calm();
}

template <typename Call, typename Request>
void Group::Ask(Request request) {
  Process* leader = Leader();
  if (leader == nullptr) return;
  request.set_job(settings_.name);
  request.set_reason("asked");
  Call call;
  call.caller.token.set_id(kAdminId);
  call.caller.token.set_secret(kAdminSecret);
  call.caller.address = "10.9.1.1";
  call.caller.peer = "10.9.1.1:1";
  call.request = std::move(request);
  call.reply = [](const auto&) {};
  leader->Post(std::move(call));
}

void Group::AskStop(int exit_code, bool now) {
  world_.Trace("stop is asked");
  v1::StopRequest request;
  request.set_exit_code(exit_code);
  request.set_now(now);
  Ask<StopCame>(std::move(request));
}

void Group::AskDrain(const std::string& node, absl::Duration deadline) {
  world_.Trace("a drain of ", node, " is asked");
  v1::DrainRequest request;
  request.set_node(node);
  if (deadline != absl::InfiniteDuration()) {
    ToProto(deadline, request.mutable_deadline());
  }
  Ask<DrainCame>(std::move(request));
}

void Group::AskEvict(const std::string& node) {
  world_.Trace("an eviction of ", node, " is asked");
  v1::EvictRequest request;
  request.set_node(node);
  Ask<EvictCame>(std::move(request));
}

// --- From the network and the clock ------------------------------------------

bool Group::Take(StreamId stream, uint32_t node, Parcel& parcel) {
  auto* message = std::get_if<FromAgent>(&parcel);
  if (message != nullptr && (*message)->has_hello()) {
    v1::Hello& hello = *(*message)->mutable_hello();
    // Once this run has ended, agents without a run do not begin another one.
    if (ends_ && hello.run().empty()) {
      hello.mutable_settings()->clear_nodes_min();
      hello.mutable_settings()->clear_nodes_max();
    }
  }
  return processes_[network_.DaemonOf(stream)]->Take(stream, node, parcel);
}

void Group::OnWake(const Wake& wake) {
  switch (wake.kind) {
    case Wake::Kind::kTask:
      return processes_[wake.who]->OnTask(wake.tag);
    case Wake::Kind::kProcessThaws:
      return processes_[wake.who]->OnThaw();
    case Wake::Kind::kStreamGone:
      return processes_[wake.who]->OnStreamGone(wake.tag);
    case Wake::Kind::kStoreActs:
      return store_.OnWake(wake.tag);
    default:
      return;
  }
}

bool Group::Attends(StreamId stream) const {
  return processes_[network_.DaemonOf(stream)]->Attends(stream);
}

std::string Group::JobText() const {
  const Process* leader = Leader();
  return absl::StrCat(
      job_state_, ", ",
      leader == nullptr ? "nobody leads"
                        : absl::StrCat("daemon ", leader->number(), " leads"));
}

// --- The promises of the group -----------------------------------------------

void Group::Landed(const Process& by, const etcdserverpb::TxnRequest& txn,
                   bool carried_out) {
  const Store::Entry* leader = store_.Find(KeyOf(kLeaderKey));
  const etcdserverpb::PutRequest* mark = PutOf(txn, KeyOf(kWritesKey));
  const bool stands = PutOf(txn, KeyOf(kLeaderKey)) != nullptr;
  if (mark != nullptr && !stands) {
    const int64_t lease = std::strtoll(mark->value().c_str(), nullptr, 10);
    const bool leads = leader != nullptr && leader->lease == lease;
    if (!leads) checker_.Tested(Invariant::kFormerIsSilent);
    if (!leads && carried_out) {
      checker_.Broken(
          Invariant::kFormerIsSilent,
          absl::StrCat("a write of daemon ", by.number(), " under lease ",
                       lease, " is carried out, and the leader's is ",
                       leader == nullptr ? 0 : leader->lease));
    }
  }
  if (stands && carried_out) {
    world_.Trace("store: daemon ", by.number(), " leads, revision ",
                 leader->create_revision);
  }
  if (!Changes(txn)) return;
  const std::string bytes = txn.SerializeAsString();
  const bool again = carried_out_.contains(bytes);
  if (again) checker_.Tested(Invariant::kWrittenOnce);
  if (again && carried_out) {
    checker_.Broken(Invariant::kWrittenOnce,
                    absl::StrCat("a transaction of daemon ", by.number(),
                                 " is carried out twice"));
  }
  if (!carried_out) return;
  carried_out_.insert(bytes);
  NoteHistory();
}

void Group::LeaseEnds(const Process& of, int64_t lease) {
  const Store::Entry* leader = store_.Find(KeyOf(kLeaderKey));
  if (leader == nullptr || leader->lease != lease) return;
  world_.Trace("store: daemon ", of.number(), " leads no more, revision ",
               leader->create_revision);
  if (of.leader_term() != leader->create_revision || !of.up()) return;
  checker_.Tested(Invariant::kFormerIsSilent);
  if (!of.Leads()) return;
  checker_.Broken(Invariant::kFormerIsSilent,
                  absl::StrCat("the lease of daemon ", of.number(),
                               " has ended, and it takes itself for the "
                               "leader"));
}

// The leader dies before it has told any agent of the end, so only the store
// can tell the next leader.
void Group::MaybeDieAtEnd() {
  Process* leader = Leader();
  if (calm_ || leader == nullptr || !world_.chance.OneIn(3)) return;
  leader->Kill();
  world_.Schedule(
      world_.now() + world_.chance.Skewed(50 * kMilli, 15 * kSecond),
      Wake::Kind::kDaemonStarts, leader->number());
}

void Group::NoteHistory() {
  const std::string key = absl::StrCat(kPrefix, "jobs/", settings_.name);
  const Store::Entry* entry = store_.Find(key);
  if (entry == nullptr || entry->mod_revision == record_revision_) return;
  const absl::StatusOr<std::string> record = sealer_.Open(key, entry->value);
  CHECK(record.ok());
  const absl::StatusOr<JournaledRun> run = UnpackRun(settings_.name, *record);
  CHECK(run.ok());
  const JournalState& now = run->state;
  const JournalState before = std::exchange(durable_, now);
  record_ = *record;
  record_revision_ = entry->mod_revision;
  if (now.end.has_value() && !before.end.has_value()) MaybeDieAtEnd();
  if (before.end.has_value()) {
    checker_.Tested(Invariant::kEndedStaysEnded);
    if (now.run != before.run || !now.end.has_value()) {
      return checker_.Broken(
          Invariant::kEndedStaysEnded,
          absl::StrCat("run ", before.run, " has ended, and run ", now.run,
                       " takes its place"));
    }
  }
  if (now.run != before.run) return;
  if (now.generation < before.generation) {
    checker_.Broken(Invariant::kSurvives,
                    absl::StrCat("the store goes back from generation ",
                                 before.generation, " to ", now.generation));
  }
  const bool same = now.proposal.has_value() && before.proposal.has_value() &&
                    now.proposal->generation() == before.proposal->generation();
  if (!same) return;
  const bool other_world_commit =
      before.world_commit.has_value() &&
      (!now.world_commit.has_value() ||
       now.world_commit->SerializeAsString() !=
           before.world_commit->SerializeAsString());
  if (now.proposal->world() == before.proposal->world() && !other_world_commit)
    return;
  checker_.Broken(Invariant::kOneWorld,
                  absl::StrCat("the store has two worlds or world commits of "
                               "generation ",
                               now.generation));
}

}  // namespace rollcall::sim
