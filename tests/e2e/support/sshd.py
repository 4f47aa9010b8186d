"""An sshd on hosts of a lab, with its own keys and a client that trusts it."""
import os
import subprocess
import unittest

SSHD = "/usr/sbin/sshd"


class Sshd:
    """An sshd on each of these hosts of `lab`. `ssh`: the command of a client
    on any host of the lab; hosts are named labN. `servers`: the sshd processes.
    On host N, sessions may lock N times 1024 KiB of memory."""

    def __init__(self, stage, lab, hosts):
        if os.getuid() != 0:
            raise unittest.SkipTest("sshd needs root")
        if not os.access(SSHD, os.X_OK):
            raise AssertionError(
                f"there is no {SSHD}; scripts/packages.sh test installs it")
        self.stage = stage
        self.homes = {}
        self.servers = []
        for name in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "",
                            "-f", stage.path(name)], check=True)
        with open(stage.path("host_key.pub"), encoding="ascii") as f:
            host_key = " ".join(f.read().split()[:2])
        self._write("known_hosts", "".join(
            f"10.77.0.{i} {host_key}\n" for i in range(1, lab.hosts + 1)))
        self._write("ssh_config", "".join(
            f"Host lab{i}\n  HostName 10.77.0.{i}\n"
            for i in range(1, lab.hosts + 1)) + "Host *\n"
            "  User root\n  StrictHostKeyChecking yes\n"
            "  IdentitiesOnly yes\n  ConnectTimeout 10\n"
            f"  IdentityFile {stage.path('user_key')}\n"
            f"  UserKnownHostsFile {stage.path('known_hosts')}\n")
        self.ssh = f"ssh -F {stage.path('ssh_config')}"
        for host in hosts:
            self._start(lab, host)

    def _write(self, name, text):
        with open(self.stage.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def _start(self, lab, host):
        home = self.homes[host] = self.stage.path(f"login{host}")
        os.makedirs(home)
        with open("/etc/passwd", encoding="utf-8") as f:
            users = [line for line in f if not line.startswith("root:")]
        self._write(f"passwd{host}",
                    f"root:x:0:0:root:{home}:/bin/sh\n" + "".join(users))
        self._write(f"sshd_config{host}", "\n".join([
            f"ListenAddress 10.77.0.{host}",
            f"HostKey {self.stage.path('host_key')}",
            f"AuthorizedKeysFile {self.stage.path('user_key.pub')}",
            "StrictModes no", "UsePAM no", "PidFile none",
            "PermitRootLogin prohibit-password", ""]))
        server = lab.start(host, [
            "sh", "-c", f"mount --bind {self.stage.path(f'passwd{host}')} "
            "/etc/passwd && mkdir -p /run/sshd && "
            f"ulimit -l {1024 * host} && exec {SSHD} -D -e -f {self.stage.path(f'sshd_config{host}')}"])
        server.await_line("Server listening", "err")
        self.servers.append(server)
