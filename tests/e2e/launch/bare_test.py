"""A machine that lacks root certificates, /proc or a home folder."""
import json
import os
import re
import signal
import socket
import subprocess
import threading

import harness
import wire
from harness import E2E, Lab


class BareImage(E2E):
    # Where gRPC, OpenSSL and the distributions keep root certificates.
    ROOTS = ("/etc/ssl", "/etc/pki", "/usr/lib/ssl", "/usr/share/ca-certificates",
             "/usr/local/share/ca-certificates", "/usr/share/grpc",
             "/usr/local/share/grpc", "/system/etc/security")
    LAUNCH = [harness.ROLLCALL, "launch", "--no-hosts", "--nodes", "2",
              "--local-workers", "1", "--join-timeout", "20s", "--", "echo",
              "ok"]

    def test_without_root_certificates(self):
        lab = Lab(self.stage, 1)
        hidden = lab.run(1, ["sh", "-c", "for f in " + " ".join(self.ROOTS)
                             + '; do [ ! -d "$f" ] || mount -t tmpfs none "$f"'
                             " || exit 1; done; ls -A " + " ".join(self.ROOTS)
                             + " 2>/dev/null | grep -c pem"])
        self.assertEqual(hidden.out(), ["0"], hidden.text())
        launcher = lab.start(1, self.LAUNCH)
        launcher.await_lines(r"\] ok$", 2)
        self.assert_code(launcher, 0)

    def test_without_proc(self):
        lab = Lab(self.stage, 1)
        self.assertEqual(lab.run(1, ["mount", "-t", "tmpfs", "none",
                                     "/proc"]).code, 0)
        launcher = lab.run(1, self.LAUNCH)
        self.assertEqual(launcher.code, 69, launcher.text())
        self.assertRegex(launcher.text(), "/proc is not mounted")
        self.assertRegex(launcher.text(), "mount -t proc")

    def test_a_trainer_without_a_library_of_gloos(self):
        # This is Debian's libgloo with the name of one needed library changed.
        trainer = os.path.join(harness.BIN, "rollcall-train")
        said = subprocess.run(["ldd", trainer], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        found = re.search(r"(libgloo\.so\S*) => (\S+)", said)
        with open(found[2], "rb") as f:
            gloo = f.read()
        self.assertIn(b"\0libibverbs.so.1\0", gloo)
        os.mkdir(self.stage.path("lib"))
        with open(self.stage.path("lib", found[1]), "wb") as f:
            f.write(gloo.replace(b"\0libibverbs.so.1\0",
                                 b"\0libibverbz.so.1\0"))
        launcher = self.launch(["--max-restarts", "3"],
                               [trainer, "--version"],
                               {"LD_LIBRARY_PATH": self.stage.path("lib")})
        self.assert_code(launcher, 127)
        # The message is printed by the rank, and again at the end of the run.
        for before in (r"^\[", r"^ *\| "):
            self.assertTrue(launcher.find(
                before + ".*rollcall: the command needs libibverbz.so.1, which "
                "is not on this node; install the package", "err"),
                launcher.text())

    def test_a_home_that_cannot_be_written(self):
        os.mkdir(self.stage.path("tmp"))
        for home in ("/dev/null", "/proc"):
            launcher = self.stage.run(self.LAUNCH, {
                "HOME": home, "XDG_STATE_HOME": None,
                "TMPDIR": self.stage.path("tmp")})
            self.assertEqual(launcher.code, 0, launcher.text())
            self.assertIn(f"{home}/.local", launcher.text())
            self.assertIn(self.stage.path("tmp") + "/rollcall-state-",
                          launcher.text())
            self.assertIn("--state", launcher.text())

    def test_a_runtime_folder_that_cannot_be_written(self):
        launcher = self.stage.run(self.LAUNCH, {"XDG_RUNTIME_DIR": "/proc",
                                                "TMPDIR": "/proc"})
        self.assertEqual(launcher.code, 0, launcher.text())


class Unreachable(E2E):
    """An agent that cannot connect prints the reason, once for each reason."""

    def serve(self, serve, listening=None):
        listening = listening or socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listening.close)

        def take():
            while True:
                try:
                    connection = listening.accept()[0]
                except OSError:
                    return
                with connection:
                    serve(connection)
        threading.Thread(target=take, daemon=True).start()
        return listening

    def agent(self, endpoint, *flags, env=None):
        secret = self.stage.path("secret")
        with open(secret, "w", encoding="ascii") as f:
            f.write("5" * 64 + "\n")
        os.chmod(secret, 0o600)
        return self.stage.start(
            [harness.ROLLCALL, "join", "--endpoint", endpoint, "--job", "lost",
             "--secret-file", secret, "--no-hosts", *flags, "--", "true"], env)

    def deaf(self):
        """Returns a socket that is bound to a port but does not listen yet."""
        held = socket.socket()
        held.bind(("127.0.0.1", 0))
        return held

    def said(self, agent):
        return [t for t in agent.err() if "answers yet" in t]

    def test_each_reason_once(self):
        held = self.deaf()
        port = held.getsockname()[1]
        agent = self.agent(f"127.0.0.1:{port}")
        line = agent.await_line("no daemon answers yet.*refused", "err", 15)
        self.assertIn(f"127.0.0.1:{port}", line.string)
        # Another service listens on the port now, so the reason changes.
        counted = threading.Semaphore(0)

        def http(connection):
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            counted.release()
        held.listen()
        self.serve(http, held)
        agent.await_line("no daemon answers yet.*no TLS", "err", 30)
        # The agent continues to dial, but prints nothing more about it.
        for _ in range(3):
            self.assertTrue(counted.acquire(timeout=harness.DEADLINE_S))
        self.assertEqual(len(self.said(agent)), 2, agent.text())
        agent.signal(signal.SIGKILL)
        agent.wait()

    def test_a_name_that_is_not_found(self):
        agent = self.agent("nosuch.invalid:29400")
        agent.await_line("nosuch.invalid.*name not found", "err", 20)
        agent.signal(signal.SIGKILL)
        agent.wait()

    def test_the_launcher_counts_what_fails(self):
        launcher = self.launch(["--nodes", "2"], ["true"])
        text = self.join_string(launcher)
        port = wire.Join(text).port()
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port)) as probe:
                probe.sendall(b"GET / HTTP/1.0\r\n\r\n")
                # The daemon has read the request and closed the connection.
                probe.recv(1)
        wire.Stranger(port).shake().close()
        launcher.await_line(r"waiting: 1 node is here; 1 more to begin.*"
                            r"arrived and failed")
        self.await_status(
            text, lambda s: s["unauthenticated"]["garbage"] == 3
            and s["unauthenticated"]["hung_up"] == 1, "four failures")
        asked = self.stage.run([harness.ROLLCALL, "status", text])
        self.assertRegex(asked.text(), "failed before joining: 1 closed by the "
                         "peer, 3 no TLS")
        launcher.signal(signal.SIGINT)
        launcher.wait()

    def test_a_daemon_that_does_not_answer(self):
        launcher = self.launch(["--job", "mute", "--nodes", "2"], ["true"])
        text = self.join_string(launcher)
        launcher.await_line(r"waiting: 1 node is here; 1 more to begin")
        with open(os.path.join(self.stage.path("state", "rollcall", "mute"),
                               "daemon.json"), encoding="utf-8") as f:
            daemon = json.load(f)["daemon_pid"]
        os.kill(daemon, signal.SIGSTOP)
        agent = self.join(text, ["--name", "late"], ["true"])
        agent.await_line("no daemon answers yet.*no TLS handshake in time",
                         "err", 20)
        os.kill(daemon, signal.SIGCONT)
        self.assert_code(launcher, 0)
        self.assert_code(agent, 0)
