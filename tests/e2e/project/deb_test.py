"""The Debian packages that scripts/deb.sh makes, and messages to systemd."""
import glob
import os
import signal
import socket
import subprocess

import harness
from harness import E2E

BUILD = os.path.dirname(harness.BIN)


class Packages(E2E):
    def test_what_is_in_them(self):
        folder = self.stage.path("packages")
        subprocess.run(["cpack", "-B", folder], cwd=BUILD, check=True,
                       stdout=subprocess.DEVNULL, timeout=200)
        root = self.stage.path("root")
        for name in ("rollcall_*", "rollcall-train_*"):
            found = glob.glob(os.path.join(folder, name + ".deb"))
            self.assertEqual(len(found), 1, found)
            subprocess.run(["dpkg-deb", "-x", found[0], root], check=True)
            if name == "rollcall_*":
                self.check_control(found[0])
        rollcall = os.path.join(root, "usr/bin/rollcall")
        shipped = self.stage.run([rollcall, "version"])
        self.assertEqual(shipped.out(),
                         self.stage.run([harness.ROLLCALL, "version"]).out())
        for program in ("rollcalld", "rollcall-train"):
            ended = self.stage.run([os.path.join(root, "usr/bin", program),
                                    "--version"])
            self.assertEqual(ended.code, 0, ended.text())
        for shell, path in (
                ("bash", "bash-completion/completions/rollcall"),
                ("zsh", "zsh/vendor-completions/_rollcall"),
                ("fish", "fish/vendor_completions.d/rollcall.fish")):
            with open(os.path.join(root, "usr/share", path)) as f:
                self.assertEqual(f.read().splitlines(), self.stage.run(
                    [rollcall, "completion", shell]).out())
        with open(os.path.join(root, "usr/share/doc/rollcall/copyright")) as f:
            text = f.read()
        for word in ("Apache License", "Linked in: libgrpc-dev",
                     "Linked in: libstdc++"):
            self.assertIn(word, text)

    def check_control(self, deb):
        """The package needs only libc, and starts nothing by itself."""
        depends = subprocess.run(["dpkg-deb", "-f", deb, "Depends"], check=True,
                                 text=True, capture_output=True).stdout
        self.assertRegex(depends, r"^libc6 \(>= [0-9.]+\)$")
        control = self.stage.path("control")
        subprocess.run(["dpkg-deb", "-e", deb, control], check=True)
        # An empty /run makes it look as if systemd does not run.
        for script, argument in (("postinst", "configure"), ("prerm", "remove"),
                                 ("prerm", "upgrade")):
            ended = self.stage.run(["unshare", "-m", "sh", "-c",
                                    'mount -t tmpfs none /run && exec "$@"', "-",
                                    os.path.join(control, script), argument])
            self.assertEqual((ended.code, ended.text()), (0, ""))


class ServiceManager(E2E):
    """The messages that a unit with Type=notify and WatchdogSec= needs."""

    def told(self, address, env):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(listener.close)
        listener.settimeout(harness.DEADLINE_S)
        listener.bind(address)
        name = address.replace("\0", "@")
        daemon = self.stage.start(
            [os.path.join(harness.BIN, "rollcalld"), "--listen", "127.0.0.1:0",
             "--state", self.stage.path("state")], dict(env, NOTIFY_SOCKET=name))
        return listener, daemon

    def test_ready_alive_and_stopping(self):
        for address in (self.stage.path("notify"),
                        f"\0rollcall-test-{os.getpid()}"):
            with self.subTest(address=address):
                listener, daemon = self.told(address,
                                             {"WATCHDOG_USEC": "15000000"})
                beats = 0
                first = listener.recv(4096)
                while not first.startswith(b"READY=1\nSTATUS=listening on port "):
                    # The first beat may come before the port is reported.
                    self.assertEqual(first, b"WATCHDOG=1")
                    first = listener.recv(4096)
                while beats < 2:
                    self.assertEqual(listener.recv(4096), b"WATCHDOG=1")
                    beats += 1
                daemon.signal(signal.SIGTERM)
                last = listener.recv(4096)
                while last == b"WATCHDOG=1":
                    last = listener.recv(4096)
                self.assertEqual(last, b"STOPPING=1")
                self.assertEqual(daemon.wait(), 0)

    def test_without_a_watchdog_it_sends_no_beats(self):
        # WATCHDOG_PID names another process, so the daemon must send no beats.
        listener, daemon = self.told(
            self.stage.path("notify"),
            {"WATCHDOG_USEC": "15000000", "WATCHDOG_PID": "1"})
        self.assertTrue(listener.recv(4096).startswith(b"READY=1"))
        daemon.signal(signal.SIGTERM)
        self.assertEqual(listener.recv(4096), b"STOPPING=1")
        self.assertEqual(daemon.wait(), 0)

    def test_what_it_cannot_use(self):
        daemon = os.path.join(harness.BIN, "rollcalld")
        for name in ("relative", "/" + "x" * 107, "@" + "x" * 108):
            ended = self.stage.run([daemon], {"NOTIFY_SOCKET": name})
            self.assertEqual(ended.code, 2, ended.text())
            self.assertIn("NOTIFY_SOCKET", ended.text())
        self.stage.secret_file("secret")
        ended = self.stage.run(
            [daemon, "--state", "etcd://127.0.0.1:9/x", "--secret-file",
             self.stage.path("secret")],
            {"NOTIFY_SOCKET": self.stage.path("notify"),
             "WATCHDOG_USEC": "15000000"})
        self.assertEqual(ended.code, 69, ended.text())
        self.assertIn("WatchdogSec=", ended.text())
