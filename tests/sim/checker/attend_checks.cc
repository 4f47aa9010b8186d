// Part of InvariantChecker: which agents are let in, and what a refusal or a
// retry may change.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/core/formation/world.h"
#include "tests/sim/checker/invariant_checker.h"

namespace rollcall::sim {

bool InvariantChecker::IsRetry(const Job& job, const Attend& attend,
                               absl::Time now) const {
  const v1::Hello& hello = attend.hello;
  const auto in = in_.find(hello.node());
  if (in == in_.end() || in->second != hello.incarnation()) return false;
  const v1::JobStatus status = job.Status(now);
  if (job.state() == v1::JOB_STATE_RUNNING) {
    return hello.resume_state().running_generation() == status.generation();
  }
  // A node whose address differs from the proposed world causes another
  // proposal.
  const std::string& here = hello.facts().interfaces(0).addresses(0).address();
  return job.state() == v1::JOB_STATE_FORMING &&
         std::any_of(status.nodes().begin(), status.nodes().end(),
                     [&](const v1::NodeStatus& row) {
                       return row.node() == hello.node() &&
                              row.address() == here;
                     });
}

void InvariantChecker::CheckRefused(const Job& job, const Attend& attend,
                                    absl::Time now) {
  const std::string& name = attend.hello.node();
  const uint64_t incarnation = attend.hello.incarnation();
  const bool out = !job.end().has_value() && !attend.hello.run().empty() &&
                   out_[name].contains(incarnation);
  if (out) Tested(Invariant::kReplacedIsOut);
  if (job.Attends(attend.session)) {
    suspects_.erase(name);
    const auto excluded = excluded_.find(name);
    if (excluded != excluded_.end() && excluded->second != incarnation) {
      excluded_.erase(excluded);
    }
    const auto refused = refusals_.find(name);
    if (refused != refusals_.end()) {
      refused->second.out_until = absl::InfinitePast();
    }
    if (attend.hello.run() == job.run()) {
      seen_ = std::max(seen_, attend.hello.generation_seen());
    }
    hangs_.OnAttended(name, now);
    NoteAdopted(attend.session);
    const auto evicted = evicted_.find({attend.hello.run(), name});
    if (evicted != evicted_.end() && attend.hello.has_node_credential() &&
        attend.epoch < evicted->second) {
      Broken(Invariant::kEvictedIsOut,
             absl::StrCat("node ", name, " came by a credential of epoch ",
                          attend.epoch));
    }
    if (out) {
      Broken(Invariant::kReplacedIsOut,
             absl::StrCat("node ", name, ", incarnation ", incarnation));
    }
    if (!job.end().has_value()) CheckReplaced(job, attend.hello);
    const auto in = in_.find(name);
    if (in != in_.end() && in->second != incarnation) {
      out_[name].insert(in->second);
    }
    // A restarted daemon knows rows, not incarnations. So it treats an agent
    // that never got a Welcome as a new one.
    if (in == in_.end() && attend.hello.run().empty()) seats_.erase(name);
    // Such an agent has not been told either that its node was asked to leave.
    if (attend.hello.run().empty()) {
      leaves_.erase(name);
      out_[name].erase(incarnation);
    }
    in_[name] = incarnation;
    if (!job.end().has_value()) {
      leases_[attend.session] = Lease{name, incarnation, now};
    }
    return;
  }
  if (may_change_) return;
  Tested(Invariant::kRefusedIsNothing);
  if (job.revision() != revision_before_ ||
      job.Status(now).SerializeAsString() != status_before_) {
    Broken(Invariant::kRefusedIsNothing,
           absl::StrCat("node ", name, ", incarnation ", incarnation,
                        " was refused, and the status changed"));
  }
}

// A replaced agent must stay out, also after a restart of the daemon, which
// then knows neither agent.
void InvariantChecker::CheckReplaced(const Job& job, const v1::Hello& hello) {
  Agents& agents = agents_[{job.run(), hello.node()}];
  if (!hello.has_node_credential() || hello.run() != job.run()) {
    const auto in = in_.find(hello.node());
    const bool again = in != in_.end() && in->second == hello.incarnation() &&
                       agents.let_in.contains(hello.incarnation());
    if (!again) agents.let_in[hello.incarnation()] = ++let_in_;
    return;
  }
  const uint64_t shown = hello.previous_incarnation() != 0
                             ? hello.previous_incarnation()
                             : hello.incarnation();
  const auto let_in = agents.let_in.find(shown);
  // The agent was let into a run that was adopted since.
  if (let_in == agents.let_in.end()) return;
  if (let_in->second < agents.welcomed) {
    Broken(Invariant::kReplacedIsOut,
           absl::StrCat("node ", hello.node(), ", incarnation ",
                        hello.incarnation(),
                        ", is of an agent that another one had replaced"));
  }
  agents.let_in[hello.incarnation()] = let_in->second;
}

void InvariantChecker::Tries(const v1::Hello& hello,
                             std::optional<uint64_t> epoch) {
  const auto evicted = evicted_.find({hello.run(), hello.node()});
  if (evicted != evicted_.end() && epoch.has_value() &&
      *epoch < evicted->second) {
    Tested(Invariant::kEvictedIsOut);
  }
}

// An eviction confirms that the node is gone, and that the worlds that had it
// are over.
void InvariantChecker::NoteVouched(const std::string& name) {
  for (const auto& [generation, told] : told_) {
    if (told.world_commit.empty() || excepted_.contains(generation)) continue;
    const auto world = DecodeWorld(told.world);
    CHECK(world.ok());
    for (const v1::Member& member : world->members()) {
      if (member.node() == name) excepted_.insert(generation);
    }
  }
}

// A daemon that adopts a run does not know the evictions since the commit of
// the world that it adopts. That is the last world. If the run has ended, it
// may be an older one, as members of that world may not know of the end.
void InvariantChecker::ForgetEvictions() {
  std::vector<const Told*> adoptable;
  for (const auto& [generation, told] : told_) {
    if (told.world_commit.empty()) continue;
    if (!end_journaled_) adoptable.clear();
    adoptable.push_back(&told);
  }
  if (adoptable.empty()) return evicted_.clear();
  for (const Told* told : adoptable) ForgetEvictionsSince(*told);
}

void InvariantChecker::ForgetEvictionsSince(const Told& told) {
  const auto world = DecodeWorld(told.world);
  v1::WorldCommit world_commit;
  CHECK(world.ok() && world_commit.ParseFromString(told.world_commit));
  std::erase_if(evicted_, [&](const auto& entry) {
    const auto& [run_and_name, epoch] = entry;
    for (int row = 0; row < world->members_size(); ++row) {
      if (world->members(row).node() == run_and_name.second) {
        return row >= world_commit.epochs_size() ||
               world_commit.epochs(row) < epoch;
      }
    }
    return false;
  });
}

// The agent of this stream attends. If it claimed a world, the daemon has
// adopted that world. It is older than the last one if no living agent has
// brought a later one.
void InvariantChecker::NoteAdopted(SessionId session) {
  const auto claim = claims_.find(session);
  if (claim == claims_.end()) return;
  const Told* adopted = nullptr;
  bool later = false;
  for (const auto& entry : told_) {
    const Told& told = entry.second;
    const bool claimed = std::any_of(
        claims_.begin(), claims_.end(),
        [&](const auto& other) { return other.second.world == told.world; });
    later = later || (adopted != nullptr && claimed);
    if (told.world == claim->second.world) adopted = &told;
  }
  if (adopted != nullptr && !later && !adopted->world_commit.empty()) {
    ForgetEvictionsSince(*adopted);
  }
}

// A claim to a run that this daemon has no journal of counts until the stream
// is closed.
void InvariantChecker::NoteClaim(const Job& job, const Attend& attend) {
  const v1::Hello& hello = attend.hello;
  if (!job.MayAdopt() || hello.run().empty() || job.IsRun(hello.run()) ||
      !hello.has_node_credential() || !attend.commit_proven) {
    return;
  }
  claims_[attend.session] = {hello.resume_state().world(), hello.node(),
                             hello.incarnation()};
}

// Checks that over half of the members of the adopted world have brought it.
void InvariantChecker::CheckAdoption(const v1::Proposal& proposal) {
  Tested(Invariant::kAdoptedByMost);
  const auto world = DecodeWorld(proposal.world());
  CHECK(world.ok());
  std::set<std::string> by;
  std::set<std::string> claimed;
  for (const auto& [session, claim] : claims_) {
    claimed.insert(claim.world);
    if (claim.world == proposal.world()) by.insert(claim.node);
  }
  // The daemon cannot know of a newer world if it hears none of its members.
  for (auto told = told_.upper_bound(proposal.generation());
       told != told_.end(); ++told) {
    if (!claimed.contains(told->second.world)) excepted_.insert(told->first);
  }
  claims_.clear();
  excluded_.clear();
  refusals_.clear();
  const auto members = static_cast<size_t>(world->members_size());
  if (by.size() * 2 > members) return;
  Broken(Invariant::kAdoptedByMost,
         absl::StrCat("generation ", proposal.generation(), " is adopted, ",
                      by.size(), " of ", members, " members brought it"));
}

// Checks that an agent that comes back with ranks of an ended world is told so.
void InvariantChecker::CheckToldItEnded(const Job& job, const Attend& attend,
                                        absl::Time now,
                                        const std::vector<Action>& actions) {
  const uint64_t generation = attend.hello.resume_state().running_generation();
  if (generation == 0 || !job.Attends(attend.session)) return;
  const v1::JobStatus status = job.Status(now);
  const bool runs = job.state() == v1::JOB_STATE_RUNNING ||
                    job.state() == v1::JOB_STATE_ISOLATED;
  const bool member = std::any_of(status.nodes().begin(), status.nodes().end(),
                                  [&](const v1::NodeStatus& node) {
                                    return node.node() == attend.hello.node() &&
                                           node.node_rank() >= 0;
                                  });
  if (runs && member && status.generation() == generation) return;
  Tested(Invariant::kToldItEnded);
  for (const Action& action : actions) {
    const auto* send = std::get_if<Send>(&action);
    if (send == nullptr ||
        std::count(send->to.begin(), send->to.end(), attend.session) == 0) {
      continue;
    }
    const v1::DaemonMessage& m = send->message;
    if (m.has_end()) return;
    if (m.has_abort() && m.abort().generation() >= generation) {
      // This ABORT is for the node alone: it had finished and was lost, and the
      // world runs on without it.
      if (runs && !member && status.generation() == m.abort().generation()) {
        ++outsiders_[generation];
      }
      return;
    }
  }
  Broken(Invariant::kToldItEnded,
         absl::StrCat("node ", attend.hello.node(), " holds generation ",
                      generation, ", and the job is in ", status.generation()));
}

}  // namespace rollcall::sim
