"""The run specs that users copy."""
import os

import harness
from harness import E2E


class Specs(E2E):
    def test_the_hostfile(self):
        # In ssh's place: the same machine. tests/e2e/ssh_test.py has a real one.
        ssh = self.stage.path("ssh")
        with open(ssh, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\nfor command; do :; done\n"
                    "exec sh -c \"$command\"\n")
        os.chmod(ssh, 0o700)
        launcher = self.launch(
            ["--hostfile", os.path.join(harness.PROJECT, "specs", "ssh",
                                        "hostfile"), "--ssh", ssh],
            ["sh", "-c", 'echo "I am $RANK of $WORLD_SIZE: $1"', "sh",
             "two  words; 'quoted' $HOME"])
        self.assert_code(launcher, 0)
        for node, ranks in (("node2", range(8, 16)), ("node3", range(16, 24))):
            for rank in ranks:
                self.assertIn(f"[{node}/{rank}] I am {rank} of 24: "
                              "two  words; 'quoted' $HOME", launcher.text())
