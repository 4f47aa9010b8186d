"""The run specs that users copy."""
import os
import socket

import harness
from harness import E2E


class Specs(E2E):
    def test_ssh_launch(self):
        # In ssh's place: the same machine, and the host's name in the output.
        ssh = self.stage.path("ssh")
        with open(ssh, "w", encoding="utf-8") as f:
            f.write('#!/bin/sh\nshift\nexec sh -c "$*"\n')
        os.chmod(ssh, 0o700)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        spec = os.path.join(os.path.dirname(harness.__file__), "..", "..",
                            "specs", "ssh", "launch.sh")
        run = self.stage.start(
            [spec, "sh", "-c", 'echo "I am $RANK of $WORLD_SIZE: $1"', "sh",
             "two  words; 'quoted' $HOME"],
            {"SSH": ssh, "HOSTS": "alpha beta", "ADDRESS": "127.0.0.1",
             "PORT": str(port), "NPROC": "2", "JOB": "ssh-spec",
             "ROLLCALL": harness.ROLLCALL})
        self.assert_code(run, 0)
        text = run.text()
        for node, ranks in (("alpha", (2, 3)), ("beta", (4, 5))):
            for rank in ranks:
                self.assertIn(f"[{node}/{rank}] I am {rank} of 6: "
                              "two  words; 'quoted' $HOME", text)


if __name__ == "__main__":
    harness.main()
