"""The lab itself: its hosts start, are separate, and leave nothing behind."""
import os
import signal
import subprocess

import harness
from harness import E2E, Lab

REFUSED, SILENT = ["ConnectionRefusedError"], ["TimeoutError"]


class TheLab(E2E):
    def test_hosts_are_apart(self):
        lab = Lab(self.stage, 3)
        told = [lab.run(h, ["sh", "-c", "hostname; ip -4 -o addr show eth0; "
                            "cat /proc/sys/kernel/random/boot_id; ls -A /tmp "
                            "| grep -v '^rc-e2e'; echo $$ > /tmp/mine"])
                for h in (1, 2, 3)]
        for host, process in enumerate(told, 1):
            self.assertEqual(process.out()[0], f"lab{host}")
            self.assertIn(f"10.77.0.{host}/24", process.out()[1])
        self.assertEqual(len({p.out()[2] for p in told}), 3)
        self.assertNotEqual(
            lab.run(1, ["getent", "hosts", "lab2"]).code, 0,
            "hosts know no other host's name until somebody tells them")
        # A rename over a bind-mounted file gives EBUSY, as in a container.
        self.assertNotEqual(lab.run(1, ["sh", "-c", "cp /etc/hosts /etc/h.$$;"
                            "mv /etc/h.$$ /etc/hosts; s=$?; rm -f /etc/h.$$;"
                            "exit $s"]).code, 0)
        self.assertEqual(lab.run(2, ["sh", "-c", "exit 7"]).code, 7)

    def test_two_labs_at_once(self):
        one, two = Lab(self.stage, 1), Lab(self.stage, 2)
        self.assertNotEqual(one.read_hosts(1), b"")
        one.down()
        self.assertEqual(two.run(2, ["hostname"]).out(), ["lab2"])

    def test_down_leaves_nothing(self):
        lab = Lab(self.stage, 2)
        folder = os.path.dirname(os.path.dirname(lab.hosts_file(1)))
        inside = lab.start(1, ["sh", "-c", "setsid sleep infinity & echo up;"
                               " exec cat"])
        # Before this line, the process is not in the host yet.
        inside.await_line("^up$")
        lab.down()
        self.assertFalse(os.path.exists(folder))
        self.assert_no_orphans()
        lab.down()  # A second call has nothing to do and does not fail.

    def test_down_ends_a_host_of_a_process_without_its_parent(self):
        lab = Lab(self.stage, 1)
        left = lab.start(1, ["sh", "-c", "echo up; exec sleep infinity"])
        left.await_line("^up$")
        os.kill(left.pid, signal.SIGKILL)
        self.stage.await_gone([left.pid], "nsenter")
        lab.down()
        self.assert_no_orphans()

    def test_up_that_fails_leaves_nothing(self):
        env = dict(os.environ, LAB_NAME=f"fail{os.getpid()}",
                   LAB_SHARE="/tmp/no/such/folder")
        made = subprocess.run([harness.LAB, "up", "2"], env=env,
                              stderr=subprocess.PIPE, text=True)
        self.assertNotEqual(made.returncode, 0)
        self.assertIn("lab.sh:", made.stderr)
        asked = subprocess.run([harness.LAB, "dir", "1"], env=env, text=True,
                               stdout=subprocess.PIPE)
        self.assertFalse(os.path.exists(asked.stdout.strip()))
        self.assert_no_orphans()

    def test_cuts_and_heals(self):
        lab = Lab(self.stage, 3)
        self.assertEqual(self.connects(lab, 1, 2), REFUSED)
        lab.fault("cut", 1)
        self.assertEqual(self.connects(lab, 1, 2, 1), SILENT)
        lab.fault("heal")
        self.assertEqual(self.connects(lab, 1, 2), REFUSED)
        lab.cut_between([1], [2])
        self.assertEqual(self.connects(lab, 1, 2, 1), SILENT)
        self.assertEqual(self.connects(lab, 1, 3), REFUSED)
        self.assertEqual(self.connects(lab, 2, 3), REFUSED)

    def test_power_goes_and_comes_back(self):
        lab = Lab(self.stage, 2)
        told = lab.start(2, ["sh", "-c", "cat /proc/sys/kernel/random/boot_id;"
                             " exec sleep infinity"])
        before = told.await_line(r"^\S+-0000-4000-8000-\S+$")[0]
        mac = ["cat", "/sys/class/net/eth0/address"]
        address = lab.run(2, mac).out()
        self.assertEqual(self.connects(lab, 1, 2), REFUSED)
        lab.do("power", 2)
        told.wait()
        self.assertEqual(self.connects(lab, 1, 2, 1), SILENT)
        lab.do("boot", 2)
        # The host answers at once, since it keeps its MAC address.
        self.assertEqual(self.connects(lab, 1, 2), REFUSED)
        self.assertEqual(lab.run(2, mac).out(), address)
        self.assertNotIn(before, lab.run(
            2, ["cat", "/proc/sys/kernel/random/boot_id"]).text())

    def test_a_frozen_host_still_answers(self):
        lab = Lab(self.stage, 2)
        host = lab.start(2, ["sh", "-c", "while read -r word; do "
                             "echo $word; done < " + self.fifo("words")])
        with open(self.fifo("words"), "w", encoding="ascii") as words:
            print("one", file=words, flush=True)
            host.await_line("one")
            lab.do("freeze", 2)
            print("two", file=words, flush=True)
            self.assertEqual(self.connects(lab, 1, 2), REFUSED)
            self.assertIsNone(host.find("two"))
            lab.do("thaw", 2)
            host.await_line("two")
        self.assert_code(host, 0)
        # A frozen host can be killed, too.
        lab.do("freeze", 2)
        lab.do("kill", 2)
        lab.do("boot", 2)
        self.assertEqual(self.connects(lab, 1, 2), REFUSED)

    def fifo(self, name):
        path = self.stage.path(name)
        if not os.path.exists(path):
            os.mkfifo(path)
        return path

    def connects(self, lab, host, other, patience_s=30):
        """Connects to a port without a listener; returns the error's name. If
        no answer is expected, `patience_s` is short."""
        return lab.run(host, [
            "python3", "-c", "import socket\ntry:\n socket.create_connection("
            f"('10.77.0.{other}', 9), {patience_s})\nexcept OSError as e:\n"
            " print(type(e).__name__)"]).out()
