"""Tests a user whose home folder cannot be written, as in containers with a
random user id."""
import json
import os
import shutil
import signal
import stat

import harness
from harness import E2E, Gate


class NoHome(E2E):
    user = 12345
    no_home = "/nonexistent/.local/state/rollcall"

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("only root can start commands as another user")
        # That user may have no access to the build folder.
        self.program = self.stage.path("rollcall")
        shutil.copy(harness.ROLLCALL, self.program)
        self.tmp = self.stage.path("tmp")
        os.mkdir(self.tmp)
        os.chmod(self.tmp, 0o1777)
        self.root = os.path.join(self.tmp, f"rollcall-state-{self.user}")
        self.gate = Gate(self.stage)
        self.command = ["sh", "-c", f"echo up; cat {self.gate.path}"]

    def as_user(self, words, home="/nonexistent", program=None):
        return self.stage.start(
            ["setpriv", f"--reuid={self.user}", f"--regid={self.user}",
             "--clear-groups", program or self.program, *words],
            {"HOME": home, "XDG_STATE_HOME": None, "XDG_RUNTIME_DIR": None,
             "TMPDIR": self.tmp})

    def ask(self, words, home="/nonexistent"):
        asked = self.as_user(words, home)
        asked.wait()
        return asked

    def run_job(self, home="/nonexistent"):
        return self.as_user(["launch", "--no-hosts", "--job", "homeless", "--",
                             *self.command], home)

    def test_state_goes_below_tmpdir_and_is_found_there(self):
        home = self.stage.path("home")
        os.mkdir(home)
        os.chown(home, self.user, self.user)
        launcher = self.run_job()
        launcher.await_line(r"\] up$")
        # One line has both folders, the reason, and the consequence.
        told = [line for line in launcher.err() if "state is kept in" in line]
        self.assertEqual(len(told), 1)
        self.assertRegex(told[0], rf"{self.root}/homeless and not below "
                         rf"{self.no_home}: cannot make /nonexistent: .*"
                         r"Permission denied; .*restart.* --state DIR")
        status = os.stat(self.root)
        self.assertEqual((status.st_uid, stat.S_IMODE(status.st_mode)),
                         (self.user, 0o700))
        # The job is found with and without its name, also if the home exists.
        for words in (["--job", "homeless"], []):
            for at in ("/nonexistent", home):
                asked = self.ask(["status", *words, "--json"], at)
                self.assert_code(asked, 0)
                self.assertEqual(json.loads("\n".join(asked.out()))["job"],
                                 "homeless")
        self.assert_code(self.ask(["token", "list", "--job", "homeless"]), 0)
        # A second launcher finds the first one and, after its death, its run.
        second = self.run_job(home)
        self.assert_code(second, 69)
        self.assertRegex(second.text(),
                         f"the launcher of process {launcher.pid} has "
                         f"the state folder {self.root}/homeless")
        launcher.kill()
        again = self.run_job(home)
        again.await_line("job homeless goes on: its daemon is process", "err")
        self.assertIn(self.root, again.text())
        self.assert_code(self.ask(["stop", "--job", "homeless"]), 0)
        self.assert_code(again, 143)

    def test_a_folder_of_another_user_is_refused(self):
        os.mkdir(self.root, 0o700)
        refused = self.run_job()
        self.assert_code(refused, 69)
        self.assertRegex(
            refused.text(), rf"{self.root}: expected a folder of user "
            rf"{self.user}, .* got one of user 0; .*--state DIR")
        self.assertIn("cannot make /nonexistent", refused.text())
        self.assertEqual(os.listdir(self.root), [])
        self.assertRegex(self.ask(["status", "--job", "homeless"]).text(),
                         "no job homeless runs on this machine")

    def test_an_explicit_folder_that_cannot_be_made_is_an_error(self):
        refused = self.ask(["launch", "--no-hosts", "--job", "homeless",
                            "--state", "/nonexistent/x", "--", "true"])
        self.assert_code(refused, 69)
        self.assertIn("cannot make /nonexistent: Permission denied",
                      refused.text())
        self.assertEqual(os.listdir(self.tmp), [])

    def test_a_standing_daemon_goes_there_too(self):
        program = self.stage.path("rollcalld")
        shutil.copy(os.path.join(harness.BIN, "rollcalld"), program)
        daemon = self.as_user(["--listen", "127.0.0.1:0"], program=program)
        daemon.await_line(f"state in {self.root}/rollcalld$")
        daemon.await_line(f"state is kept in {self.root}/rollcalld and not "
                          f"below {self.no_home}")
        daemon.signal(signal.SIGTERM)
        self.assert_code(daemon, 0)
