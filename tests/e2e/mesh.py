"""What the outage tests train: a rank that needs all others for every step.

    mesh.py LEDGER STOP [PATIENCE_S]

A plain command, as anybody's trainer is. Each rank is connected with each; a
step is a number sent to all and got from all, twice: nobody takes a step that
somebody has not begun. What it has done stands in a file of its node in the
folder LEDGER, a line a step: generation, world size, step, CLOCK_MONOTONIC in
nanoseconds, which all lab hosts share. A generation goes on after the last
step that rank 0 of the one before wrote down. All exit 0 after the first step
at which rank 0 finds the file STOP. A broken connection is an error, as in any
collective; a silent peer is one after PATIENCE_S, or waited for.

Only for hosts of their own: every rank listens on MASTER_PORT.
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
TCP_RTO_MAX_MS = 44  # Linux 6.15: a healed cut is noticed within a second.


def resends_soon(connection):
    # However long a cut lasts; or as many tries as there are would be over
    # the sooner.
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
    """A peer may start later than we do; meanwhile another may call."""
    while True:
        try:
            return resends_soon(socket.create_connection(
                address, PATIENCE_S))
        except ConnectionRefusedError:
            select.select([door], [], [], 0.02)
        except TimeoutError:
            sys.exit("RuntimeError: Timed out waiting for a peer")


def connect(rank, world):
    """A connection to each other rank, by rank."""
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
    """What each rank has sent, by rank."""
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
        # It computes, until the first of all is done.
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
