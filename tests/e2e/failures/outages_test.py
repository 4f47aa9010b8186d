"""Tests hosts that stop answering in different ways while a training runs."""
import re

from harness import nodes_by_name, whole
from training import Training


class Outages(Training):
    def begin_with_a_spare(self, flags=()):
        """Starts lab1 to lab3 in generation 1; lab4 waits for a seat."""
        self.begin([1, 2, 3], ["--nodes", "3", *flags])
        self.attend(4)
        self.await_state(self.node_is(4, "spare"), "lab4 as a spare")

    def assert_found_by_the_lease(self, silent, members):
        """Checks that `silent` was lost by its lease in generation 2."""
        state = self.await_state(
            lambda s: s["state"] == "running" and s["generation"] == 2,
            "generation 2")
        reform = state["last_reform"]
        self.assertEqual((reform["generation"], reform["code"]),
                         (2, "lost_lease"))
        self.assertIn(f"lab{silent}", reform["reason"])
        nodes = nodes_by_name(state)
        self.assertEqual({n for n, node in nodes.items()
                          if node["state"] == "running"},
                         {f"lab{host}" for host in members})
        self.assertEqual(nodes[f"lab{silent}"]["state"], "lost")
        self.await_steps(2, members)

    def test_a_host_that_loses_power(self):
        self.begin_with_a_spare()
        self.lab.do("power", 2)
        self.assert_found_by_the_lease(2, [1, 3, 4])
        # The host comes back, but its seat is taken.
        self.lab.do("boot", 2)
        self.attend(2)
        self.await_state(self.node_is(2, "spare"), "lab2 as a spare")
        self.end([1, 3, 4, 2])
        self.assert_one_world_at_a_time(lost=[2])

    def test_a_frozen_host(self):
        self.begin_with_a_spare()
        old = self.ranks([2])[2]
        self.assertEqual(len(old), 1)
        self.lab.do("freeze", 2)
        self.assert_found_by_the_lease(2, [1, 3, 4])
        self.lab.do("thaw", 2)
        # Its agent learns that it was declared lost, and stops its rank.
        self.stage.await_gone(old, "the frozen host's rank")
        self.await_state(self.node_is(2, "spare"), "lab2 as a spare")
        self.end([1, 3, 4, 2])
        self.assertEqual(len(self.rank_pids(2)), 1)
        self.assert_one_world_at_a_time(lost=[2])

    def test_one_hears_and_is_not_heard(self):
        self.begin_with_a_spare()
        # lab2 receives from all hosts, but nothing from lab2 arrives.
        for other in (1, 3, 4):
            self.lab.fault("cut", 2, other)
        self.assert_found_by_the_lease(2, [1, 3, 4])
        self.lab.fault("heal")
        self.await_state(self.node_is(2, "spare"), "lab2 as a spare")
        self.end([1, 3, 4, 2])
        self.assert_one_world_at_a_time(lost=[2])

    def test_one_is_heard_and_hears_nothing(self):
        self.begin_with_a_spare()
        # Without acknowledgements, lab2 can only send what its windows allow.
        for other in (1, 3, 4):
            self.lab.fault("cut", other, 2)
        self.assert_found_by_the_lease(2, [1, 3, 4])
        self.lab.fault("heal")
        self.await_state(self.node_is(2, "spare"), "lab2 as a spare")
        self.end([1, 3, 4, 2])
        self.assert_one_world_at_a_time(lost=[2])

    def test_two_workers_cannot_reach_each_other(self):
        self.begin([1, 2, 3, 4], ["--nodes", "4"], hosts=5)
        self.attend(5)
        self.await_state(self.node_is(5, "spare"), "lab5 as a spare")
        self.lab.cut_between([2], [3])
        # The daemon gets heartbeats of all members, so none is lost; the ranks
        # wait. The end of the lease of a spare that is cut off now shows that a
        # whole lease has passed.
        self.lab.fault("cut", 5)
        self.await_state(lambda s: nodes_by_name(s).get("lab5", {}).get(
            "state") in (None, "lost"), "the end of lab5's lease")
        state = self.state()
        self.assertEqual((state["state"], state["generation"]),
                         ("running", 1))
        steps = len(self.steps_of(1))
        self.lab.fault("heal")
        self.end_undisturbed([1, 2, 3, 4])
        self.assertGreater(len(self.steps_of(1)), steps)

    def test_two_workers_whose_ranks_do_not_wait_for_ever(self):
        self.begin([1, 2, 3, 4], ["--nodes", "4", "--max-restarts", "1"],
                   patience_s=2)
        self.lab.cut_between([2], [3])
        self.assert_code(self.launcher, 1)
        for host in (2, 3, 4):
            self.assert_code(self.agents[host], 1)
        summary = [t for t in self.launcher.err() if not t.startswith("[")]
        self.assertTrue([t for t in summary
                         if re.search(r"\brank \d on lab\d\b", t)], summary)
        self.assert_one_world_at_a_time()

    def test_half_of_the_hosts_are_cut_off(self):
        self.begin([1, 2, 3, 4], [*whole("2:4"), "--grow", "never"])
        self.lab.cut_between([1, 2], [3, 4])
        # Two of four are not over half: they are lost, and two go on.
        state = self.await_state(
            lambda s: s["state"] == "running" and s["world_size"] == 2,
            "a world of two")
        self.assertEqual(state["last_reform"]["code"], "lost_lease")
        self.await_steps(state["generation"], [1, 2])
        self.lab.fault("heal")
        for host in (3, 4):
            self.await_state(self.node_is(host, "spare"), f"lab{host}")
        self.end([1, 2, 3, 4])
        self.assert_one_world_at_a_time(lost=[3, 4])
