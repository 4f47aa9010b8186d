"""A test client that implements TLS, HTTP/2, gRPC and protobuf itself.

It implements just enough of each to send what no proper client would send:
forged, oversized, half-sent and out-of-order messages. It reads the messages of
a connection's first stream and the status that ends it.
"""
import base64
import hashlib
import os
import re
import socket
import ssl
import struct
import time

OK, CANCELLED, INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS = 0, 1, 3, 5, 6
PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION = 7, 8, 9
ABORTED, INTERNAL, UNAVAILABLE, UNAUTHENTICATED = 10, 13, 14, 16

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
WINDOW_UPDATE, INITIAL_WINDOW = 8, 4
ACK, END_HEADERS = 1, 4
END_STREAM = 1
CANCEL = 8  # The error code with which a stream is reset.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


# --- protobuf -----------------------------------------------------------------

def varint(number):
    out = b""
    while True:
        low, number = number & 0x7f, number >> 7
        if not number:
            return out + bytes([low])
        out += bytes([low | 0x80])


def field(number, value):
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def fields(message):
    """Parses a serialized message into [(number, int or bytes)]."""
    found, at = [], 0

    def read():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(message):
        key = read()
        if key & 7 == 0:
            found.append((key >> 3, read()))
        else:
            assert key & 7 == 2, "only varints and bytes stand in ours"
            size = read()
            found.append((key >> 3, message[at:at + size]))
            at += size
    return found


# --- The wire between a rank and its agent (rank.proto) -----------------------

class RankSocket:
    """A client of the rank socket: sends and reads messages, each after its
    length, over a Unix socket."""

    def __init__(self, path, deadline_s=60):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(deadline_s)
        self.socket.connect(path)
        self.pending = b""

    def close(self):
        self.socket.close()

    def send(self, data):
        """Returns how many bytes the agent took; 0 if the connection is
        closed."""
        try:
            return self.socket.send(data)
        except OSError:
            return 0

    def say(self, message):
        self.socket.sendall(struct.pack(">I", len(message)) + message)
        return self

    def hello(self, local_rank=0, version=1, generation=0):
        return self.say(field(1, field(1, local_rank) + field(2, os.getpid())
                              + field(3, generation) + field(6, version)))

    def next(self):
        """Returns the next AgentReply as (number of its kind, bytes of that
        message), or None if the connection has ended."""
        def take(size):
            while len(self.pending) < size:
                try:
                    data = self.socket.recv(1 << 16)
                except ConnectionError:
                    data = b""
                if not data:
                    return None
                self.pending += data
            taken, self.pending = self.pending[:size], self.pending[size:]
            return taken
        header = take(4)
        if header is None:
            return None
        return fields(take(struct.unpack(">I", header)[0]))[0]

    def end(self):
        """Returns (code, message) with which the agent ends the connection."""
        while (reply := self.next()) is not None:
            if reply[0] == 6:
                said = dict(fields(reply[1]))
                return said[1], said[2].decode()
        return None


class Join:
    """The content of a join string: endpoints, job, pin, token (id, secret)."""

    def __init__(self, text):
        raw = unbase64(text.split(".", 1)[1])
        raw, check = raw[:-4], raw[-4:]
        assert hashlib.sha256(raw).digest()[:4] == check, "a wrong checksum"
        parts = fields(raw)
        self.endpoints = [v.decode() for n, v in parts if n == 1]
        parts = dict(parts)
        self.job = parts.get(2, b"").decode()
        self.pin = parts.get(3, b"")
        token = dict(fields(parts[4]))
        self.token_id, self.secret = token[1].decode(), token[2]
        self.insecure = bool(parts.get(5, 0))

    def port(self):
        return int(self.endpoints[0].rsplit(":", 1)[1])

    def text(self):
        raw = b"".join(field(1, e) for e in self.endpoints)
        raw += field(2, self.job) if self.job else b""
        raw += field(3, self.pin) if self.pin else b""
        raw += field(4, field(1, self.token_id) + field(2, self.secret))
        raw += field(5, 1) if self.insecure else b""
        raw += hashlib.sha256(raw).digest()[:4]
        return "rc1." + base64.urlsafe_b64encode(raw).decode().rstrip("=")

    def bearer(self):
        """Returns the bearer token that an admin call sends."""
        return f"{self.token_id}.{self.secret.hex()}"


def unbase64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def hello(join, node, **changes):
    """Returns a serialized AgentMessage with a Hello that is accepted."""
    values = dict(
        job=join.job, run="", node=node,
        incarnation=int.from_bytes(os.urandom(7), "big") + 1,
        token=field(1, join.token_id) + field(2, join.secret),
        facts=field(1, node) + field(2, field(1, "eth0") + field(
            2, field(1, "10.99.0.1") + field(2, 24)) + field(5, 1)
            + field(6, 1)) + field(7, "boot-of-" + node[:20]),
        ranks=1, version="0.1.0")
    values.update(changes)
    numbers = dict(job=1, run=2, node=3, incarnation=4, token=5,
                   node_credential=6, facts=7, ranks=8, command_digest=9,
                   settings=10, launcher=11, generation_seen=12,
                   resume_state=13,
                   version=14, previous_incarnation=16, swept_incarnations=17,
                   swept_nonces=18)
    body = b"".join(field(numbers[k], v) for k, v in values.items()
                    if v not in ("", None))
    return field(1, body)


def introduction(join, node):
    """Returns a serialized AgentMessage that may come before that Hello."""
    body = field(1, join.job) + field(3, node) + field(4, 1) + field(
        5, field(1, join.token_id) + field(2, join.secret))
    return field(19, body)


def heartbeat():
    """Returns a serialized Heartbeat of a node without ranks."""
    return field(2, b"")


def world(join, run, nodes):
    """Returns the bytes of a made-up World of generation 1 and of its
    WorldCommit, with one node of one rank for each name."""
    address = "10.99.0.1"
    members = b"".join(
        field(4, field(1, node) + field(2, at) + field(3, at) + field(4, at)
              + field(5, 1) + field(6, address))
        for at, node in enumerate(nodes))
    made = (field(1, join.job) + field(2, run) + field(3, 1) + members
            + field(5, len(nodes)))
    return made, field(1, 1) + field(2, address) + field(3, 29500)


def rank_exited(generation, local_rank=0):
    """Returns the message that a rank has exited with code 0."""
    return field(7, exit_of(generation, local_rank))


def exit_of(generation, local_rank=0):
    return field(1, generation) + field(2, local_rank)


HEARTBEAT = field(2, field(1, 1))
END_SEEN = field(10, field(1, 1))


def prepared(generation):
    return field(4, field(1, generation))


# --- TLS ----------------------------------------------------------------------

def public_key(certificate):
    """Returns the SubjectPublicKeyInfo of a certificate; both are DER."""
    def inside(at):
        """Returns (begin, end) of the value at `at`; `end` begins the next.
        """
        size, begin = certificate[at + 1], at + 2
        if size & 0x80:
            count, begin = size & 0x7f, begin + (size & 0x7f)
            size = int.from_bytes(certificate[begin - count:begin], "big")
        return begin, begin + size
    at, _ = inside(inside(0)[0])  # Enters Certificate, then its signed part.
    # Skips version, serial, algorithm, issuer, validity and subject.
    for _ in range(6):
        at = inside(at)[1]
    return certificate[at:inside(at)[1]]


def pin_of(certificate):
    return hashlib.sha256(public_key(certificate)).digest()


def context(ca=None, cert=None, key=None):
    """Returns a client's TLS context; without `ca` (PEM) it checks nothing."""
    made = ssl.create_default_context(cadata=ca)
    made.check_hostname = False
    made.set_alpn_protocols(["h2"])
    if ca is None:
        made.verify_mode = ssl.CERT_NONE
    if cert:
        made.load_cert_chain(cert, key)
    return made


def shake(plain, trust):
    return trust.wrap_socket(plain, server_hostname="rollcall")


def chain(port, host="127.0.0.1", trust=None):
    """Returns the certificates that a port presents, in DER, its own first."""
    with socket.create_connection((host, port), 60) as plain:
        with shake(plain, trust or context()) as wrapped:
            if hasattr(wrapped, "get_unverified_chain"):
                return wrapped.get_unverified_chain()
            # Public from Python 3.13 on. 1 means PEM, 2 means DER.
            return [c.public_bytes(2)
                    for c in wrapped._sslobj.get_unverified_chain()]


_pinned = {}


def pinned(pin, port, host="127.0.0.1"):
    """Returns the context of a client that trusts only this pin."""
    if pin not in _pinned:
        found = [c for c in chain(port, host) if pin_of(c) == pin]
        assert found, "no certificate there has this pin"
        _pinned[pin] = context(ssl.DER_cert_to_PEM_cert(found[0]))
    return _pinned[pin]


# --- HTTP/2 -------------------------------------------------------------------

def frame(kind, flags, stream, payload=b""):
    return (struct.pack(">I", len(payload))[1:] + bytes([kind, flags])
            + struct.pack(">I", stream) + payload)


def header(name, value):
    """Encodes a header field as a literal: not indexed, not compressed."""
    name, value = name.encode(), value.encode()
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def request(path, bearer=None, encoding=None, scheme="https"):
    """Returns the header fields of a gRPC request."""
    more = [("authorization", f"Bearer {bearer}")] if bearer else []
    if encoding:
        more.append(("grpc-encoding", encoding))
    return [(":method", "POST"), (":scheme", scheme), (":path", path),
            (":authority", "rollcall"), ("te", "trailers"),
            ("content-type", "application/grpc")] + more


def headers(stream, pairs):
    return frame(HEADERS, END_HEADERS, stream,
                 b"".join(header(*pair) for pair in pairs))


def grpc_message(body, compressed=False):
    return bytes([compressed]) + struct.pack(">I", len(body)) + body


class Stranger:
    """One client connection with one stream; plain until `open` or `shake`."""

    FRAME_MAX = 16384

    def __init__(self, port, host="127.0.0.1", deadline_s=60, trust=None,
                 source=None, connected=None):
        self.until = time.monotonic() + deadline_s
        self.socket = connected or socket.create_connection(
            (host, port), deadline_s, source and (source, 0))
        # The TLS context that checks the server's certificate.
        self.trust = trust or context()
        self.pending = b""
        # How many bytes we may still send, by stream; 0: the connection. And
        # how many on a new stream.
        self.credit, self.window = {0: 65535, 1: 65535}, 65535
        # The received part of messages that are not complete yet.
        self.body = b""
        self.ended = None

    def raw(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # The daemon has closed the connection, as tests expect.

    def shake(self):
        """Does the TLS handshake; raises ssl.SSLError or OSError."""
        if not isinstance(self.socket, ssl.SSLSocket):
            self.socket = shake(self.socket, self.trust)
        return self

    def open(self, path="/rollcall.v1.Membership/Attend", bearer=None,
             plain=False, encoding=None):
        if not plain:
            self.shake()
        self.raw(PREFACE + frame(SETTINGS, 0, 0) + headers(1, request(
            path, bearer, encoding, "http" if plain else "https")))
        return self

    def call(self, stream, path, bearer=None):
        """Starts another request; `send` may then write to its stream."""
        self.raw(headers(stream, request(path, bearer)))
        self.credit[stream] = self.window

    def say(self, message, compressed=False):
        """Sends one message, in as many frames as the daemon's windows allow.
        `compressed` says that it has the encoding that `open` was given."""
        left = grpc_message(message, compressed)
        while left:
            sent = self.send(left)
            if not sent:
                return self
            left = left[sent:]
        return self

    def learn_window(self):
        """Returns when the daemon has told its window for new streams."""
        while self.window == 65535:
            assert self._next() is not None, self.ended
        return self

    def introduce(self, join, node):
        """Shows a token, and begins a message of 128 KiB. Returns when the
        daemon's window allows that, so the client may send more from now on."""
        self.learn_window().say(introduction(join, node))
        left = b"\0" + struct.pack(">I", 1 << 17) + bytes(8000)
        while left:
            sent = self.send(left)
            assert sent, self.ended
            left = left[sent:]
        return self

    def half_close(self):
        """Ends our side of the stream: we send no more messages."""
        self.raw(frame(DATA, END_STREAM, 1))
        return self

    def send(self, data, stream=1):
        """Sends as much of `data` as one frame and the daemon's windows allow;
        waits while the windows allow nothing. Returns the number of bytes sent,
        or 0 if the stream or the connection has ended."""
        while True:
            most = min(self.FRAME_MAX, self.credit[0], self.credit[stream])
            if most > 0:
                break
            if self._next() is None or self.ended is not None:
                return 0
        self.raw(frame(DATA, 0, stream, data[:most]))
        for credited in (0, stream):
            self.credit[credited] -= len(data[:most])
        return len(data[:most])

    def _next(self):
        """Returns the next frame (kind, payload), or None at the connection's
        end.

        Answers SETTINGS and PING frames as HTTP/2 requires.
        """
        while True:
            if len(self.pending) >= 9:
                size = int.from_bytes(self.pending[:3], "big")
                if len(self.pending) >= 9 + size:
                    break
            self.socket.settimeout(max(0.01, self.until - time.monotonic()))
            try:
                data = self.socket.recv(1 << 16)
            except (ConnectionError, ssl.SSLError):
                data = b""
            if not data:
                self.ended = "closed" if self.ended is None else self.ended
                return None
            self.pending += data
        kind, flags = self.pending[3], self.pending[4]
        stream = int.from_bytes(self.pending[5:9], "big")
        payload = self.pending[9:9 + size]
        self.pending = self.pending[9 + size:]
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[at:at + 6])
                if name == INITIAL_WINDOW:
                    for open_stream in self.credit.keys() - {0}:
                        self.credit[open_stream] += value - self.window
                    self.window = value
            self.raw(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.raw(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE and stream in self.credit:
            self.credit[stream] += int.from_bytes(payload, "big")
        self._note_end(kind, payload)
        return kind, payload

    def _note_end(self, kind, payload):
        if self.ended is not None:
            return
        if kind == HEADERS:
            found = re.search(rb"grpc-status.(\d{1,2})", payload, re.S)
            if found:
                self.ended = int(found[1][:payload[found.start() + 11]])
        elif kind == RST_STREAM:
            self.ended = "reset"
        elif kind == GOAWAY:
            self.ended = "closed"

    def end(self):
        """Returns how the stream ended: a gRPC code, "reset" or "closed"."""
        while self.ended is None:
            self._next()
        return self.ended

    def rest(self):
        """Reads until the daemon closes the connection; fails if it does not.
        """
        while True:
            self.socket.settimeout(max(0.01, self.until - time.monotonic()))
            try:
                if not self.socket.recv(1 << 16):
                    return None
            except (ConnectionError, ssl.SSLError):
                return None

    def message(self):
        """Returns the daemon's next message, serialized; None at the end."""
        while True:
            size = int.from_bytes(self.body[1:5], "big")
            if len(self.body) >= 5 + size and len(self.body) >= 5:
                found, self.body = self.body[5:5 + size], self.body[5 + size:]
                return found
            if self.ended is not None:
                return None
            kind, payload = self._next() or (GOAWAY, b"")
            if kind == DATA:
                self.body += payload
            elif kind == GOAWAY:
                return None

    def welcome(self):
        """Waits for the daemon's first message, a Welcome, and returns its
        fields as a dictionary; None if the stream ended."""
        message = self.message()
        return message and dict(fields(dict(fields(message))[1]))

    def close(self):
        self.socket.close()
