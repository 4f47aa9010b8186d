"""Tests `rollcall doctor` with limits, folders, links and a clock that are
really bad."""
import json
import os
import resource
import signal

import harness
from harness import E2E, Lab

ROLLCALL = harness.ROLLCALL
DOCTOR = [ROLLCALL, "doctor"]
CLOCK = os.path.join(harness.BIN, "libskewed_clock.so")
HANGING = os.path.join(harness.BIN, "libhanging_folder.so")
SEVERITIES = ["not applicable", "ok", "unknown", "warning", "retryable",
              "fatal"]


def without_lock_capability(argv):
    """Returns the command without the capability that lifts RLIMIT_MEMLOCK."""
    if os.geteuid() != 0:
        return argv
    return ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock",
            *argv]


def limited(limits, *flags):
    """Returns a doctor's command in a shell that first sets these limits."""
    script = "".join(f"ulimit {limit} && " for limit in limits)
    return without_lock_capability(
        ["sh", "-c", f'{script}exec "$@"', "sh", *DOCTOR, *flags])


class Doctor(E2E):
    def findings(self, ended):
        """Maps each check to its findings in `doctor --json`, and checks that
        its parts agree."""
        self.assertEqual(len(ended.out()), 1, ended.text())
        told = json.loads(ended.out()[0])
        by_check, worst = {}, "ok"
        for finding in told["findings"]:
            by_check.setdefault(finding["check"], []).append(finding)
            worst = max(worst, finding["severity"], key=SEVERITIES.index)
        self.assertEqual(told["verdict"], worst)
        self.assertEqual(told["exit_code"], ended.code)
        self.assertEqual(ended.code, {"ok": 0, "unknown": 10, "warning": 10,
                                      "retryable": 20, "fatal": 30}[worst])
        self.assertEqual(sum(told["counts"].values()), len(told["findings"]))
        return by_check

    def the_only(self, ended, check):
        found = self.findings(ended)[check]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_a_low_memlock(self):
        low = self.stage.run(limited(["-l 16"], "--json"))
        finding = self.the_only(low, "memlock")
        self.assertEqual(finding["severity"], "warning", finding)
        self.assertEqual(finding["found"], "16 KiB")
        self.assertIn("memlock", finding["mend"])
        self.assertGreaterEqual(low.code, 10)
        enough = self.stage.run(limited(["-l 64"], "--json"))
        self.assertEqual(self.the_only(enough, "memlock")["severity"], "ok")

    def test_a_low_nofile(self):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        low = self.stage.run(limited(["-n 128"], "--json"))
        finding = self.the_only(low, "nofile")
        self.assertEqual(finding["severity"], "warning", finding)
        self.assertEqual(finding["found"], "128")
        self.assertGreaterEqual(low.code, 10)
        # Limits above this machine's hard limit are left out.
        for limit in (65534, 65535):
            if hard not in (-1, resource.RLIM_INFINITY) and hard < limit:
                continue
            at = self.stage.run(limited([f"-Sn {limit}"], "--json"))
            self.assertEqual(self.the_only(at, "nofile")["severity"],
                             "ok" if limit == 65535 else "warning")

    def test_the_table_names_what_is_wrong_and_how_to_fix_it(self):
        told = self.stage.run(limited(["-n 128", "-l 16"]))
        self.assertGreaterEqual(told.code, 10)
        self.assertTrue(told.find(r"^SEVERITY +CHECK +SUBJECT +FOUND$", "out"))
        self.assertTrue(told.find(r"^warning +nofile +node +128; expected",
                                  "out"))
        self.assertTrue(told.find(r"^warning +memlock +node +16 KiB; expected",
                                  "out"))
        self.assertTrue(told.find(r"^How to fix it:$", "out"))
        self.assertTrue(told.find(r"ulimit -n \d+", "out"))
        self.assertIsNone(told.find(r"^(ok|not applicable) "))
        told = self.stage.run([*DOCTOR, "--all"])
        self.assertTrue(told.find(r"^ok +proc +node +mounted$", "out"))
        self.assertTrue(told.find(r"^not applicable +clock ", "out"))

    def test_what_cannot_be_printed_is_no_success(self):
        for command in (["doctor", "--json"], ["version"], ["--help"],
                        ["facts", "--json"]):
            told = self.stage.run(
                ["sh", "-c", 'exec "$@" >/dev/full', "sh", ROLLCALL, *command])
            self.assertNotEqual(told.code, 0, command)
            self.assertTrue(told.find(r"^rollcall: standard output: No space "
                                      r"left on device;", "err"), command)

    def test_folders(self):
        free = self.stage.path("new", "checkpoints")
        ended = self.stage.run([*DOCTOR, "--json", "--folder", free])
        self.assertEqual(self.the_only(ended, "folder")["severity"], "ok")
        self.assertIn(free, [f["subject"] for f in
                             self.findings(ended)["free-space"]])
        self.assertFalse(os.path.exists(self.stage.path("new")))
        run = self.the_only(ended, "run-folder")
        self.assertEqual((run["severity"], run["subject"]),
                         ("ok", self.stage.path("run")))
        self.assertEqual(os.listdir(self.stage.path("run")), [])
        ended = self.stage.run([*DOCTOR, "--json"],
                               {"XDG_RUNTIME_DIR": "/proc"})
        run = self.the_only(ended, "run-folder")
        self.assertEqual((run["severity"], run["subject"]), ("ok", "/tmp"))

        with open(self.stage.path("file"), "w", encoding="ascii"):
            pass
        ended = self.stage.run([*DOCTOR, "--json", "--folder", free,
                                "--folder", "file/below"])
        self.assertEqual(ended.code, 30)
        bad = [f for f in self.findings(ended)["folder"]
               if f["severity"] == "fatal"]
        self.assertEqual([f["subject"] for f in bad],
                         [self.stage.path("file", "below")])

    def test_a_folder_that_does_not_answer(self):
        dead, well = self.stage.path("dead"), self.stage.path("well")
        for folder in (dead, well):
            os.mkdir(folder)
        # `timeout` ends a doctor that hangs; the test's deadline is minutes.
        ended = self.stage.run(
            ["timeout", "-s", "KILL", "60", *DOCTOR, "--json", "--folder", dead,
             "--folder", well],
            {"LD_PRELOAD": HANGING, "HANGING_FOLDER": dead})
        found = self.findings(ended)
        by_folder = {f["subject"]: f for f in found["folder"]}
        self.assertEqual(by_folder[dead]["severity"], "retryable")
        self.assertIn("no answer within", by_folder[dead]["found"])
        self.assertEqual(by_folder[well]["severity"], "ok")
        space = {f["subject"]: f for f in found["free-space"]}
        self.assertIn("no answer within", space[dead]["found"])
        # The next folder was not checked; its finding is still listed.
        self.assertEqual({f["severity"] for f in space.values()}, {"unknown"})
        self.assertEqual(set(space), {dead, well})

    def test_a_run_warns_of_full_folders(self):
        lab = Lab(self.stage, 1)
        for size, path in (("8m", "/mnt"), ("64m", "/media")):
            mounted = lab.run(1, ["mount", "-t", "tmpfs", "-o",
                                  f"size={size}", "none", path])
            self.assertEqual(mounted.code, 0, mounted.text())
        trainer = os.path.join(harness.BIN, "rollcall-train")
        ended = lab.run(1, [
            "env", "TMPDIR=/mnt/tmp", harness.ROLLCALL, "launch", "--log-dir", "/mnt/logs", "--folder",
            "/media/data", "--folder", "/mnt/data", "--", trainer, "--version", "--checkpoints",
            "/mnt/ckpt"])
        self.assertEqual(ended.code, 0, ended.text())
        full = r"WARNING: {}: (7\.\d|8) MiB free of 8 MiB; expected at least 16 MiB"
        for path in ("/mnt/logs", "/mnt/data", "/mnt/ckpt", "/mnt/tmp"):
            self.assertTrue(ended.find(full.format(path), "err"),
                            ended.text())
        # Other folders have enough space, or were not named and are not full.
        self.assertEqual(len([line for line in ended.err()
                              if "WARNING" in line]), 4, ended.text())

    def test_the_clock_is_the_daemons(self):
        launcher = self.launch(["--nodes", "2", "--job", "clocks"], ["true"])
        text = self.join_string(launcher)
        for words, env in (([text], {}), ([], {"ROLLCALL_JOIN": text}),
                           (["--job", "clocks"], {})):
            ended = self.stage.run([*DOCTOR, "--json", *words], env)
            finding = self.the_only(ended, "clock")
            self.assertEqual(finding["severity"], "ok", finding)
            self.assertRegex(finding["found"], r"^\S+ (ahead of|behind) the "
                             r"daemon, to within \d+ms$")
        ended = self.stage.run([*DOCTOR, "--json", text],
                               {"LD_PRELOAD": CLOCK, "SKEW_S": "40"})
        finding = self.the_only(ended, "clock")
        self.assertEqual(finding["severity"], "warning", finding)
        self.assertRegex(finding["found"], r"^(39|40)(\.\d+)?s ahead of ")
        self.assertIn("chrony", finding["mend"])
        self.assertGreaterEqual(ended.code, 10)

        # An unknown job and a damaged join string are errors; only a daemon
        # that no longer answers gives a finding.
        ended = self.stage.run([*DOCTOR, "--job", "clockz"])
        self.assertEqual(ended.code, 69, ended.text())
        ended = self.stage.run([*DOCTOR, text + "x"])
        self.assertEqual(ended.code, 77, ended.text())
        launcher.signal(signal.SIGINT)
        self.assert_code(launcher, 130)
        gone = self.the_only(self.stage.run([*DOCTOR, "--json", text]),
                             "clock")
        self.assertEqual(gone["severity"], "unknown", gone)
        self.assertIn("asked for its time", gone["found"])

    def test_a_daemon_without_the_job_tells_no_time(self):
        state = self.stage.path("standing")
        self.rollcalld("--state", state).await_line(r"join with: ")
        ended = self.stage.run([*DOCTOR, "--json", self.kept_join(state),
                                "--job", "later"])
        self.assertEqual(self.the_only(ended, "clock")["severity"],
                         "not applicable")

    def test_a_small_shm(self):
        lab = Lab(self.stage, 1)
        before = lab.run(1, [*DOCTOR, "--json"])
        mounted = lab.run(1, ["mount", "-t", "tmpfs", "-o", "size=64m", "none",
                              "/dev/shm"])
        self.assertEqual(mounted.code, 0, mounted.text())
        after = lab.run(1, [*DOCTOR, "--json"])
        finding = self.the_only(after, "shm")
        self.assertEqual(finding["severity"], "warning")
        self.assertIn("64 MiB", finding["found"])
        self.assertIn("--shm-size", finding["mend"])
        self.assertGreaterEqual(after.code, 10)
        mounted = lab.run(1, ["mount", "-t", "tmpfs", "-o", "size=1g", "none",
                              "/dev/shm"])
        self.assertEqual(mounted.code, 0, mounted.text())
        enough = lab.run(1, [*DOCTOR, "--json"])
        self.assertEqual(self.the_only(enough, "shm")["severity"], "ok")
        # All other checks have the same result.
        for ended in (after, enough):
            self.assertEqual(
                {c: [f["severity"] for f in found]
                 for c, found in self.findings(ended).items() if c != "shm"},
                {c: [f["severity"] for f in found]
                 for c, found in self.findings(before).items() if c != "shm"})

    def test_links_and_names(self):
        lab = Lab(self.stage, 1)
        well = lab.run(1, [*DOCTOR, "--json"])
        self.assertEqual(self.the_only(well, "address")["severity"], "ok")
        self.assertIn("10.77.0.1 on eth0",
                      self.the_only(well, "address")["found"])
        named = lab.run(1, ["sh", "-c", "echo 127.0.1.1 lab1 > /etc/hosts; "
                            'exec "$@"', "sh", *DOCTOR, "--json"])
        finding = self.the_only(named, "own-name")
        self.assertEqual(finding["severity"], "warning", finding)
        self.assertEqual(finding["subject"], "lab1")
        self.assertIn("127.0.1.1", finding["found"])
        named = lab.run(1, ["sh", "-c", "echo 10.77.0.1 lab1 > /etc/hosts; "
                            'exec "$@"', "sh", *DOCTOR, "--json"])
        self.assertEqual(self.the_only(named, "own-name")["severity"], "ok")
        down = lab.run(1, ["sh", "-c", 'ip link set eth0 down; exec "$@"', "sh",
                           *DOCTOR, "--json"])
        self.assertEqual(down.code, 30, down.text())
        self.assertEqual(self.the_only(down, "address")["severity"], "fatal")

    def test_a_hosts_block_of_agents_that_have_died(self):
        lab = Lab(self.stage, 1)
        well = lab.run(1, [*DOCTOR, "--json"])
        self.assertEqual(self.the_only(well, "hosts-file")["severity"], "ok")
        block = ("# rollcall begin job=old run=r1 generation=1 size=9\n"
                 "# rollcall owner pid=1 start=5 boot=earlier pidns=7 node=z\n"
                 "10.77.0.9 node-0.old.rollcall\n"
                 "# rollcall end job=old run=r1\n")
        left = lab.run(1, [
            "sh", "-c", f"printf '\\n%s' '{block}' >> /etc/hosts; "
            'exec "$@"', "sh", *DOCTOR, "--json"])
        finding = self.the_only(left, "hosts-file")
        self.assertEqual(finding["severity"], "warning", finding)
        self.assertIn("job old, run r1", finding["found"])
        self.assertIn("begin job=old", finding["mend"])

    def test_without_proc(self):
        lab = Lab(self.stage, 1)
        self.assertEqual(lab.run(1, ["mount", "-t", "tmpfs", "none",
                                     "/proc"]).code, 0)
        ended = lab.run(1, [*DOCTOR, "--json"])
        self.assertEqual(ended.code, 30, ended.text())
        self.assertIn("mount -t proc", self.the_only(ended, "proc")["mend"])
        swap = self.the_only(ended, "swap")
        self.assertEqual(swap["severity"], "unknown", swap)
        self.assertIn("/proc/meminfo: No such file", swap["found"])
        # Each failed fact is reported by its own check.
        self.assertEqual([f["severity"] for f in
                          self.findings(ended)["facts"]], ["ok"])
