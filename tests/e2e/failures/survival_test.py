"""Tests agents, daemons and launchers that are killed."""
import json
import os
import re
import signal
import sys

import harness
from harness import E2E, Gate, nodes_by_name

# Ranks that keep a connection to rank 0 and fail when it breaks, as a
# collective does. Arguments: a gate that opens once rank 0 listens, and one for
# the end.
PEERS = """
import os, select, socket, sys
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
generation = os.environ["ROLLCALL_GENERATION"]
master = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
print(f"up g{generation} rank{rank}/{size} pid={os.getpid()}", flush=True)
if generation != "1":
    open(sys.argv[2]).read()
    sys.exit(0)
if rank == 0:
    door = socket.create_server(master)
    print("rank 0 listens", flush=True)
    peers = [door.accept()[0] for _ in range(size - 1)]
else:
    open(sys.argv[1]).read()
    peers = [socket.create_connection(master)]
print("connected", flush=True)
select.select(peers, [], [])
sys.exit("RuntimeError: Connection reset by peer")
"""


class Survival(E2E):
    def ranks(self, gate):
        """A command with a child in its own session; it prints both pids."""
        return ["sh", "-c",
                "setsid sh -c 'echo child=$$; exec cat " + gate.path + "' & "
                "echo up g$ROLLCALL_GENERATION node$NODE_RANK "
                "rank$RANK/$WORLD_SIZE pid=$$; "
                f"cat {gate.path}; echo end=$$"]

    def gather(self, flags, names, gate, nproc=1):
        """Starts a launcher and workers; returns when all ranks are up."""
        flags = [*flags, "--nproc-per-node", str(nproc)]
        launcher = self.launch(flags, self.ranks(gate))
        join = self.join_string(launcher)
        workers = {n: self.join(join, ["--name", n, "--nproc-per-node",
                                       str(nproc)], self.ranks(gate))
                   for n in names}
        for process in [launcher, *workers.values()]:
            process.await_lines(r"up g1 ", nproc)
            process.await_lines(r"child=", nproc)
        return launcher, join, workers

    def pids(self, process, pattern=r"(?:child|pid)=(\d+)"):
        return [int(m) for _, _, text in process.lines
                for m in re.findall(pattern, text)]

    def test_kill_9_of_a_worker_agent(self):
        gate = Gate(self.stage)
        launcher, join, workers = self.gather(
            [*harness.whole("3:4")], ["w1", "w2", "w3"], gate, nproc=2)
        lost = workers.pop("w2")
        its = self.pids(lost)
        self.assertEqual(len(its), 4)
        lost.signal(signal.SIGKILL)
        self.stage.await_gone(its, "the killed agent's ranks and their "
                              "children")
        left = [launcher, *workers.values()]
        worlds = [m.groups() for process in left for m in process.await_lines(
            r"up g2 node(\d+) rank(\d+)/(\d+)", 2)]
        self.assertEqual(sorted(int(rank) for _, rank, _ in worlds),
                         list(range(6)))
        self.assertEqual({node for node, _, _ in worlds}, set("012"))
        self.assertEqual({size for _, _, size in worlds}, {"6"})
        state = self.await_status(join, lambda s: s["state"] == "running",
                                  "running")
        self.assertEqual(state["generation"], 2)
        self.assertEqual(state["world_size"], 6)
        self.assertEqual(state["last_reform"]["generation"], 2)
        self.names_the_lost(state, "w2")
        gate.open()
        for process in left:
            self.assert_code(process, 0)

    def names_the_lost(self, state, lost):
        """Checks that a running job's status has the lost node and why."""
        reform = state["last_reform"]
        self.assertEqual(reform["generation"], state["generation"])
        self.assertIn(reform["code"], ("lost_stream", "lost_lease"))
        named = re.findall(r"\bw\d\b", reform["reason"])
        self.assertEqual(set(named), {lost}, reform)
        self.assertEqual(reform.get("node", lost), lost)
        nodes = nodes_by_name(state)
        self.assertIn(lost, nodes)
        self.assertEqual(nodes[lost]["state"], "lost")
        self.assertEqual(nodes[lost]["node_rank"], -1)
        self.assertNotEqual(nodes[lost]["reason"], "")

    def test_kill_9_of_a_worker_whose_peers_fail_at_once(self):
        # The survivors' ranks exit before the daemon knows that the node is
        # lost. The lost node must still be the root cause.
        gate, connect = Gate(self.stage), Gate(self.stage)
        command = [sys.executable, "-c", PEERS, connect.path, gate.path]
        launcher = self.launch([*harness.whole("3:4")], command)
        join = self.join_string(launcher)
        workers = {n: self.join(join, ["--name", n], command)
                   for n in ("w1", "w2", "w3")}
        everybody = [launcher, *workers.values()]
        for process in everybody:
            process.await_line(r"up g1 rank\d/4")
        launcher.await_line("rank 0 listens")
        connect.open()
        for process in everybody:
            process.await_line("connected")
        lost = workers.pop("w2")
        lost.signal(signal.SIGKILL)
        left = [launcher, *workers.values()]
        # If the survivors' exits arrive before the killed agent's stream ends,
        # the daemon proposes generation 2 with the lost node; that proposal
        # never commits.
        for process in left:
            process.await_line(r"up g[23] rank\d/3")
        state = self.await_status(join, lambda s: s["state"] == "running",
                                  "running")
        self.names_the_lost(state, "w2")
        self.assertEqual(state["root_cause"]["node"], "w2")
        gate.open()
        for process in left:
            self.assert_code(process, 0)
            # The loss counts as one event, not as failures of three ranks.
            self.assertEqual(
                len([line for line in process.out() if "] up g" in line]), 2,
                process.text())

    def test_kill_9_of_an_agent_that_was_to_start_nothing(self):
        gate = Gate(self.stage)
        command = ["sh", "-c", "echo up g$ROLLCALL_GENERATION of $WORLD_SIZE; "
                   f"exec cat {gate.path}"]
        flags = ["--once"]
        launcher = self.launch([*harness.whole("2:3"), *flags], command)
        join = self.join_string(launcher)
        workers = {n: self.join(join, ["--name", n, *flags], command)
                   for n in ("w1", "w2")}
        launcher.await_line("up g1 of 3")
        workers.pop("w2").signal(signal.SIGKILL)
        launcher.await_line("up g2 of 2")
        state = self.await_status(join, lambda s: s["state"] == "running",
                                  "running")
        self.names_the_lost(state, "w2")
        gate.open()
        for process in (launcher, workers["w1"]):
            self.assert_code(process, 0)
            self.assertIsNone(process.find("up g3"))

    def killed_where_nobody_looks(self, flags):
        """Kills the rank of w2 while its agent is stopped. Its peers fail
        because of it, and the daemon gets their exits before the one of w2."""
        gate, connect = Gate(self.stage), Gate(self.stage)
        command = [sys.executable, "-c", PEERS, connect.path, gate.path]
        launcher = self.launch(["--nodes", "3", *flags], command)
        join = self.join_string(launcher)
        workers = {n: self.join(join, ["--name", n], command)
                   for n in ("w1", "w2")}
        everybody = [launcher, *workers.values()]
        for process in everybody:
            process.await_line(r"up g1 rank\d/3")
        launcher.await_line("rank 0 listens")
        connect.open()
        for process in everybody:
            process.await_line("connected")
        # The watch starts before the agent is stopped, because the agent's
        # lease must not end meanwhile.
        watch = self.stage.start(
            [harness.ROLLCALL, "status", join, "--json", "--watch"])
        watch.await_line('"running"')
        workers["w2"].signal(signal.SIGSTOP)
        os.kill(self.pids(workers["w2"])[0], signal.SIGKILL)
        # A peer's failure has ended generation 1: either the next world is
        # being formed or, if no restart is left, the job ends.
        self.stage.pump(
            lambda: any(state["state"] != "running" or
                        state["nodes"][0]["state"] == "attending"
                        for state in map(json.loads, watch.out())),
            "the end of generation 1")
        workers["w2"].signal(signal.SIGCONT)
        if watch.code is None:
            watch.signal(signal.SIGTERM)
        return gate, join, everybody

    def test_a_rank_killed_while_its_agent_sleeps(self):
        gate, join, everybody = self.killed_where_nobody_looks([])
        for process in everybody:
            process.await_line(r"up g2 rank\d/3")
        state = self.await_status(
            join, lambda s: s["state"] == "running" and
            s["root_cause"].get("node") == "w2", "w2 to blame")
        self.assertEqual(state["generation"], 2)
        self.assertEqual(state["root_cause"]["code"], "rank_signal")
        self.assertIn("on w2 ", state["last_reform"]["reason"])
        gate.open()
        for process in everybody:
            self.assert_code(process, 0)

    def test_a_rank_killed_while_its_agent_sleeps_ends_the_job(self):
        _, _, everybody = self.killed_where_nobody_looks(
            ["--max-restarts", "0"])
        for process in everybody:
            self.assert_code(process, 128 + signal.SIGKILL)
        summary = [t for t in everybody[0].err() if not t.startswith("[")]
        self.assertTrue([t for t in summary
                         if re.search(r"rank \d on w2\b.*signal 9", t)],
                        summary)

    def test_kill_9_of_an_agent_whose_rank_has_a_child_in_hiding(self):
        # The child runs in its own session with an empty environment, and its
        # parent has exited, so the kernel made the agent its parent. The agent
        # reports it to the guard at its next scan, in which it also reaps
        # orphans that have ended. The rank waits until two such orphans are
        # reaped, because the first scan may have begun before the child
        # existed.
        gate, word = Gate(self.stage), self.stage.path("hidden")
        command = ["sh", "-c", "setsid env -i sh -c '(exec cat " +
                   gate.path + ") & echo $! > " + word + ".$0' $RANK; "
                   "for i in 1 2; do "
                   "setsid sh -c '(while kill -0 $$ 2>/dev/null; do :; done) & "
                   "echo $! > " + word + ".ended.$RANK'; "
                   "while kill -0 $(cat " + word + ".ended.$RANK) 2>&-; "
                   "do :; done; done; "
                   f"echo up pid=$$; exec cat {gate.path}"]
        launcher = self.launch(["--nodes", "2"], command)
        worker = self.join(self.join_string(launcher), ["--name", "w1"],
                           command)
        worker.await_line("up pid=")
        with open(word + ".1", encoding="ascii") as f:
            hidden = int(f.read())
        ranks = self.pids(worker)
        worker.signal(signal.SIGKILL)
        self.stage.await_gone([*ranks, hidden], "its processes")
        launcher.signal(signal.SIGINT)
        self.assert_code(launcher, 130)

    def test_the_next_life_sweeps_what_no_guard_did(self):
        gate = Gate(self.stage)
        launcher, join, workers = self.gather(
            [*harness.whole("2:3")], ["w1", "w2"], gate)
        dead = workers.pop("w1")
        ranks = self.pids(dead)
        guard = harness.subcommands(harness.descendants(dead.pid), "guard")
        self.assertEqual(len(guard), 1)
        # Both are stopped first, so that neither notices the other's end.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in (dead.pid, guard[0]):
                os.kill(pid, number)
        self.stage.await_gone([dead.pid, guard[0]], "agent and guard")
        for process in (launcher, workers["w2"]):
            process.await_line(r"up g2 node\d rank\d/2")
        # The kernel ends the rank with its agent, but not the rank's child.
        self.assertTrue([p for p in ranks if harness.command_line(p)])
        self.join(join, ["--name", "w1"], self.ranks(gate))
        self.stage.await_gone(ranks, "the ranks of the life before")
        gate.open()
        self.assert_code(launcher, 0)

    def test_kill_9_of_the_daemon_alone(self):
        self.another_daemon_goes_on(signal.SIGKILL)

    def test_a_daemon_that_is_stopped(self):
        launcher = self.another_daemon_goes_on(signal.SIGSTOP)
        self.assertTrue(launcher.find("has stood still for 15 s"))

    def test_a_daemon_that_has_lost_its_credential_key(self):
        gate = Gate(self.stage)
        launcher, _, workers = self.gather(["--nodes", "2", "--job", "keyless"],
                                           ["w1"], gate)
        daemon = self.daemon_of(launcher)
        os.unlink(self.stage.path("state", "rollcall", "keyless",
                                  "credential.key"))
        os.kill(daemon, signal.SIGKILL)
        # Each agent ends its ranks and joins as a new one.
        for process in [launcher, *workers.values()]:
            process.await_line(r"up g2 node\d rank\d/2")
        gate.open()
        for process in [launcher, *workers.values()]:
            self.assert_code(process, 0)

    def another_daemon_goes_on(self, what):
        gate = Gate(self.stage)
        launcher, join, workers = self.gather(
            ["--nodes", "2"], ["w1"], gate)
        processes = [launcher, *workers.values()]
        before = [self.pids(p, r"pid=(\d+)") for p in processes]
        daemon = self.daemon_of(launcher)
        os.kill(daemon, what)
        self.stage.await_gone([daemon], "the daemon")
        launcher.await_line("started again")
        state = self.running_again(join)
        self.assertNotEqual(self.daemon_of(launcher), daemon)
        self.assertEqual(state["generation"], 1)
        gate.open()
        for process, pids in zip(processes, before):
            self.assert_code(process, 0)
            self.assertEqual(self.pids(process, r"pid=(\d+)"), pids)
            self.assertEqual(self.pids(process, r"end=(\d+)"), pids)
            self.assertIsNone(process.find(r"up g2"))
        return launcher

    def test_a_signal_reaches_the_ranks_without_a_daemon(self):
        """As with a full disk, no daemon can start again."""
        state = self.stage.path("state")
        launcher = self.launch(
            ["--state", state, "--local-workers", "1"],
            # The other rank ends long after the launcher's own agent has.
            ["sh", "-c", "trap 'echo saved; test $RANK = 0 || sleep 4; exit 0' "
                         "TERM; echo up; while :; do sleep 0.1; done"])
        launcher.await_lines(r"\] up$", 2)
        events = os.path.join(state, "events.jsonl")
        os.unlink(events)
        os.mkfifo(events)
        os.kill(self.daemon_of(launcher), signal.SIGKILL)
        launcher.await_line("it is started again every few seconds")
        launcher.signal(signal.SIGTERM)
        launcher.await_lines(r"\] saved$", 2)
        self.assert_code(launcher, 75)

    def daemon_of(self, launcher):
        found = harness.subcommands(harness.descendants(launcher.pid), "daemon")
        self.assertEqual(len(found), 1)
        return found[0]

    def running_again(self, join):
        """Returns the first status in which both nodes run."""
        return self.await_watched(
            [harness.ROLLCALL, "status", join],
            lambda s: [n["state"] for n in s["nodes"]].count("running") == 2,
            "two nodes that run")

    def test_the_scene_of_a_failure_is_kept_until_ctrl_c(self):
        launcher = self.launch(
            ["--job", "kept", "--nproc-per-node", "2", "--linger", "10m",
             "--max-restarts", "0"],
            ["sh", "-c", "test $RANK = 0 && exit 3; echo pid=$$; "
             "exec sleep 1000"])
        rank = int(launcher.await_line(r"pid=(\d+)")[1])
        launcher.await_line("are left running for", "err")
        os.kill(rank, 0)
        status = [harness.ROLLCALL, "status", "--job", "kept"]
        asked = self.stage.run([*status, "--json"])
        self.assertEqual(asked.code, 0)
        state = json.loads(asked.out()[0])
        self.assertEqual(state["state"], "lingering")
        self.assertEqual(state["world_size"], 2)
        self.assertEqual([n["state"] for n in state["nodes"]], ["running"])
        self.assertGreater(state["lingers_s"], 500)
        shown = self.stage.run(status)
        self.assertTrue(shown.find(r"ranks that still live on \S+ are kept "
                                   r"for another \d+ min"))
        launcher.signal(signal.SIGINT)
        # There is no time to save: with Ctrl-C the user ends the lingering.
        self.assert_code(launcher, 3)
        self.assert_no_orphans()

    def test_below_min_names_who_is_missing(self):
        gate = Gate(self.stage)
        launcher, _, workers = self.gather(
            ["--nodes", "2", "--join-timeout", "15s"], ["w1"], gate)
        workers["w1"].signal(signal.SIGKILL)
        self.assert_code(launcher, 69)
        self.assertIsNotNone(launcher.find("w1", "err"))
        self.assert_no_orphans()

    def test_a_lost_node_comes_back(self):
        gate = Gate(self.stage)
        launcher, join, workers = self.gather(["--nodes", "2"], ["w1"], gate)
        workers["w1"].signal(signal.SIGKILL)
        self.await_status(join, lambda s: s["state"] == "gathering",
                          "gathering")
        again = self.join(join, ["--name", "w1"], self.ranks(gate))
        again.await_line(r"up g2 node1 rank1/2")
        launcher.await_line(r"up g2 node0 rank0/2")
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(again, 0)

    def test_a_worker_that_leaves(self):
        gate = Gate(self.stage)
        launcher, _, workers = self.gather(
            [*harness.whole("2:3")], ["w1", "w2"], gate)
        workers["w1"].signal(signal.SIGTERM)
        self.assert_code(workers["w1"], 0)
        for process in (launcher, workers["w2"]):
            process.await_line(r"up g2 node\d rank\d/2")
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(workers["w2"], 0)

    def test_a_frozen_agent_is_lost_and_stops_its_ranks(self):
        gate = Gate(self.stage)
        launcher, _, workers = self.gather(
            [*harness.whole("2:3")], ["w1", "w2"], gate)
        frozen = workers["w1"]
        its = self.pids(frozen)
        frozen.signal(signal.SIGSTOP)
        for process in (launcher, workers["w2"]):
            process.await_line(r"up g2 node\d rank\d/2")
        frozen.signal(signal.SIGCONT)
        # The agent learns that it was lost, and stops generation 1's ranks.
        self.stage.await_gone(its, "the frozen agent's ranks")
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(workers["w2"], 0)

    def test_kill_9_of_the_launcher(self):
        gate = Gate(self.stage)
        launcher, join, workers = self.gather(["--nodes", "2"], ["w1"], gate)
        launcher.kill()
        self.assertEqual(self.status(join)["state"], "running")
        gate.open()
        self.assert_code(workers["w1"], 0)
        launcher.await_line("end=")
        self.assert_no_orphans()
