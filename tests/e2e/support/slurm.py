"""A Slurm on the hosts of a lab: one munged for all hosts, slurmctld on the
first one, and a slurmd on each."""
import os
import shutil
import subprocess
import unittest

PROGRAMS = ("/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd")

CONF = """ClusterName=lab
SlurmctldHost=lab1(10.77.0.1)
SlurmctldPort=6817
SlurmdPort=6818
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=60
KillWait=3
MailProg=/bin/true
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=1,\
sched_min_interval=0
SlurmdParameters=config_overrides
{nodes}
PartitionName=main Nodes=ALL Default=YES State=UP
"""


class Slurm:
    def __init__(self, stage, lab):
        if os.getuid() != 0:
            raise unittest.SkipTest("Slurm's daemons need root here")
        for program in PROGRAMS:
            if not os.access(program, os.X_OK):
                raise AssertionError(
                    f"there is no {program}; scripts/packages.sh test "
                    "installs it")
        self.stage = stage
        self.lab = lab
        self.folder = stage.path("slurm")
        os.makedirs(os.path.join(self.folder, "state"))
        hosts = range(1, lab.hosts + 1)
        self._write("slurm.conf", CONF.format(
            folder=self.folder, nodes="\n".join(
                f"NodeName=lab{i} NodeAddr=10.77.0.{i} CPUs=2 State=UNKNOWN"
                for i in hosts)))
        self._write("cgroup.conf", "CgroupPlugin=cgroup/v1\n")
        self.env = {"SLURM_CONF": os.path.join(self.folder, "slurm.conf")}
        self._munge()
        for host in hosts:
            with open(lab.hosts_file(host), "a", encoding="ascii") as f:
                # The file's last line has no line end.
                f.write("\n")
                f.writelines(f"10.77.0.{i} lab{i}\n" for i in hosts)
        self._daemon(1, "slurmctld", [shutil.which("slurmctld",
                                                   path="/usr/sbin"), "-D"])
        for host in hosts:
            self._daemon(host, "slurmd", ["/usr/sbin/slurmd", "-D", "-N",
                                          f"lab{host}"])
        # srun waits until the nodes have registered.
        ready = self.run(["srun", f"-N{lab.hosts}", "--immediate=60", "true"])
        if ready.code != 0:
            stage.fail("Slurm does not run a step")

    def _write(self, name, text):
        with open(os.path.join(self.folder, name), "w",
                  encoding="ascii") as f:
            f.write(text)

    def _munge(self):
        key = os.path.join(self.folder, "munge.key")
        with open(key, "wb", opener=lambda p, f: os.open(p, f, 0o400)) as f:
            f.write(os.urandom(128))
        path = os.path.join(self.folder, "munge")
        munged = self.stage.start([
            "/usr/sbin/munged", "--foreground", "--force",
            f"--key-file={key}", f"--socket={path}.socket",
            f"--pid-file={path}.pid", f"--log-file={path}.log",
            f"--seed-file={path}.seed"])
        self.stage.pump(lambda: os.path.exists(f"{path}.socket") or
                        munged.code is not None, "munged's socket")

    def _daemon(self, host, name, argv):
        os.makedirs(os.path.join(self.folder, f"spool.lab{host}"),
                    exist_ok=True)
        daemon = self.lab.start(host, argv, self.env)
        daemon.await_line("slurmctld version|Running as primary|"
                          "slurmd version|slurmd started", "err")

    def start(self, argv, env=None, host=1):
        return self.lab.start(host, argv, dict(self.env, **(env or {})))

    def run(self, argv, env=None):
        process = self.start(argv, env)
        process.wait()
        return process
