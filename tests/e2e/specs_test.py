"""The run specs that users copy."""
import os
import socket

import harness
from harness import E2E


class Specs(E2E):
    def free_port(self):
        """Free a moment ago: the spec needs its number beforehand."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            return s.getsockname()[1]

    def test_ssh_launch(self):
        # In ssh's place: the same machine, and the host's name in the output.
        ssh = self.stage.path("ssh")
        with open(ssh, "w", encoding="utf-8") as f:
            f.write('#!/bin/sh\nshift\nexec sh -c "$*"\n')
        os.chmod(ssh, 0o700)
        # The spec manages /etc/hosts as a user wants it; that of this machine
        # is none of the test's.
        rollcall = self.stage.path("rollcall")
        with open(rollcall, "w", encoding="utf-8") as f:
            f.write('#!/bin/sh\ncommand=$1\nshift\n'
                    f'exec "{harness.ROLLCALL}" "$command" '
                    f'--hosts-file "{self._hosts}" "$@"\n')
        os.chmod(rollcall, 0o700)
        spec = os.path.join(harness.PROJECT, "specs", "ssh", "launch.sh")
        for _ in range(10):
            run = self.stage.start(
                [spec, "sh", "-c", 'echo "I am $RANK of $WORLD_SIZE: $1"',
                 "sh", "two  words; 'quoted' $HOME"],
                {"SSH": ssh, "HOSTS": "alpha beta", "ADDRESS": "127.0.0.1",
                 "PORT": str(self.free_port()), "NPROC": "2",
                 "JOB": "ssh-spec", "ROLLCALL": rollcall})
            # Somebody else may take the port before the daemon does.
            if run.wait() != 69 or "in use" not in run.text():
                break
        self.assert_code(run, 0)
        text = run.text()
        for node, ranks in (("alpha", (2, 3)), ("beta", (4, 5))):
            for rank in ranks:
                self.assertIn(f"[{node}/{rank}] I am {rank} of 6: "
                              "two  words; 'quoted' $HOME", text)
        with open(self._hosts, "rb") as f:
            self.assertEqual(f.read(), b"127.0.0.1 localhost\n# mine\n")
