"""A proxy between an agent and its daemon; it is a process of its own.

    proxy.py --to HOST:PORT|@FILE --record PATH [--cert PEM --key PEM]

With @FILE, the address is read from a file for each connection. While the file
does not exist, each connection is closed at once.

The proxy passes bytes on; it writes what is sent to the daemon to PATH.up, and
what is sent to the client to PATH.down. Without a certificate it passes the TCP
stream on unchanged. With one, it does TLS with both sides, accepts any
certificate, and writes the decrypted bytes. It prints `port N`, then for each
connection `connected`, `shaken` after the client's TLS handshake, and `parted`
at the end. SIGUSR1 cuts all connections.
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
    # One write: threads' lines do not mix.
    os.write(1, (words + "\n").encode())


def pass_on(client, daemon, record):
    """Runs until one side closes. One thread does both ways, since two threads
    cannot use one TLS object."""
    other = {client: daemon, daemon: client}
    with open(record + ".up", "ab", buffering=0) as up, \
            open(record + ".down", "ab", buffering=0) as down:
        written = {client: up, daemon: down}
        while True:
            for source in select.select([client, daemon], [], [])[0]:
                # A TLS record may contain no data for us.
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
            # Closes the socket below TLS; else it would continue without TLS.
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
    # Signal handlers run in the main thread, which takes the lock nowhere else.
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
