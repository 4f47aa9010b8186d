"""Checks what must be absent, by reading the tree and the binaries.

The rules are in absences/. Each takes files (path and text) and returns the
places that break the rule as "file:line: why". EachRuleCanFail gives each rule
a sample that breaks it.

Two absences are not checked here, since no text search could find them. That
nothing calls out while it holds a lock is checked by clang's thread-safety
analysis and by review. That no state only grows is checked by the bounds in
daemon/core/limits.h, their tests, and review.
"""
import os
import re
import subprocess
import sys
import unittest
import unittest.mock

from absences import aborts, binaries, calls, layers, orders, source
from paths import BIN, PROJECT

TOP_LEVEL = {
    "CMakeLists.txt", "proto", "daemon", "client", "trainer", "tests",
    "specs", "scripts", "README.md", "CMakePresets.json", "LICENSE",
    ".clang-format", ".clang-tidy", ".gitignore", ".ci",
    # Never committed: .gitignore has build, and git ignores .git itself.
    "build", ".git", ".cache",
}


def top_level(names):
    return [f"{name}:1: does not belong on the top level"
            for name in sorted(set(names) - TOP_LEVEL)]


class Absences(unittest.TestCase):
    def check(self, found):
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_the_cores_are_pure(self):
        files = source.tree()
        self.assertTrue([p for p in files if layers.is_pure(p)])
        self.check(layers.impure_includes(files) + layers.calls_in_cores(files))

    def test_floors_use_only_what_lies_below(self):
        self.check(layers.upward_includes(source.tree()))

    def test_no_cycle_between_folders(self):
        files = source.tree()
        self.assertIn("client/doctor",
                      layers.folder_uses(files)["client/cli/commands"])
        self.check(layers.folder_cycles(files))
        self.check(layers.unit_cycles(files))

    def test_folders_use_what_the_design_allows(self):
        self.check(layers.forbidden_uses(source.tree()))

    def test_only_what_runs_a_daemon_uses_the_server(self):
        files = source.tree(source.CODE + ("CMakeLists.txt",))
        self.assertTrue([p for p in files if p.endswith("CMakeLists.txt")])
        self.check(layers.server_in_client(files))

    def test_base_links_absl_only(self):
        self.check(layers.more_than_absl(source.tree()))

    def test_a_rank_carries_no_grpc(self):
        self.check(layers.grpc_in_rank(source.tree()))
        # gRPC must not come in through a linked library either. Control: the
        # agent's program contains it.
        for name, carries in ("rollcall-train", False), ("rollcall", True):
            with open(os.path.join(BIN, name), "rb") as f:
                self.assertEqual(b"libgrpc" in (text := f.read())
                                 or b"grpc_channel" in text, carries, name)

    def test_nothing_sleeps(self):
        self.check(calls.sleeps(source.tree()))

    def test_no_shell_on_a_string(self):
        self.check(calls.shells(source.tree()))

    def test_every_channel_and_server_has_the_defaults(self):
        self.check(calls.bare_channels(source.tree()))

    def test_no_fixed_port_in_tests(self):
        self.check(calls.fixed_ports(source.tree()))

    def test_no_input_reaches_an_abort(self):
        self.check(aborts.aborts_on_input(source.tree()))

    def test_no_daemon_says_what_to_execute(self):
        files = source.tree()
        known = orders.messages(files)
        self.assertIn("proposal", [n for _, _, n in known["DaemonMessage"]])
        self.assertIn("members", [n for _, _, n in known["World"]])
        self.check(orders.orders(files))

    def test_no_excuse_outlives_its_cause(self):
        files = source.tree()
        self.check([f"{path}: no `{words}` there: {why}; remove the excuse"
                    for table in (aborts.CHECKS_JUSTIFIED,
                                  calls.PORTS_JUSTIFIED)
                    for (path, words), why in table.items()
                    if words not in files.get(path, "")])

    # Otherwise only a simulator run of an hour would show it.
    def test_each_deliberate_fault_can_be_put_in(self):
        folder = os.path.join(PROJECT, "tests", "sim")
        with unittest.mock.patch.object(sys, "path", [folder] + sys.path):
            import faults  # pylint: disable=import-outside-toplevel
        files = source.tree()
        self.assertTrue(faults.FAULTS)
        self.check([f"tests/sim/faults.py: {fault.name}: not once in {path}: "
                    f"{old}"
                    for fault in faults.FAULTS
                    for path, old, _ in fault.edits
                    if files[path].count(old) != 1])

    def test_the_top_level_holds_what_was_agreed(self):
        names = set(os.listdir(PROJECT))
        if os.path.exists(os.path.join(PROJECT, ".git")):
            listed = subprocess.run(
                ["git", "-C", PROJECT, "ls-files"], check=True, text=True,
                stdout=subprocess.PIPE).stdout.split("\n")
            names = {p.split("/")[0] for p in listed if p}
        self.check(top_level(names))

    def test_what_is_opened_at_run_time_is_not_linked(self):
        found = binaries.executables()
        self.assertTrue(found, f"no binaries in {BIN}")
        self.check(binaries.linked(found))


class Release(unittest.TestCase):
    """Checks the README's statements about the released binary."""

    def setUp(self):
        self.binary = os.path.join(BIN, "rollcall")
        others = [name for name in binaries.needed(self.binary) if not re.match(
            r"(libc|libm|libdl|librt|libpthread|libresolv|ld-linux.*)\.so",
            name)]
        if others:
            self.skipTest(f"{self.binary} is no release: it needs {others[0]}")

    def test_the_oldest_c_library_is_the_one_that_is_named(self):
        with open(os.path.join(PROJECT, "README.md"), encoding="utf-8") as f:
            said = re.search(r"built on Debian (\d+) its newest\s+symbol is of "
                             r"GLIBC_(\d+)\.(\d+)", f.read())
        self.assertIsNotNone(said)
        with open("/etc/os-release", encoding="utf-8") as f:
            here = f.read()
        symbols = subprocess.run(
            ["objdump", "-T", self.binary], check=True, text=True,
            stdout=subprocess.PIPE).stdout
        if f'VERSION_ID="{said[1]}"' not in here or "ID=debian" not in here:
            self.skipTest(f"README.md has the figure of Debian {said[1]}; here "
                          f"it is {binaries.newest_glibc(symbols)}")
        self.assertEqual(binaries.newest_glibc(symbols),
                         (int(said[2]), int(said[3])))


class EachRuleCanFail(unittest.TestCase):
    def assert_finds(self, found, *starts):
        self.assertEqual([f.split(": ")[0] for f in found], list(starts))

    def test_pure(self):
        self.assert_finds(layers.impure_includes({
            "daemon/core/x.cc": '#include "daemon/core/x.h"\n',
            "daemon/core/x.h": '// <thread>\n#include "daemon/server/y.h"\n',
            "daemon/server/y.h": "#include <mutex>\n#include <vector>\n"}),
            "daemon/server/y.h:1", "daemon/server/y.h:1")
        self.assert_finds(layers.impure_includes({
            "client/agent/core/agent/agent.h": "\n#include <grpcpp/grpcpp.h>\n",
            "client/agent/session.h": "#include <thread>\n"}),
            "client/agent/core/agent/agent.h:2")
        self.assert_finds(layers.impure_includes({
            "daemon/core/x.cc": '#include "daemon/base/y.h"\n',
            "daemon/base/y.h": "",
            "daemon/base/y.cc": "#include <unistd.h>\n"}),
            "daemon/base/y.cc:1")
        self.assert_finds(layers.calls_in_cores({
            "daemon/core/x.cc": "// absl::Now()\nauto t = absl::Now();\n"}),
            "daemon/core/x.cc:2")

    def test_floors(self):
        self.assert_finds(layers.upward_includes({
            "daemon/a.cc": '#include "client/b.h"\n#include "proto/c.h"\n',
            "client/b.cc": '#include "daemon/a.h"\n#include "tests/t.h"\n'}),
            "client/b.cc:2", "daemon/a.cc:1")

    def test_unit_cycles(self):
        self.assert_finds(layers.unit_cycles({
            "daemon/core/a.h": "", "daemon/core/b.h": "",
            "daemon/core/a.cc": '#include "daemon/core/b.h"\n',
            "daemon/core/b.cc": '#include "daemon/core/a.h"\n',
        }), "daemon/core/a.cc:1")
        self.assert_finds(layers.unit_cycles({
            "daemon/core/a.h": "", "daemon/core/b.h": "",
            "daemon/core/a.cc": '#include "daemon/core/b.h"\n'
                                '#include "daemon/core/a.h"\n',
        }))

    def test_folder_cycles(self):
        self.assert_finds(layers.folder_cycles({
            "client/a/x.cc": '#include "client/b/y.h"\n',
            "client/b/y.h": '\n#include "client/c/z.h"\n',
            "client/c/z.h": '#include <vector>\n'
                            '#include "client/a/x.h"\n',
            "client/d/w.cc": '#include "client/a/x.h"\n'}),
            "client/a/x.cc:1")
        # A folder and its subfolder, and a file that is not in the tree.
        self.assert_finds(layers.folder_cycles({
            "daemon/a/x.h": '#include "daemon/a/b/y.h"\n',
            "daemon/a/b/y.h": '#include "daemon/a/x.h"\n'
                              '#include "rollcall/v1/a.pb.h"\n'}),
            "daemon/a/x.h:1")

    def test_forbidden_uses(self):
        table = [("daemon/a", []), ("daemon/b", ["daemon/a"]),
                 ("daemon/b/pure", [])]
        self.assert_finds(layers.forbidden_uses({
            "daemon/a/x.h": '#include "daemon/b/y.h"\n',
            "daemon/b/y.h": '#include "daemon/a/x.h"\n'
                            '#include "daemon/b/pure/z.h"\n',
            "daemon/b/pure/z.h": '\n#include "daemon/a/x.h"\n',
            "daemon/bb/w.h": ''}, table),
            "daemon/a/x.h:1", "daemon/b/pure/z.h:2", "daemon/bb:1")
        # Each row of the table allows only folders that have rows above it.
        above = []
        for folder, allowed in layers.USES:
            for one in allowed:
                self.assertTrue(
                    [row for row in above if layers.lies_in(one, row)],
                    f"{folder}: {one}")
            above.append(folder)

    def test_server_in_client(self):
        self.assert_finds(layers.server_in_client({
            "client/cli/commands/daemon.cc":
                '#include "daemon/server/server.h"\n',
            "client/cli/commands/join.cc":
                '\n#include "daemon/server/loop/x.h"\n',
            "daemon/main.cc": '#include "daemon/server/server.h"\n',
            "daemon/CMakeLists.txt":
                "target_link_libraries(rollcalld PRIVATE rollcall_server)\n",
            "client/cli/CMakeLists.txt":
                "target_link_libraries(rollcall PRIVATE rollcall_server)\n"
                "target_link_libraries(rollcall_cli\n  PUBLIC a\n"
                "  rollcall_server)\n"}),
            "client/cli/commands/join.cc:2", "client/cli/CMakeLists.txt:2")

    def test_base(self):
        self.assert_finds(layers.more_than_absl({
            "daemon/base/x.h": "#include <grpcpp/grpcpp.h>\n"
                               '#include "absl/time/time.h"\n',
            "daemon/base/text/y.cc":
                '#include "rollcall/v1/admin.pb.h"\n',
            "daemon/base/grpc/z.cc": "#include <grpcpp/grpcpp.h>\n"}),
            "daemon/base/text/y.cc:1", "daemon/base/x.h:1")

    def test_grpc_in_rank(self):
        self.assert_finds(layers.grpc_in_rank({
            "client/rank/x.h": "#include <grpcpp/grpcpp.h>\n"
                               '#include "rollcall/v1/rank.pb.h"\n',
            "client/rank/y.cc": '#include "rollcall/v1/rank.grpc.pb.h"\n',
            "client/agent/z.cc": "#include <grpcpp/grpcpp.h>\n"}),
            "client/rank/x.h:1", "client/rank/y.cc:1")

    def test_sleeps(self):
        self.assert_finds(calls.sleeps({
            "client/a.cc": "#include <x>\n"
                           "std::this_thread::sleep_for(x);\n// usleep(1)\n",
            "tests/b.py": "import time\ntime.sleep(1)\n# time.sleep(2)\n"}),
            "client/a.cc:2", "tests/b.py:2")

    def test_shells(self):
        self.assert_finds(calls.shells({
            "client/a.cc": '#include <x>\nstd::system("ls");\n',
            "tests/b.py": "subprocess.run('ls', shell=True)\n"}),
            "client/a.cc:2", "tests/b.py:1")

    def test_bare_channels(self):
        for text in ("grpc::ChannelArguments arguments;",
                     "f(grpc::ChannelArguments());",
                     "grpc::CreateChannel(a, b);",
                     "grpc::ServerBuilder builder;\nbuilder.Build();"):
            self.assertEqual(
                len(calls.bare_channels({"client/x.cc": text})), 1, text)
        for text in ("grpc::ChannelArguments a = DefaultChannelArguments();",
                     "grpc::ServerBuilder builder;\n  SetDefaults(builder);"):
            self.assertEqual(
                calls.bare_channels({"client/x.cc": text}), [], text)

    def test_ports(self):
        self.assert_finds(calls.fixed_ports({
            "tests/a.cc": '#include <x>\nDial("127.0.0.1:5000");\n'
                          'Listen("127.0.0.1:0");\n',
            "tests/b.py": "s.bind(('', 8080))\ns.bind(('', 0))\n"}),
            "tests/a.cc:2", "tests/b.py:1")

    def test_aborts(self):
        self.assert_finds(aborts.aborts_on_input({
            "daemon/core/admission/admission.cc": "CHECK(x);\n// CHECK(y)\n",
            "daemon/core/formation/world.cc": "CHECK(x);\n",
            "daemon/core/job/job.cc": "CHECK(x);\n  CHECK_GE(now, state_.now);\n",
            "client/agent/core/agent/agent.cc": "m.abort();\nm->abort();\n",
            "client/facts/devices/gpu.cc": "\n  abort();\n"}),
            "client/facts/devices/gpu.cc:2",
            "daemon/core/admission/admission.cc:1",
            "daemon/core/job/job.cc:1")

    def test_orders(self):
        self.assert_finds(orders.orders({
            "proto/a.proto": "message AgentMessage { bytes command = 1; }\n"
                             "message DaemonMessage { oneof kind {\n"
                             "  Work work = 1; } }\n"
                             "message Work {\n  // string shell = 2;\n"
                             "  repeated string argv = 1;\n}\n"
                             "message World { string exec_path = 1; }\n"}),
            "proto/a.proto:6", "proto/a.proto:8")

    def test_top_level(self):
        self.assert_finds(top_level(["daemon", "notes.txt"]), "notes.txt:1")

    def test_glibc(self):
        self.assertEqual(binaries.newest_glibc(
            "0 DF *UND* 0 (GLIBC_2.9) a\n0 DF *UND* 0 (GLIBC_2.34) b\n"
            "0 DF *UND* 0 (GLIBCXX_3.4.30) c\n"), (2, 34))

    def test_linked(self):
        self.assert_finds(binaries.linked({
            "bin/rollcall": "\tlibc.so.6 => x\n\tlibnccl.so.2 => y\n",
            "bin/other": "\tlibm.so.6 => x\n"}), "bin/rollcall:1")
