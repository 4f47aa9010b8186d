#!/usr/bin/env python3
"""Puts one deliberate fault after the other into copies of the cores, and shows
that the simulator finds each by the promise that it breaks.

tests/sim/faults.py [--seeds N] [--only WORD] [--work FOLDER] [--list]

Works in a copy of the tree, never in the tree itself. Prints one line for each
fault: its name, the seed that found it and the promise that was broken. Exit
status: 0: each fault was found by its promise, and the unchanged cores break
none; 1: otherwise.

The faults are in fault_table.py. While the simulator plays one fault, the next
one is built; each build compiles only the files that changed.
"""
import argparse
import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from fault_table import FAULTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLAY_S = 600

# Runs of several daemons take longer, so the number of seeds is divided by
# this.
GROUP_SHARE = 20

NOTHING = 'nothing'


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False,
                          **options)


def build(tree, folder):
    """Builds the simulator. Returns the error's text, or None."""
    made = run(['ninja', '-C', str(folder), '-j2', 'rollcall_sim'], cwd=tree)
    return None if made.returncode == 0 else made.stdout[-3000:]


def play(binary, seeds, group=False):
    """Plays the runs. Returns what was found, and the last lines of the run
    that shows it.

    Found is the number of a broken promise, the text of a failed CHECK, or how
    the simulator ended otherwise.
    """
    kind = ['--group'] if group else []
    if group:
        seeds = max(seeds // GROUP_SHARE, 1)
    try:
        played = run([str(binary), *kind, '--seeds', f'1:{seeds + 1}'],
                     timeout=PLAY_S)
    except subprocess.TimeoutExpired:
        return f'no end within {PLAY_S} s', ''
    if played.returncode == 0:
        return NOTHING, ''
    lines = played.stdout.strip()
    promise = re.search(r'^seed \d+: invariant (\d+) ', lines, re.MULTILINE)
    if promise is not None:
        return int(promise.group(1)), lines
    check = re.search(r'CHECK failed: (.*)', lines)
    return (check.group(1) if check is not None
            else f'exit status {played.returncode}'), lines


def put(tree, edits):
    for file, old, new in edits:
        path = tree / file
        text = path.read_text()
        if text.count(old) != 1:
            raise ValueError(f'{file}: expected once, found '
                             f'{text.count(old)} times:\n{old}')
        path.write_text(text.replace(old, new))


def build_fault(tree, folder, fault, binary):
    """Builds the simulator with the fault as `binary`. Returns the error's
    text, if any."""
    before = {tree / edit.file: (tree / edit.file).read_text()
              for edit in fault.edits}
    try:
        put(tree, fault.edits)
        error = build(tree, folder)
        if error is None:
            shutil.copy(folder / 'bin' / 'rollcall_sim', binary)
            return None
        return f'NOT BUILT  {fault.name}\n{error}'
    except ValueError as error:
        return f'NOT PUT    {fault.name}: {error}'
    finally:
        for path, text in before.items():
            path.write_text(text)


def try_fault(fault, binary, seeds):
    """Returns whether a promise that the table names has found the fault."""
    found, lines = play(binary, seeds, fault.group)
    binary.unlink()
    good = fault.is_found_by(found)
    word = ('found' if good else
            'NOT FOUND' if found == NOTHING else 'FOUND BY ANOTHER')
    print(f'{word:<10} {fault.name}', flush=True)
    if not good:
        print(f'           expected {fault.promise}, found {found}, in {seeds} '
              'seeds')
    for line in lines.split('\n') if lines else []:
        print('           ' + line[:240], flush=True)
    return good


def try_faults(tree, folder, faults, seeds):
    """Returns how many faults were found."""
    found = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as player:
        played = []
        for number, fault in enumerate(faults):
            binary = folder / f'fault{number}'
            error = build_fault(tree, folder, fault, binary)
            if error is not None:
                print(error, flush=True)
                continue
            played.append(player.submit(try_fault, fault, binary, seeds))
        for one in played:
            found += one.result()
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seeds', type=int, default=20000)
    parser.add_argument('--only', default='')
    parser.add_argument('--list', action='store_true',
                        help='the faults and the promise that finds each')
    parser.add_argument('--work', default='',
                        help='folder for the copy, kept; default: a new one')
    options = parser.parse_args()
    wanted = [fault for fault in FAULTS if options.only in fault.name]
    if options.list:
        for fault in wanted:
            print(f'{str(fault.promise):>8}  {fault.name}')
        return 0
    work = pathlib.Path(options.work or tempfile.mkdtemp(prefix='rollcall-'))
    tree, folder = work / 'tree', work / 'build'
    try:
        shutil.rmtree(tree, ignore_errors=True)
        # The copies get new modification times, so that an older build folder
        # builds them again.
        shutil.copytree(ROOT, tree, symlinks=True, copy_function=shutil.copy,
                        ignore=shutil.ignore_patterns('.git', 'build'))
        # A fault may leave a parameter or a function unused, so warnings are no
        # errors.
        made = run(['cmake', '--preset', 'dev', '-DROLLCALL_WERROR=OFF', '-B',
                    str(folder)], cwd=tree)
        error = made.stdout if made.returncode != 0 else build(tree, folder)
        if error is not None:
            sys.exit(f'the unchanged tree cannot be built:\n{error}')
        for group in (False, True):
            good, lines = play(folder / 'bin' / 'rollcall_sim', options.seeds,
                               group)
            if good != NOTHING:
                print(f'the unchanged cores are not green: {good}\n{lines}')
                return 1
        print(f'green      the unchanged cores, {options.seeds} seeds',
              flush=True)
        found = try_faults(tree, folder, wanted, options.seeds)
        print(f'{found} of {len(wanted)} faults were found')
        return 0 if found == len(wanted) else 1
    finally:
        if not options.work:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())
