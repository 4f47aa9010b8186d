#!/usr/bin/env python3
"""Puts one deliberate fault after the other into copies of the cores and shows
that the simulator finds each.

    tests/sim/faults.py [--seeds N] [--only WORD] [--work FOLDER]

Works in a copy of the tree, never in the tree itself. Prints a line a fault:
its name, the seed that found it and the promise that was broken. Exit status:
0: all were found, and the unchanged cores are green; 1: otherwise.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Name; then what is replaced by what, in which file. Each text stands there
# exactly once.
FAULTS = [
    ('lease off by one', [
        ('daemon/core/job.cc',
         'while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {',
         'while (!deadlines_.empty() && deadlines_.begin()->first < now_) {'),
    ]),
    ('lease a heartbeat too long', [
        ('daemon/core/job.cc',
         '  node.lease_until = now_ + limits_.lease;\n',
         '  node.lease_until = now_ + limits_.lease + limits_.heartbeat();\n'),
    ]),
    ('replaced incarnation accepted', [
        ('daemon/core/job_attend.cc',
         'if (node.gone && same && phase_ != Phase::kEnded) {',
         'if (node.gone && same && phase_ == Phase::kEnded) {'),
        ('daemon/core/job_attend.cc',
         'if (from == 0) return node.hello.incarnation() == '
         'hello.incarnation();',
         'if (from == 0) return true;'),
    ]),
    ('replaced agent accepted after a restart', [
        ('daemon/core/job_attend.cc',
         '    node_epochs_.Raise(name);\n',
         ''),
    ]),
    ('retry forms a world', [
        ('daemon/core/job_attend.cc',
         '  SendWelcome(node);\n  if (phase_',
         '  SendWelcome(node);\n'
         '  if (redialed && phase_ == Phase::kForming) {\n'
         '    Reform(v1::REASON_CODE_GROW, "retry", node.hello.node());\n'
         '  }\n'
         '  if (phase_'),
    ]),
    ('word before journal', [
        ('daemon/core/job_form.cc',
         '  actions_.push_back(Send{MemberSessions(), CommitMessage()});',
         '  actions_.insert(actions_.begin(),\n'
         '                  Send{MemberSessions(), CommitMessage()});'),
    ]),
    ('commit never journaled', [
        ('daemon/core/job_form.cc',
         '  actions_.push_back(Journal{Journal::Kind::kCommitted, generation_,\n'
         '                             seal_->SerializeAsString()});\n',
         ''),
    ]),
    ('one seat given twice', [
        ('daemon/core/world.cc',
         'member.set_seat(nodes[i].seat);',
         'member.set_seat(nodes[i].seat / 2);'),
    ]),
    ('seats forgotten', [
        ('daemon/core/job_form.cc',
         'return {node.hello.node(), node.seat, node.hello.launcher(),',
         'return {node.hello.node(), -1, node.hello.launcher(),'),
    ]),
    ('ids of the last generation', [
        ('daemon/core/job_form.cc', '  first_prepared_.Clear();\n', ''),
        ('daemon/core/job.cc',
         '    first_prepared_ = prepared;',
         '    if (first_prepared_.master_port() == 0) '
         'first_prepared_ = prepared;'),
    ]),
    ('generation used again after a restart', [
        ('daemon/core/job_restore.cc',
         'restored.generation_ = state.generation;',
         'restored.generation_ = state.seal.has_value() || !state.generation\n'
         '                             ? state.generation\n'
         '                             : state.generation - 1;'),
    ]),
    ('committed generation dropped at a restart', [
        ('daemon/core/job_restore.cc',
         'restored.TakeUpWorld(*world, *state.proposal, state.seal);',
         'restored.TakeUpWorld(*world, *state.proposal, std::nullopt);'),
    ]),
    ('late loop blames its agents', [
        ('daemon/core/job.cc',
         'if (tick.late > kLate) {',
         'if (tick.late > absl::Hours(1)) {'),
    ]),
    ('a rank that goes on is blamed all the same', [
        ('daemon/core/job_hang.cc',
         'if (stalled.goes_on()) return DropStall(rank);',
         'if (stalled.goes_on()) return;'),
    ]),
    ('who is furthest ahead is blamed for a hang', [
        ('daemon/core/hang_verdict.cc',
         '*std::min_element(believed.begin(), ',
         '*std::max_element(believed.begin(), '),
    ]),
    ('who waits is blamed before who has not begun', [
        ('daemon/core/hang_verdict.cc',
         '      begun(HasBegun(said)),',
         '      begun(!HasBegun(said)),'),
    ]),
    ('ranks of an older world are blamed for a hang', [
        ('daemon/core/job_form.cc',
         '  DropPending();\n  DropStalls();\n',
         '  DropPending();\n'),
    ]),
    ('refused stranger changes the status', [
        ('daemon/core/job_attend.cc',
         '  const bool replaced = !hello.run().empty();\n',
         '  const bool replaced = !hello.run().empty();\n'
         '  ++revision_;\n'),
    ]),
    ('prepared while old ranks live', [
        ('client/agent/agent_world.cc',
         'preparing_->seal.has_value() || !Settled() ||',
         'preparing_->seal.has_value() ||'),
    ]),
    ('an exit that no stream has told is lost', [
        ('client/agent/agent_link.cc', '  SayExits();\n', ''),
    ]),
    ('majority silence taken for death', [
        ('daemon/core/job.cc',
         'if (!isolated_ && MostAreSilent()) TakeItselfForCutOff();',
         'if (false) TakeItselfForCutOff();'),
    ]),
    ('a drained node keeps its place', [
        ('daemon/core/job_notice.cc',
         'if (node.session != 0 && !barred_.contains(name)) {',
         'if (false) {'),
    ]),
    ('a drain is forgotten by the next daemon', [
        ('daemon/core/job_restore.cc',
         'if (state.leaving.has_value()) '
         'restored.TakeUpLeaving(*state.leaving);',
         ''),
    ]),
    ('the credential of an evicted node stands', [
        ('daemon/core/job_notice.cc',
         '    node_epochs_.Raise(name);\n    // Of the run', '    // Of the run'),
    ]),
    ('an adopted run forgets who was evicted', [
        ('daemon/core/job_adopt.cc',
         '  node_epochs_.RaiseFloor(seal.epoch_highest() + kEpochsUnseen);\n',
         ''),
    ]),
    ('a drain costs a restart', [
        ('daemon/core/job_notice.cc',
         '  const bool grows = notice.kind() == v1::NOTICE_KIND_GROW;\n',
         '  const bool grows = notice.kind() == v1::NOTICE_KIND_GROW;\n'
         '  ++restarts_charged_;\n'),
    ]),
    ('the state of who is behind', [
        ('daemon/core/state_source.cc',
         'step > claims[*choice.source].step',
         'step < claims[*choice.source].step'),
    ]),
    ('a notice without a bound', [
        ('daemon/core/job_notice.cc',
         '  pending_->until = now_ + limits_.stop_grace + limits_.lease;\n',
         ''),
    ]),
    ('a node that flaps is taken in at once', [
        ('daemon/core/arrivals.cc',
         '  const Count& count = own ? at->second : others_;\n',
         '  const Count& count = own ? Count() : others_;\n'),
    ]),
    ('new names are taken in at once', [
        ('daemon/core/arrivals.cc',
         '  const Count& count = own ? at->second : others_;\n',
         '  const Count& count = own ? at->second : Count();\n'),
    ]),
    ('a failure is settled for ever', [
        ('daemon/core/job_end.cc',
         'if (unstopped_ > 0 && now_ < settlement_->until) return;',
         'if (unstopped_ > 0) return;'),
    ]),
]


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False,
                          **options)


def build(tree, folder):
    """The error's text; nothing if it was built."""
    made = run(['ninja', '-C', str(folder), '-j2', 'rollcall_sim'], cwd=tree)
    return None if made.returncode == 0 else made.stdout[-3000:]


def play(folder, seeds):
    """The last lines of a run that broke a promise; nothing if it is green."""
    try:
        played = run([str(folder / 'bin' / 'rollcall_sim'), '--seeds',
                      f'1:{seeds + 1}'], timeout=600)
    except subprocess.TimeoutExpired:
        return 'no end within 600 s'
    return None if played.returncode == 0 else played.stdout.strip()


def put(tree, edits):
    """Returns the files' contents from before."""
    before = {}
    for name, old, new in edits:
        path = tree / name
        text = path.read_text()
        before.setdefault(path, text)
        if text.count(old) != 1:
            raise ValueError(f'{name}: expected once, found '
                             f'{text.count(old)} times:\n{old}')
        path.write_text(text.replace(old, new))
    return before


def try_fault(tree, folder, name, edits, seeds):
    """True: the simulator found it."""
    before = {tree / file: (tree / file).read_text() for file, _, _ in edits}
    try:
        put(tree, edits)
        error = build(tree, folder)
        if error is not None:
            print(f'NOT BUILT  {name}\n{error}', flush=True)
            return False
        found = play(folder, seeds)
        if found is None:
            print(f'NOT FOUND  {name}, in {seeds} seeds', flush=True)
            return False
        print(f'found      {name}\n           ' +
              '\n           '.join(line[:240] for line in found.split('\n')),
              flush=True)
        return True
    except ValueError as error:
        print(f'NOT PUT    {name}: {error}', flush=True)
        return False
    finally:
        for path, text in before.items():
            path.write_text(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seeds', type=int, default=20000)
    parser.add_argument('--only', default='')
    parser.add_argument('--work', default='',
                        help='folder for the copy, kept; default: a new one')
    options = parser.parse_args()
    work = pathlib.Path(options.work or tempfile.mkdtemp(prefix='rollcall-'))
    tree, folder = work / 'tree', work / 'build'
    try:
        shutil.rmtree(tree, ignore_errors=True)
        # With new times, so that a build folder from before is none the wiser.
        shutil.copytree(ROOT, tree, symlinks=True, copy_function=shutil.copy,
                        ignore=shutil.ignore_patterns('.git', 'build'))
        environment = dict(os.environ)
        if shutil.which('ccache'):
            environment['CMAKE_CXX_COMPILER_LAUNCHER'] = 'ccache'
        made = run(['cmake', '--preset', 'dev', '-B', str(folder)], cwd=tree,
                   env=environment)
        error = made.stdout if made.returncode != 0 else build(tree, folder)
        if error is not None:
            sys.exit(f'the unchanged tree cannot be built:\n{error}')
        good = play(folder, options.seeds)
        if good is not None:
            print(f'the unchanged cores are not green:\n{good}')
            return 1
        print(f'green      the unchanged cores, {options.seeds} seeds',
              flush=True)
        wanted = [f for f in FAULTS if options.only in f[0]]
        found = sum(try_fault(tree, folder, name, edits, options.seeds)
                    for name, edits in wanted)
        print(f'{found} of {len(wanted)} faults were found')
        return 0 if found == len(wanted) else 1
    finally:
        if not options.work:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())
