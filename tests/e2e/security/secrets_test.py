"""Checks that no secret is printed or stored where it must not be, in a whole
run with all debug output."""
import base64
import glob
import os
import re
import signal
import sys

import harness
import wire
from guarded import Guarded
from wire import Stranger, hello

# The highest verbosity of each library.
LOUD = {"GRPC_VERBOSITY": "debug", "GRPC_TRACE":
        "api,channel,client_channel,connectivity_state,handshaker,http,"
        "secure_endpoint,tcp,transport_security,tsi,call_error,op_failure",
        "NCCL_DEBUG": "TRACE"}

# A rank that writes its environment and all files of its run folder to a file.
TELL = """
import os, sys
out = open("told." + os.environ["RANK"], "wb")
for name, value in os.environb.items():
    out.write(name + b"=" + value + b"\\n")
top = os.path.dirname(os.environ["ROLLCALL_SOCKET"])
for folder, _, names in os.walk(top):
    for name in names:
        path = os.path.join(folder, name)
        out.write(path.encode() + b"\\n")
        if os.path.isfile(path) and path != os.environ.get(
                "ROLLCALL_NCCL_ID_FILE"):
            out.write(open(path, "rb").read())
out.close()
print("told", flush=True)
open(sys.argv[1]).read()
"""

# Files in /proc/PID that other users may read.
SHOWN = ("cmdline", "environ", "comm", "status", "stat")


def forms(secret):
    """Returns the usual text forms of a secret's raw bytes."""
    plain = base64.b64encode(secret).rstrip(b"=")
    return [secret, secret.hex().encode(), secret.hex().upper().encode(), plain,
            base64.urlsafe_b64encode(secret).rstrip(b"="),
            "".join(f"\\x{b:02x}" for b in secret).encode()]


class Secrets(Guarded):
    def setUp(self):
        super().setUp()
        self.shown = {}  # Place -> bytes found there.
        self.secrets = {}  # Secret's name -> its forms.

    # --- The secrets ----------------------------------------------------------

    def hide(self, what, *written):
        self.secrets.setdefault(what, []).extend(
            w if isinstance(w, bytes) else w.encode() for w in written if w)

    def hide_token(self, what, secret):
        self.hide(what, *forms(secret))

    def hide_state(self, folder):
        """Collects the secrets in a state folder's files, of mode 0600."""
        for name in ("worker.token", "admin.token"):
            with open(os.path.join(folder, name), encoding="ascii") as f:
                secret = f.read().strip().split(".")[1]
            self.hide_token(name, bytes.fromhex(secret))
        # With a shared secret both keys are derived from it and not stored.
        if os.path.exists(os.path.join(folder, "ca.key")):
            with open(os.path.join(folder, "credential.key"),
                      encoding="ascii") as f:
                self.hide_token("credential.key",
                                bytes.fromhex(f.read().strip()))
            with open(os.path.join(folder, "ca.key"), encoding="ascii") as f:
                lines = [x for x in f.read().split("\n")
                         if x and not x.startswith("-----")]
            self.hide("ca.key", *lines)
            body = base64.b64decode("".join(lines))
            # PKCS #8: the key's bytes follow `04 20`.
            at = body.index(b"\x04\x20") + 2
            self.hide_token("ca.key", body[at:at + 32])
        for name in os.listdir(folder):
            mode = os.stat(os.path.join(folder, name)).st_mode & 0o777
            self.assertEqual(mode, 0o600, name)
        self.assertEqual(os.stat(folder).st_mode & 0o777, 0o700)

    def hide_join(self, what, text):
        """Collects a join string's token, and the end of the string, which
        contains it."""
        join = wire.Join(text)
        self.hide_token(what, join.secret)
        # The text before that contains only endpoints and the job.
        self.hide(what, text[-48:])

    # --- Where a secret could be ----------------------------------------------

    def look(self, where, data):
        self.shown[where] = data if isinstance(data, bytes) else data.encode()

    def look_at_files(self, *patterns):
        for pattern in patterns:
            for path in glob.glob(pattern, recursive=True):
                if os.path.isfile(path):
                    with open(path, "rb") as f:
                        self.look(path, f.read())

    def look_at_processes(self):
        """Collects the data of all running processes; returns how many
        processes there were."""
        running = [p for p in harness.descendants(os.getpid())]
        seen = 0
        for pid in running:
            name = " ".join(harness.command_line(pid))
            if "_WARDEN" in name or "left = set()" in name:
                continue
            seen += 1
            for part in SHOWN:
                try:
                    with open(f"/proc/{pid}/{part}", "rb") as f:
                        self.look(f"{part} of {pid}: {name[:60]}", f.read())
                except OSError:
                    pass
            # core_pattern's %e, %E and %p, which name a core file.
            try:
                self.look(f"exe of {pid}", os.readlink(f"/proc/{pid}/exe"))
            except OSError:
                pass
        return seen

    def look_at_output(self, process, allowed=()):
        """Collects a process's output, without permitted join strings."""
        kept = []
        for _, _, text in process.lines:
            for words in allowed:
                text = text.replace(words, "")
            kept.append(text)
        self.look(f"the output of {process}", "\n".join(kept))

    def assert_hidden(self):
        self.assertGreater(len(self.secrets), 3)
        self.assertTrue(all(self.secrets.values()))
        found = []
        for where, data in self.shown.items():
            for what, written in self.secrets.items():
                # Not assertNotIn, because its failure would print the secret.
                found += [f"{what} (form {i}) in {where}"
                          for i, form in enumerate(written) if form in data]
        self.assertEqual(found, [], "\n".join(found))

    # --- The run --------------------------------------------------------------

    def whole_run(self, flags, env, more_joins=()):
        """Runs launch, join, local workers, tokens, status, a test client and
        stop, and collects everything that they print and store."""
        self.gate = harness.Gate(self.stage)
        logs = self.stage.path("logs")
        command = [sys.executable, "-c", TELL, self.gate.path]
        launcher = self.launch(
            ["--job", self.job, "--nodes", "3", "--local-workers", "1",
             "--nproc-per-node", "2", "--grow", "never", "--log-dir", logs,
             *flags], command, {**LOUD, **env})
        self.text = self.join_string(launcher)
        port = wire.Join(self.text).port()
        joiner = self.join(self.text, ["--name", "pasted", "--log-dir", logs],
                           command, LOUD)
        launcher.await_lines(r"\] told$", 4)
        joiner.await_lines(r"\] told$", 1)
        self.hide_join("the join string", self.text)
        self.hide_state(self.state_dir)
        self.assert_found_where_it_may_be(launcher)
        spares = [self.stage.start(words, extra) for words, extra in
                  more_joins(port)] if more_joins else []
        spares.append(self.stage.start(
            [harness.ROLLCALL, "join", "--name", "told", "--no-hosts", "--",
             "true"], {**LOUD, "ROLLCALL_JOIN": self.text}))
        for spare in spares:
            name = spare.argv[spare.argv.index("--name") + 1]
            self.assert_let_in(name)
        made = self.rollcall("token", "create", "--job", self.job, "--role",
                             "admin", env=LOUD)
        self.assertEqual(made.code, 0)
        admin = re.search(harness.JOIN_STRING, made.text())[0]
        self.hide_join("a made token", admin)
        asked = [made] + [self.rollcall(*words, env=LOUD) for words in (
            ["status", self.text, "--json"], ["status", admin],
            ["token", "list", admin, "--json"],
            ["token", "list", "--job", self.job],
            # The refused commands print the reason, but not the string.
            ["stop", self.text], ["status", self.text[:-3]])]
        by_hand = self.credential_by_hand(port)
        self.assertGreaterEqual(self.look_at_processes(), 14)
        stopped = self.rollcall("stop", admin, env=LOUD)
        self.assertEqual(stopped.code, 0, stopped.text())
        by_hand.say(wire.END_SEEN)
        ended = [launcher, joiner, *spares]
        for process in ended:
            process.wait()
        for process in [*ended, *asked, stopped]:
            self.look_at_output(process, (self.text, admin)
                                if process in (launcher, made) else ())
        self.look_at_files(
            logs + "/**/*", self.stage.path("told.*"), self._hosts,
            os.path.join(self.state_dir, "*.log"),
            os.path.join(self.state_dir, "journal.db*"))
        self.assertGreaterEqual(
            len([w for w in self.shown if "/told." in w]), 5)

    def credential_by_hand(self, port):
        """Attends as a test client; adds its credential, a secret."""
        join = wire.Join(self.text)
        trust = None if join.insecure else wire.pinned(join.pin, port)
        stream = Stranger(port, trust=trust)
        self.addCleanup(stream.close)
        welcome = stream.open(plain=join.insecure).say(
            hello(join, "by-hand")).welcome()
        self.hide_token("a node's credential", welcome[6])
        return stream

    def assert_found_where_it_may_be(self, launcher):
        """Control: the same search finds the secrets where they may be."""
        said = launcher.text().encode()
        self.assertTrue(any(form in said for form in
                            self.secrets["the join string"]))
        for name in self.secrets.keys() & {"worker.token", "admin.token",
                                           "credential.key", "ca.key"}:
            with open(os.path.join(self.state_dir, name), "rb") as f:
                text = f.read()
            self.assertTrue(any(form in text
                                for form in self.secrets[name]), name)

    def test_with_a_join_string(self):
        self.whole_run([], {})
        self.assertIn("ca.key", self.secrets)
        self.assert_hidden()

    def test_with_a_shared_secret(self):
        secret = self.new_secret()
        path = self.stage.secret_file("secret", secret)
        self.hide("the shared secret", secret)
        self.hide_token("the shared secret", wire.unbase64(secret))

        def more_joins(port):
            words = ["--endpoint", f"127.0.0.1:{port}", "--job", self.job,
                     "--no-hosts"]
            yield ([harness.ROLLCALL, "join", *words, "--name", "by-file",
                    "--secret-file", path, "--", "true"], LOUD)
            yield ([harness.ROLLCALL, "join", *words, "--name", "by-env", "--",
                    "true"], {**LOUD, "ROLLCALL_SECRET": secret})
        # The launcher gets the secret by its environment. It must pass it to
        # the daemon without the environment of a process that keeps running.
        self.whole_run(["--listen", "127.0.0.1:0"],
                       {"ROLLCALL_SECRET": secret}, more_joins)
        self.assert_hidden()

    def test_of_a_standing_daemon(self):
        self.state_dir = self.stage.path("standing")
        daemon = self.rollcalld("--state", self.state_dir, env=LOUD)
        daemon.await_line("join with: ")
        kept = {}
        for role in ("worker", "admin"):
            kept[role] = self.kept_join(self.state_dir, role)
            self.hide_join(f"{role}.join", kept[role])
        self.hide_state(self.state_dir)
        self.gate = harness.Gate(self.stage)
        command = [sys.executable, "-c", TELL, self.gate.path]
        agents = [self.join(kept["worker"], ["--job", "j", "--nodes", "2",
                                             "--name", name], command, LOUD)
                  for name in ("a", "b")]
        for agent in agents:
            agent.await_line(r"\] told$")
        asked = self.rollcall("status", kept["admin"], "--job", "j", "--json",
                              env=LOUD)
        self.assertEqual(asked.code, 0, asked.text())
        self.assertGreaterEqual(self.look_at_processes(), 7)
        self.gate.open()
        for agent in agents:
            self.assert_code(agent, 0)
        daemon.signal(signal.SIGTERM)
        self.assert_code(daemon, 0)
        # The processes print the secrets' paths, but not their content.
        for process in [daemon, asked, *agents]:
            self.look_at_output(process)
        self.look_at_files(self.stage.path("told.*"),
                           os.path.join(self.state_dir, "journal.db*"))
        self.assert_hidden()
