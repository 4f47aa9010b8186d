"""Somebody between an agent and its daemon: a process of its own.

    proxy.py --to HOST:PORT|@FILE --record PATH [--cert PEM --key PEM]

With @FILE the address stands in a file, which is read for each connection; as
long as there is no such file, each connection is closed at once.

Passes bytes on and writes what went up (to the daemon) into PATH.up and what
came down into PATH.down. Without a certificate it passes TCP on untouched;
with one it speaks TLS to both sides, trusts everybody, and writes what it
could read. Says on stdout: `port N`, then `connected` for each connection,
`shaken` once a client has shaken hands with it, `parted` at its end. SIGUSR1
cuts all connections.
"""
import argparse
import os
import select
import signal
import socket
import ssl
import threading

living = set()
lock = threading.Lock()


def say(words):
    os.write(1, (words + "\n").encode())  # Whole, whoever else speaks.


def pass_on(client, daemon, record):
    """Until one of them hangs up. One thread: TLS bears no second one."""
    other = {client: daemon, daemon: client}
    with open(record + ".up", "ab", buffering=0) as up, \
            open(record + ".down", "ab", buffering=0) as down:
        written = {client: up, daemon: down}
        while True:
            for source in select.select([client, daemon], [], [])[0]:
                # Not all that comes in TLS is for us to read.
                source.setblocking(False)
                try:
                    while data := source.recv(1 << 16):
                        written[source].write(data)
                        other[source].setblocking(True)
                        other[source].sendall(data)
                    return
                except (BlockingIOError, ssl.SSLWantReadError):
                    pass


def hang_up(*sides):
    for side in sides:
        try:
            # Below TLS, or it would go on in the clear.
            socket.socket.shutdown(side, socket.SHUT_RDWR)
        except OSError:
            pass


def target(to):
    if not to.startswith("@"):
        return to
    with open(to[1:], encoding="ascii") as f:
        return f.read().strip()


def serve(client, options, ours):
    daemon = None
    try:
        if ours:
            client = ours.wrap_socket(client, server_side=True)
            say("shaken")
        host, port = target(options.to).rsplit(":", 1)
        daemon = socket.create_connection((host.strip("[]"), int(port)))
        if ours:
            anybody = ssl.create_default_context()
            anybody.check_hostname = False
            anybody.verify_mode = ssl.CERT_NONE
            anybody.set_alpn_protocols(["h2"])
            daemon = anybody.wrap_socket(daemon, server_hostname="rollcall")
        with lock:
            living.update((client, daemon))
        pass_on(client, daemon, options.record)
    except OSError:
        pass
    for side in (client, daemon):
        with lock:
            living.discard(side)
        if side:
            hang_up(side)
            side.close()
    say("parted")


def cut(*_):
    # In the main thread, which takes the lock nowhere else.
    with lock:
        sides = list(living)
    hang_up(*sides)


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--to", "--record", "--cert", "--key"):
        parser.add_argument(flag)
    options = parser.parse_args()
    ours = None
    if options.cert:
        ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ours.load_cert_chain(options.cert, options.key)
        ours.set_alpn_protocols(["h2"])
    for way in (".up", ".down"):
        open(options.record + way, "wb").close()
    door = socket.create_server(("127.0.0.1", 0))
    signal.signal(signal.SIGUSR1, cut)
    say(f"port {door.getsockname()[1]}")
    while True:
        client, _ = door.accept()
        say("connected")
        threading.Thread(target=serve, args=(client, options, ours),
                         daemon=True).start()


main()
