"""Tests descendants of ranks that no session, marker or cgroup identifies."""
import harness
from harness import E2E, Gate, Lab

# A launcher (like torchrun) whose worker leads its own session and has an empty
# environment. Rank 1 of generation 1 is killed and leaves its worker behind.
# Both hosts share the files. Arguments: a gate, and the prefix of the files
# with the workers' pids.
RANK = """
setsid env -i sh -c 'echo $$ > $0; exec cat $1' \
    $2.$ROLLCALL_GENERATION.$RANK.new $1 &
while ! test -s $2.$ROLLCALL_GENERATION.$RANK.new; do :; done
mv $2.$ROLLCALL_GENERATION.$RANK.new $2.$ROLLCALL_GENERATION.$RANK
echo up g$ROLLCALL_GENERATION rank$RANK
if [ $ROLLCALL_GENERATION$RANK = 11 ]; then
  while ! test -e $2.1.0; do :; done
  kill -9 $$
fi
cat $1
"""


class Orphans(E2E):
    def begin(self):
        """Starts a job on two hosts without cgroups, up to generation 2."""
        self.lab = Lab(self.stage, 2)
        self.gate, self.word = Gate(self.stage), self.stage.path("worker")
        command = ["sh", "-c", RANK, "rank", self.gate.path, self.word]
        self.launcher = self.lab.start(1, [
            harness.ROLLCALL, "launch", "--nodes", "2", "--", *command])
        text = self.join_string(self.launcher)
        self.worker = self.lab.start(2, [harness.ROLLCALL, "join", text, "--",
                                         *command])
        for process in (self.launcher, self.worker):
            process.await_line(r"up g2 rank\d")

    def lives(self, host, generation, rank):
        """Returns whether that worker exists, even as a zombie."""
        with open(f"{self.word}.{generation}.{rank}", encoding="ascii") as f:
            pid = int(f.read())
        return self.lab.run(host, ["sh", "-c", f"kill -0 {pid}"]).code == 0

    def test_a_worker_that_lost_its_rank_ends_before_the_next_generation(self):
        self.begin()
        # Rank 0 is on host 1.
        for rank in (0, 1):
            self.assertFalse(self.lives(rank + 1, 1, rank), f"rank {rank}")
            self.assertTrue(self.lives(rank + 1, 2, rank), f"rank {rank}")
        self.gate.open()
        for process in (self.launcher, self.worker):
            self.assert_code(process, 0)
        for host in (1, 2):
            self.assertEqual(self.lab.processes(host), [])
