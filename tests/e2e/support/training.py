"""A training on lab hosts, for tests that disturb it.

There are four hosts (or as many as asked), with the launcher on lab1 and one
rank a host, which runs mesh.py. At the end, the test judges what the ranks
wrote to files.
"""
import json
import os
import re
import sys
import time

import harness
from harness import E2E, Lab, nodes_by_name

MESH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mesh.py")


class Training(E2E):
    job = "training"

    def begin(self, members, flags, hosts=4, patience_s=None,
              command=None):
        """Starts the launcher on lab1 and the other members; returns once
        generation 1 does steps.

        `patience_s`: how long ranks wait for a silent peer; None: forever.
        `command`: replaces mesh.py; it must also print `step N`.
        """
        self.lab = Lab(self.stage, hosts)
        self.ledger = self.stage.path("ledger")
        os.mkdir(self.ledger)
        self.stop_file = self.stage.path("stop")
        self.command = command or [sys.executable, "-B", MESH, self.ledger,
                                   self.stop_file]
        if patience_s is not None:
            self.command.append(patience_s)
        self.agents = {}
        self.launch_flags = flags
        self.start_launcher()
        self.join_text = self.join_string(self.launcher)
        for host in members[1:]:
            self.attend(host)
        for host in members:
            self.await_steps(1, [host])
        self.first_ranks = self.ranks(members)

    def start_launcher(self, more=()):
        self.launcher = self.lab.start(1, [
            harness.ROLLCALL, "launch", "--job", self.job, "--listen",
            "0.0.0.0:0", *self.launch_flags, *more, "--", *self.command])
        self.agents[1] = self.launcher

    def attend(self, host, flags=()):
        self.agents[host] = self.lab.start(host, [
            harness.ROLLCALL, "join", self.join_text, *flags, "--",
            *self.command])
        return self.agents[host]

    def await_steps(self, generation, hosts):
        for host in hosts:
            self.agents[host].await_line(rf"step \d+ .*\b(?:g|generation )"
                                         rf"{generation}\b")

    def await_more_steps(self, host):
        """Waits until the rank on a host prints another step."""
        seen = len(self.agents[host].out())
        self.stage.pump(
            lambda: any(re.search(r"step \d+ ", line)
                        for line in self.agents[host].out()[seen:]),
            f"another step of lab{host}")

    def lives_on(self, for_s):
        """Lets the job run undisturbed for a time that the test chooses."""
        until = time.monotonic() + for_s
        self.stage.pump(lambda: time.monotonic() >= until or any(
            p.code is not None for p in self.agents.values()), "a while",
            for_s)

    # --- Questions to the daemon
    # -----------------------------------------------

    def state(self, host=1):
        """Returns `status --json`; None if no daemon answers."""
        asked = self.lab.run(host, [harness.ROLLCALL, "status", self.join_text,
                                    "--json"])
        return json.loads("\n".join(asked.out())) if asked.code == 0 else None

    def await_state(self, condition, what, deadline_s=harness.DEADLINE_S):
        """Returns the first state with condition(state), asked on lab1."""
        return self.await_watched(
            [harness.ROLLCALL, "status", self.join_text], condition, what,
            deadline_s, start=lambda words: self.lab.start(1, words))

    def node_is(self, host, word):
        return lambda state: nodes_by_name(state).get(
            f"lab{host}", {}).get("state") == word

    # --- Results
    # ---------------------------------------------------------------

    def ranks(self, hosts):
        """Returns the pids of the live ranks of these hosts on this machine."""
        return {host: [p for p in self.lab.processes(host)
                       if harness.command_line(p)[2:3] == [MESH]]
                for host in hosts}

    def rank_pids(self, host):
        """Returns the pids, on the host, of all ranks that have run there."""
        return [int(m[1]) for line in self.agents[host].out()
                for m in [re.search(r"up g\d+ .*pid=(\d+)", line)] if m]

    def end_undisturbed(self, hosts):
        """Checks for one generation, one process per rank, and each step once
        and in order."""
        self.assertEqual(self.ranks(hosts), self.first_ranks)
        self.end(hosts)
        for host in hosts:
            steps = self.steps_of(host)
            self.assertEqual({g for g, *_ in steps}, {1})
            self.assertEqual([n for _, _, n, _ in steps],
                             list(range(1, len(steps) + 1)))
        self.assertEqual(len({len(self.steps_of(h)) for h in hosts}), 1)

    def end(self, hosts):
        """Lets the job end; checks that all agents exit 0."""
        with open(self.stop_file, "w", encoding="ascii"):
            pass
        for host in hosts:
            self.assert_code(self.agents[host], 0)

    def steps_of(self, host):
        """Returns (generation, world size, step, time) as written."""
        path = os.path.join(self.ledger, f"lab{host}")
        if not os.path.exists(path):
            return []
        with open(path, encoding="ascii") as f:
            return [tuple(map(int, line.split())) for line in f]

    def assert_one_world_at_a_time(self, lost=()):
        """Checks that no step of a generation is done after one of a later
        generation.

        A step counts as done if all ranks of its world have written it, and its
        time is that of the first one. A rank that was never lost must not have
        written a step of an older generation even alone.
        """
        done, first_of = {}, {}
        for host in range(1, self.lab.hosts + 1):
            last = (0, 0)
            for generation, size, step, at in self.steps_of(host):
                first_of[generation] = min(at, first_of.get(generation, at))
                done.setdefault((generation, size, step), []).append(at)
                self.assertGreater((generation, step), last,
                                   f"lab{host} went back")
                last = generation, step
        self.assertTrue(done)
        for (generation, size, step), times in done.items():
            self.assertLessEqual(len(times), size)
            if len(times) < size:
                continue
            for later, at in first_of.items():
                if later > generation:
                    self.assertLess(
                        min(times), at, f"step {step} of generation "
                        f"{generation} came after one of {later}")
        for host in set(range(1, self.lab.hosts + 1)) - set(lost):
            for generation, _, step, at in self.steps_of(host):
                for later, begun in first_of.items():
                    if later > generation:
                        self.assertLess(at, begun, f"lab{host}, step {step}")
        return done
