"""rollcall-train with a folder of checkpoints."""
import glob
import json
import os
import re

import harness
from harness import E2E, command_line, descendants

TRAIN = os.path.join(harness.BIN, "rollcall-train")
TEXT = sorted(p for p in glob.glob("/usr/share/common-licenses/*")
              if os.path.isfile(p))
SMALL = ["--layers", "2", "--heads", "2", "--width", "32", "--context", "32",
         "--batch", "12", "--warmup", "5"]


class Saving(E2E):
    def setUp(self):
        super().setUp()
        self.folder = self.stage.path("checkpoints")

    def command(self, steps, *more, folder=None, data=TEXT, **sizes):
        model = dict(zip(SMALL[::2], SMALL[1::2]))
        model.update({f"--{name}": str(n) for name, n in sizes.items()})
        return [TRAIN, "--data", *data, "--steps", str(steps),
                *(word for pair in model.items() for word in pair),
                "--log-json", "--checkpoints", folder or self.folder, *more]

    def alone(self, steps, *more, **how):
        return self.stage.start(self.command(steps, *more, **how))

    def told(self, process):
        """Returns the JSON that rank 0 printed for each step, by step."""
        told = {}
        for line in process.out():
            if '{"step":' in line:
                said = json.loads(line[line.index("{"):])
                told[said["step"]] = said
        return told

    def losses(self, process):
        return {n: said["loss"] for n, said in self.told(process).items()}

    def saved(self, folder=None):
        return sorted(name for name in os.listdir(folder or self.folder)
                      if re.fullmatch(r"step-\d+", name))

    def ranks(self, agent):
        return {p for p in descendants(agent.pid)
                if command_line(p)[:1] == [TRAIN]}
