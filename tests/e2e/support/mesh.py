"""The training of the outage tests: a rank that needs all others for each step.

    mesh.py LEDGER STOP [PATIENCE_S]

It is a plain command, like any user's trainer. Each rank has a connection to
every other. In a step, each rank sends a number to all others and receives one
from each, twice, so no rank completes a step that another has not begun. The
steps that a rank has done are in its node's file in the folder LEDGER, a line a
step: generation, world size, step, CLOCK_MONOTONIC in nanoseconds, which all
lab hosts share. A generation continues after the last step that rank 0 of the
previous one has written. All ranks exit 0 after the first step at which rank 0
finds the file STOP. A broken connection is an error, as in any collective. A
silent peer is an error after PATIENCE_S; without PATIENCE_S the rank waits.

Each rank listens on MASTER_PORT, so each needs a host of its own.
"""
import json
import os
import select
import socket
import struct
import sys
import time

PACE_S = 0.03
PATIENCE_S = float(sys.argv[3]) if len(sys.argv) > 3 else None
TCP_RTO_MAX_MS = 44  # From Linux 6.15 on; resends within 1 s.


def resends_soon(connection):
    # The kernel tries again for ten minutes. Otherwise its number of tries
    # would be used up sooner, because they come more often.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT,
                          10 * 60 * 1000)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, 1000)
    except OSError:
        pass
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(PATIENCE_S)
    return connection


def dial(address, door):
    """Dials a peer, which may start later; others may dial us meanwhile."""
    while True:
        try:
            return resends_soon(socket.create_connection(
                address, PATIENCE_S))
        except ConnectionRefusedError:
            select.select([door], [], [], 0.02)
        except TimeoutError:
            sys.exit("RuntimeError: Timed out waiting for a peer")


def connect(rank, world):
    """Returns a connection to each other rank, by rank."""
    addresses = [n["address"] for n in world["nodes"]]
    port = world["master_port"]
    door = socket.create_server((addresses[rank], port))
    peers = {}
    for other in range(rank):
        peers[other] = dial((addresses[other], port), door)
        peers[other].sendall(struct.pack("<I", rank))
    while len(peers) < len(addresses) - 1:
        caller = resends_soon(door.accept()[0])
        peers[struct.unpack("<I", take(caller, 4))[0]] = caller
    return peers


def take(peer, count):
    data = b""
    while len(data) < count:
        more = peer.recv(count - len(data))
        if not more:
            sys.exit("RuntimeError: Connection closed by peer")
        data += more
    return data


def exchange(peers, value):
    """Returns the value that each rank has sent, by rank."""
    try:
        for peer in peers.values():
            peer.sendall(struct.pack("<q", value))
        return {rank: struct.unpack("<q", take(peer, 8))[0]
                for rank, peer in peers.items()}
    except TimeoutError:
        sys.exit("RuntimeError: Timed out waiting for a peer")
    except OSError as error:
        sys.exit(f"RuntimeError: {error.strerror}")


def last_step(path):
    try:
        with open(path, encoding="ascii") as f:
            return int(f.read())
    except FileNotFoundError:
        return 0


def main():
    ledger, stop = sys.argv[1:3]
    rank = int(os.environ["RANK"])
    generation = int(os.environ["ROLLCALL_GENERATION"])
    with open(os.environ["ROLLCALL_WORLD_FILE"], encoding="utf-8") as f:
        world = json.load(f)
    size = world["world_size"]
    print(f"up g{generation} rank{rank}/{size} pid={os.getpid()}", flush=True)
    peers = connect(rank, world)
    mine = os.open(os.path.join(ledger, os.environ["ROLLCALL_NODE"]),
                   os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    saved = os.path.join(ledger, "saved")
    step = max([last_step(saved) if rank == 0 else -1,
                *exchange(peers, last_step(saved) if rank == 0 else -1)
                .values()])
    ends = False
    while not ends:
        # Stands for a computation; a faster peer ends it early.
        select.select(list(peers.values()), [], [], PACE_S)
        step += 1
        ends = rank == 0 and os.path.exists(stop)
        said = exchange(peers, -step if ends else step)
        if {abs(n) for n in said.values()} - {step}:
            sys.exit(f"ranks are not at one step: {step} and {said}")
        ends = ends or said.get(0, 0) < 0
        exchange(peers, step)
        now = time.monotonic_ns()
        if rank == 0:
            with open(saved + ".new", "w", encoding="ascii") as f:
                f.write(str(step))
            os.replace(saved + ".new", saved)
        os.write(mine, f"{generation} {size} {step} {now}\n".encode())
        with open(os.environ["ROLLCALL_PROGRESS"], "w",
                  encoding="ascii") as f:
            f.write(str(step))
        if step % 20 == 1 or ends:
            print(f"step {step} g{generation}", flush=True)


if __name__ == "__main__":
    main()
