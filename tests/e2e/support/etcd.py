"""etcd on loopback, with one member or with three."""
import os
import re
import signal
import socket
import unittest

ETCD = "/usr/bin/etcd"


def free_ports(count):
    """Returns ports that are free now; other processes may take them."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def need_etcd():
    if not os.access(ETCD, os.X_OK):
        raise unittest.SkipTest(f"NOT TESTED: there is no {ETCD} here; "
                                "scripts/packages.sh test installs it")


class Etcd:
    """An etcd whose members have their own logs, which show who leads."""

    def __init__(self, stage, names=("one", "two", "three"), scheme="http",
                 flags=()):
        self.stage = stage
        for _ in range(5):
            if self._start(names, scheme, flags):
                return
        stage.fail("etcd does not start")

    def _start(self, names, scheme, flags):
        ports = free_ports(2 * len(names))
        self.endpoints = [f"127.0.0.1:{p}" for p in ports[:len(names)]]
        peers = [f"http://127.0.0.1:{p}" for p in ports[len(names):]]
        cluster = ",".join(map("=".join, zip(names, peers)))
        self.members = []
        for name, endpoint, peer in zip(names, self.endpoints, peers):
            self.members.append(self.stage.start(
                [ETCD, "--name", name,
                 "--data-dir", self.stage.path(f"etcd-{ports[0]}-{name}"),
                 "--listen-client-urls", f"{scheme}://{endpoint}",
                 "--advertise-client-urls", f"{scheme}://{endpoint}",
                 "--listen-peer-urls", peer,
                 "--initial-advertise-peer-urls", peer,
                 "--initial-cluster", cluster, "--logger", "zap",
                 "--log-outputs", "stderr", *flags]))
        ready = r"serving (insecure )?client (traffic|requests)"
        self.stage.pump(
            lambda: all(m.find(ready) or m.done() for m in self.members),
            "etcd's members")
        if all(m.find(ready) for m in self.members):
            return True
        for member in self.members:
            if member.code is None:
                member.signal(signal.SIGKILL)
            member.wait()
        return False

    def leader(self):
        """Returns the member that leads, by the members' logs."""
        def terms(member):
            found = [re.search(r"became leader at term (\d+)", line)
                     for line in member.err()]
            return max([int(m[1]) for m in found if m], default=0)
        return max(self.members, key=terms)

    def followers(self):
        leader = self.leader()
        return [m for m in self.members if m is not leader]
