"""Lists the deliberate faults, and the promise that must find each."""
import typing


class Edit(typing.NamedTuple):
    """Replaces `old`, which occurs once in the file, by `new`."""
    file: str
    old: str
    new: str


class Fault(typing.NamedTuple):
    """Describes a fault and the promise that must find it.

    promise: the number of a promise (daemon/core/invariants.h), or several
    numbers if the fault breaks each of them as directly. The first promise that
    the simulator finds broken has to be one of them. If a CHECK of the cores
    should find the fault, the promise is the text of that CHECK. A hang of the
    simulator does not count as found.
    """
    name: str
    promise: typing.Union[int, str, typing.Tuple[int, ...]]
    edits: typing.List[Edit]
    # True: the fault is in code that only several daemons use, so only runs of
    # several daemons can find it.
    group: bool = False

    def is_found_by(self, found):
        if isinstance(self.promise, tuple):
            return found in self.promise
        return found == self.promise


FAULTS = [
    Fault('lease off by one', 20, [
        Edit('daemon/core/membership/membership.cc',
             '  if (NextDeadline() > now) return nullptr;',
             '  if (NextDeadline() >= now) return nullptr;'),
    ]),
    Fault('lease a heartbeat too long', 19, [
        Edit('daemon/core/job/acts/loss.cc',
             'node.lease.until = job.now + job.limits.lease;',
             'node.lease.until = job.now + job.limits.lease + '
             'job.limits.heartbeat();'),
    ]),
    Fault('replaced incarnation accepted', 12, [
        Edit('daemon/core/membership/name_rules.cc',
             'if (node.gone && same && !moment_.ended) {',
             'if (node.gone && same && moment_.ended) {'),
        Edit('daemon/core/job/job.cc',
             'if (from == 0) return node.hello.incarnation() == '
             'hello.incarnation();',
             'if (from == 0) return true;'),
    ]),
    Fault('replaced agent accepted after a restart', 12, [
        Edit('daemon/core/membership/run_credentials.cc',
             '    epochs_.Raise(name);\n',
             ''),
    ]),
    Fault('retry forms a world', 11, [
        Edit('daemon/core/job/handlers/attending.cc',
             'if (job.HasEnded()) {\n'
             '    v1::DaemonMessage message;\n'
             '    *message.mutable_end() = job.EndFor(node);',
             'if (redialed && job.phase == JobPhase::kForming) {\n'
             '    Reform(job, v1::REASON_CODE_GROW, "retry", node.name());\n'
             '  }\n'
             '  if (job.HasEnded()) {\n'
             '    v1::DaemonMessage message;\n'
             '    *message.mutable_end() = job.EndFor(node);'),
    ]),
    Fault('a commit is sent before it is journaled', 8, [
        Edit('daemon/core/job/handlers/committing.cc',
             'job.out.Write(Journal::Kind::kCommitted, '
             'job.generation(), world_commit);',
             'job.out.SendTo(job.membership.StreamsOf(job.world()), '
             'job.formation.CommitMessage());\n'
             '  job.out.Write(Journal::Kind::kCommitted, '
             'job.generation(), world_commit);'),
    ]),
    Fault('commit never journaled', 8, [
        Edit('daemon/core/job/handlers/committing.cc',
             'job.out.Write(Journal::Kind::kCommitted, '
             'job.generation(), world_commit);',
             ''),
    ]),
    Fault('one seat given twice', 3, [
        Edit('daemon/core/formation/world.cc',
             'member.set_seat(nodes[i].seat);',
             'member.set_seat(nodes[i].seat / 2);'),
    ]),
    Fault('seats forgotten', 4, [
        Edit('daemon/core/formation/seats.cc',
             'return {node.name(), node.seat, node.hello.launcher(),',
             'return {node.name(), -1, node.hello.launcher(),'),
    ]),
    Fault('ids of the last generation', 6, [
        Edit('daemon/core/formation/formation.cc',
             '  first_prepared_.Clear();\n',
             ''),
        Edit('daemon/core/formation/formation.cc',
             '  if (node.node_rank == 0) first_prepared_ = prepared;',
             '  if (node.node_rank == 0 && first_prepared_.master_port() '
             '== 0) {\n'
             '    first_prepared_ = prepared;\n'
             '  }'),
    ]),
    Fault('generation used again after a restart', 7, [
        Edit('daemon/core/job/handlers/restoring.cc',
             'job.generations = Generations(state.generation);',
             'job.generations =\n'
             '      Generations(state.world_commit.has_value() || '
             '!state.generation\n'
             '                      ? state.generation\n'
             '                      : state.generation - 1);'),
    ]),
    Fault('committed generation dropped at a restart', 7, [
        Edit('daemon/core/job/handlers/restoring.cc',
             'TakeUpWorld(job, *world, *state.proposal, state.world_commit);',
             'TakeUpWorld(job, *world, *state.proposal, std::nullopt);'),
    ]),
    Fault('late loop blames its agents', 19, [
        Edit('daemon/core/job/job.cc',
             'if (tick.late > Limits::late_min) {',
             'if (tick.late > absl::Hours(1)) {'),
    ]),
    Fault('a rank that goes on is blamed all the same', 28, [
        Edit('daemon/core/hangs/hangs.cc',
             '    Drop(rank);\n    return false;',
             '    return false;'),
    ]),
    Fault('the rank furthest ahead is blamed for a hang', 28, [
        Edit('daemon/core/hangs/hang_verdict.cc',
             '*std::min_element(believed.begin(), ',
             '*std::max_element(believed.begin(), '),
    ]),
    Fault('a rank that waits is blamed before one that has not begun', 28, [
        Edit('daemon/core/hangs/hang_verdict.cc',
             '      begun(HasBegun(said)),',
             '      begun(!HasBegun(said)),'),
    ]),
    Fault('one node makes a start expected of all', 28, [
        Edit('daemon/core/hangs/starts.cc',
             'if (took_.size() * 2 <= nodes_) return false;',
             'if (took_.empty()) return false;'),
        Edit('daemon/core/hangs/starts.cc',
             'static_cast<std::ptrdiff_t>(nodes_ / 2);',
             'static_cast<std::ptrdiff_t>(took_.size() / 2);'),
    ]),
    Fault('ranks of an older world are blamed for a hang', 28, [
        Edit('daemon/core/job/acts/generation_end.cc',
             'EndNoticeRound(job);\n'
             '  job.hangs.DropAll();',
             'EndNoticeRound(job);'),
    ]),
    Fault('a refused agent changes the status', 10, [
        Edit('daemon/core/job/handlers/attending.cc',
             'if (!refused->logged) return;',
             'job.out.Changed();\n'
             '    if (!refused->logged) return;'),
    ]),
    Fault('prepared while old ranks live', 16, [
        Edit('client/agent/core/agent/acts/owed_messages.cc',
             '      !agent.Settled() || !agent.attendance.welcomed()) {',
             '      !agent.attendance.welcomed()) {'),
    ]),
    Fault('an exit that no stream has told is lost', 30, [
        Edit('client/agent/core/agent/handlers/streams.cc',
             '  SayExits(agent);\n',
             ''),
    ]),
    Fault('majority silence taken for death', 23, [
        Edit('daemon/core/job/job.cc',
             'MaybeBeginIsolation(job);',
             ''),
    ]),
    Fault('an isolated daemon waits for half of daemon_grace', 23, [
        Edit('daemon/core/isolation/isolation.cc',
             '  Begin(std::move(silent), now + limits.daemon_grace);',
             '  Begin(std::move(silent), now + limits.daemon_grace / 2);'),
    ]),
    Fault('a drained node keeps its place', 25, [
        Edit('daemon/core/job/acts/notice_rounds.cc',
             'if (node.session != 0 && !job.membership.IsExcluded(name)) {',
             'if (false) {'),
    ]),
    Fault('a drain is forgotten by the next daemon', 25, [
        Edit('daemon/core/job/handlers/restoring.cc',
             'if (state.leaving.has_value()) TakeUpLeaving(job, '
             '*state.leaving);',
             ''),
    ]),
    Fault('the credential of an evicted node stands', 26, [
        Edit('daemon/core/job/handlers/leaving.cc',
             'job.credentials.Evict(name);',
             ''),
    ]),
    Fault('an adopted run forgets the evicted nodes', 26, [
        Edit('daemon/core/membership/run_credentials.cc',
             '  epochs_.RaiseFloor(world_commit.epoch_highest() + '
             'kEpochsUnseen);\n',
             ''),
    ]),
    Fault('a drain costs a restart', 27, [
        Edit('daemon/core/job/handlers/leaving.cc',
             'Reform(job, outcome.code, outcome.reason, outcome.node);',
             'job.failures.SetCharged(job.failures.charged() + 1);\n'
             '  Reform(job, outcome.code, outcome.reason, outcome.node);'),
    ]),
    Fault('the state of a rank that is behind', 24, [
        Edit('daemon/core/formation/state_source.cc',
             'step > claims[*choice.source].step',
             'step < claims[*choice.source].step'),
    ]),
    Fault('a notice without a bound', 30, [
        Edit('daemon/core/notices/notices.cc',
             'now + limits.stop_grace + limits.lease;',
             'now + limits.lease + absl::InfiniteDuration();'),
    ]),
    Fault('a node that flaps is taken in at once', 29, [
        Edit('daemon/core/formation/arrivals.cc',
             '  const Count& count = own ? at->second : others_;\n',
             '  const Count& count = own ? Count() : others_;\n'),
    ]),
    Fault('new names are taken in at once', 29, [
        Edit('daemon/core/formation/arrivals.cc',
             '  const Count& count = own ? at->second : others_;\n',
             '  const Count& count = own ? at->second : Count();\n'),
    ]),
    Fault('a blame window never ends', 20, [
        Edit('daemon/core/failures/failures.h',
             '    return unstopped_ == 0 || now >= window_->until;',
             '    return unstopped_ == 0;'),
    ]),
    # --- One world a generation, from its journal to its ranks ----------------
    # The current rows also have the epochs of nodes that were admitted since.
    Fault('a commit that is sent again has the current rows', 1, [
        Edit('daemon/core/job/handlers/attending.cc',
             'job.out.SendTo(node, job.formation.CommitMessage());',
             'v1::WorldCommit world_commit = '
             '*job.formation.world_commit();\n'
             '      const v1::WorldCommit rows =\n'
             '          job.formation.Commit(job.membership, '
             'job.credentials.epochs(), std::nullopt);\n'
             '      *world_commit.mutable_incarnations() = '
             'rows.incarnations();\n'
             '      *world_commit.mutable_epochs() = rows.epochs();\n'
             '      *world_commit.mutable_token_ids() = rows.token_ids();\n'
             '      *world_commit.mutable_token_of() = rows.token_of();\n'
             '      job.formation.TakeUp(job.world(), '
             'job.formation.proposal(), world_commit);\n'
             '      job.out.SendTo(node, job.formation.CommitMessage());'),
    ]),
    Fault('each node starts by the MASTER_PORT that it prepared itself', 2, [
        Edit('client/agent/core/agent/state/world_change.cc',
             '  CleanWorldCommit(world_commit);\n',
             '  CleanWorldCommit(world_commit);\n'
             '  world_commit.set_master_port(prepared_->master_port());\n'),
    ]),
    Fault('a run is journaled without its settings', 9, [
        Edit('daemon/core/job/job.cc',
             'state_.out.Write(Journal::Kind::kRunStarted, 0, '
             'state_.settings);',
             'state_.out.WriteBytes(Journal::Kind::kRunStarted, 0, "");'),
    ]),
    Fault('the names of lost newcomers are kept without a limit',
          'job.newcomers.names() <= Limits::newcomer_names_max', [
        Edit('daemon/core/formation/arrivals.cc',
             'names_.size() < Limits::newcomer_names_max ? '
             'names_[name] : others_;',
             'true ? names_[name] : others_;'),
    ]),
    # After Prepared, a linked rank that waits for a world may end or unlink.
    Fault('a world starts while a rank of the last one is being stopped', 14, [
        Edit('client/agent/core/agent/acts/world_start.cc',
             '!agent.change->committed() ||\n      !agent.Settled()) {',
             '!agent.change->committed()) {'),
    ]),
    Fault('a commit that is heard again starts the ranks again', 17, [
        Edit('client/agent/core/agent/acts/world_start.cc',
             'std::move(*agent.change).Start();\n'
             '  agent.change.reset();\n',
             'WorldChange(*agent.change).Start();\n'
             '  agent.change->ForgetCommit();\n'),
    ]),
    Fault('an agent does not wait for the end of its ranks', 18, [
        Edit('client/agent/core/agent/acts/departing.cc',
             '  if (!agent.rank_processes.empty() || agent.setup.running() ||',
             '  if (agent.setup.running() ||'),
    ]),
    Fault('a rank that a signal has ended exits 1 as well', 21, [
        Edit('client/agent/core/agent/handlers/rank_events.cc',
             '  exited.set_code(ended.code);\n',
             '  exited.set_code(ended.signal != 0 ? 1 : ended.code);\n'),
    ]),
    Fault('a stop ends the job without its code', 22, [
        Edit('daemon/core/job/handlers/leaving.cc',
             'end.set_code(stop.code);',
             ''),
    ]),
    # --- What must outlive a daemon, a stream and a node's absence ------------
    Fault('a run is adopted by half of its members or fewer', 31, [
        Edit('daemon/core/adoption/claims.cc',
             'return chosen != nullptr && chosen->most() ? chosen : nullptr;',
             'return chosen;'),
    ]),
    Fault('the generation that an agent has seen is not noted', 7, [
        Edit('daemon/core/job/handlers/attending.cc',
             'job.generations.Seen(attend.hello.generation_seen());',
             ''),
    ]),
    Fault('an agent that comes back is not told that its world has ended', 32, [
        Edit('daemon/core/job/handlers/attending.cc',
             'resume_state.running_generation(), " has ended"));\n'
             '    job.out.SendTo(node, message);',
             'resume_state.running_generation(), " has ended"));'),
    ]),
    Fault('a world is formed without a member whose stream broke', 19, [
        Edit('daemon/core/job/handlers/forming.cc',
             'return job.membership.HasSeatedSuspect() &&', 'return false &&'),
    ]),
    # A node that was late, or came back without its world, has lost its seat,
    # so it is in the next world at another seat (4). Other excluded nodes leave
    # (25) or are unfit (33).
    Fault('an excluded node gets a seat', (4, 25, 33), [
        Edit('daemon/core/job/acts/standing.cc',
             'job.membership.Exclude(node);',
             ''),
    ]),
    Fault('an agent takes an older proposal', 5, [
        Edit('client/agent/core/agent/handlers/worlds.cc',
             'proposal.generation() <= agent.generation_seen',
             'proposal.generation() == agent.generation_seen'),
    ]),
    Fault('an agent takes an older abort', 5, [
        Edit('client/agent/core/agent/handlers/worlds.cc',
             '  if (abort.generation() < agent.generation_seen) return;\n',
             ''),
    ]),
    Fault('a leaving node is not journaled', 25, [
        Edit('daemon/core/job/acts/records.cc',
             'job.out.Write(Journal::Kind::kLeaving, job.generation(),\n'
             '                job.notices.TakeRecord(job.now));',
             'job.notices.TakeRecord(job.now);'),
    ]),
    Fault('a restart is charged for a lost node', 27, [
        Edit('daemon/core/failures/failures.cc',
             '  if (std::exchange(window_->charged, false) && charged_ > 0) '
             '--charged_;\n',
             ''),
    ]),
    Fault('a node that refused a world is in the next one', 33, [
        Edit('daemon/core/job/handlers/forming.cc',
             'Exclude(job, node, reason);\n'
             '  // What it refused for',
             '// What it refused for'),
    ]),
    Fault('a spare that has served exits 0', 34, [
        Edit('daemon/core/job/state/ending.cc',
             'if (node.served_in != 0 || excluded) return end;',
             'if (excluded) return end;'),
    ]),
    Fault('disjoint worlds run at once', 15, [
        Edit('daemon/core/job/handlers/forming.cc',
             'if (!IsFenced(job, seated)) Form(job, seated);',
             'Form(job, seated);'),
    ]),
    Fault('what was heard last is forgotten by the next daemon', 15, [
        Edit('daemon/core/job/handlers/restoring.cc',
             'job.gathering.fence() = FenceOf(state, job.membership, '
             'job.now);',
             ''),
    ]),
    # With --once, the rank that runs is on another node.
    Fault('a member that starts no rank opens the fence', 15, [
        Edit('daemon/core/formation/fence.cc',
             '    if (RanksStarted(member) == 0) continue;\n',
             ''),
    ]),
    Fault('a write does not compare the key of the leader', 35, [
        Edit('daemon/journal/etcd/etcd_journal.cc',
             '  Compare& leader = *txn.add_compare();\n',
             '  Compare leader;\n'),
    ], group=True),
    Fault('a write does not compare the number of writes', 36, [
        Edit('daemon/journal/etcd/etcd_journal.cc',
             '  Compare& writes = *txn.add_compare();\n',
             '  Compare writes;\n'),
    ], group=True),
    Fault('a write does not move the number of writes on', 36, [
        Edit('daemon/journal/etcd/etcd_journal.cc',
             'WritesValue(options_.leader_term.lease, ++tried_)',
             'WritesValue(options_.leader_term.lease, tried_)'),
    ], group=True),
    Fault('a lost write does not end the term', 37, [
        Edit('daemon/journal/etcd/etcd_journal.cc',
             '  options_.lost(why);\n',
             ''),
    ], group=True),
    Fault('a leader term never ends', 35, [
        Edit('daemon/journal/etcd/leadership.cc',
             'if (absl::ToUnixNanos(LeaseNow()) < until) return true;',
             'if (until > 0) return true;'),
    ], group=True),
    Fault('a term goes on that was seen to be over', 30, [
        Edit('daemon/journal/etcd/leadership.cc',
             '  leading_.compare_exchange_strong(leading, 0);\n'
             '  return false;',
             '  return false;'),
    ], group=True),
    Fault('a next term begins before the end of the last one is dealt with', 30, [
        Edit('daemon/server/leader/leader_session.cc',
             '    inputs_.push_back(std::move(input));\n',
             '    inputs_.push_front(std::move(input));\n'),
    ], group=True),
    Fault('a term lasts as long as its lease', 35, [
        Edit('daemon/journal/etcd/leader_lease.cc',
             'sent + left * 9 / 10', 'sent + left'),
    ], group=True),
    Fault('a term counts from the answer', 35, [
        Edit('daemon/journal/etcd/leadership.cc',
             '  leader_lease_.Renewed(sent, *left);',
             '  leader_lease_.Renewed(LeaseNow(), *left);'),
    ], group=True),
    # The comparison that is removed fails in another daemon's term, and when
    # the same request arrives a second time.
    Fault('a daemon campaigns although another one leads', (35, 36), [
        Edit('daemon/journal/etcd/leadership.cc',
             '  Compare& compare = *txn.add_compare();',
             '  Compare compare;'),
    ], group=True),
    Fault('what was decided in a term is sent after it', 35, [
        Edit('daemon/server/loop/acts/commit.cc',
             '  if (!loop.Leads()) return StandDown(loop);\n'
             '  if (loop.options.observer',
             '  if (loop.options.observer'),
    ], group=True),
    Fault('a successor goes by its own clock to forget a run that ended', 38, [
        Edit('daemon/server/loop/state/job_table.cc',
             '  if (age >= kRemembered) return;',
             '  if (age >= absl::Seconds(10)) return;'),
    ], group=True),
    Fault('a change of the store is done again', 39, [
        Edit('daemon/core/store/generation_store.cc',
             '        done->second.operation == asked.operation()) {',
             '        done->second.operation != asked.operation()) {'),
    ]),
    Fault('others see what the home lacks', 39, [
        Edit('daemon/core/store/store_records.cc',
             '  return sequence <= key.confirmed ||',
             '  return sequence <= key.sequence ||'),
    ]),
    Fault('a restarted daemon opens the store too early', 39, [
        Edit('daemon/core/store/store_records.cc',
             '  if (reported_.size() < nodes_.size()) return;',
             '  if (reported_.empty()) return;'),
    ]),
]
