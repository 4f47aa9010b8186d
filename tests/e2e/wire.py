"""A stranger's view of the port: HTTP/2, gRPC and protobuf by hand.

Just enough of each to say what no proper client would: forged, oversized,
half-sent and out-of-order messages. Reads the status that ends a stream. No
more: it opens one stream a connection.
"""
import base64
import os
import re
import socket
import struct
import time

OK, CANCELLED, INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS = 0, 1, 3, 5, 6
PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION = 7, 8, 9
ABORTED, INTERNAL, UNAVAILABLE, UNAUTHENTICATED = 10, 13, 14, 16

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
WINDOW_UPDATE, INITIAL_WINDOW = 8, 4
ACK, END_HEADERS = 1, 4
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
    """[(number, int or bytes)] of a serialized message."""
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


class Join:
    """What a join string says: endpoints, job, token (id, secret)."""

    def __init__(self, text):
        body = text.split(".", 1)[1]
        raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        parts = fields(raw)
        self.endpoints = [v.decode() for n, v in parts if n == 1]
        self.job = dict(parts)[2].decode()
        token = dict(fields(dict(parts)[4]))
        self.token_id, self.secret = token[1].decode(), token[2]

    def port(self):
        return int(self.endpoints[0].rsplit(":", 1)[1])

    def text(self):
        raw = b"".join(field(1, e) for e in self.endpoints)
        raw += field(2, self.job)
        raw += field(4, field(1, self.token_id) + field(2, self.secret))
        return "rc0." + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def hello(join, node, **changes):
    """A serialized AgentMessage with a Hello that would be let in."""
    values = dict(
        job=join.job, run="", node=node,
        incarnation=int.from_bytes(os.urandom(7), "big") + 1,
        token=field(1, join.token_id) + field(2, join.secret),
        facts=field(1, node) + field(2, field(1, "eth0") + field(
            2, field(1, "10.99.0.1") + field(2, 24)) + field(5, 1)
            + field(6, 1)) + field(7, "boot-of-" + node[:20]),
        ranks=1, version="0.1.0")
    values.update(changes)
    numbers = dict(job=1, run=2, node=3, incarnation=4, token=5, facts=7,
                   ranks=8, command_digest=9, settings=10, launcher=11,
                   version=14)
    body = b"".join(field(numbers[k], v) for k, v in values.items()
                    if v not in ("", None))
    return field(1, body)


HEARTBEAT = field(2, field(1, 1))


def prepared(generation):
    return field(4, field(1, generation))


# --- HTTP/2 -------------------------------------------------------------------

def frame(kind, flags, stream, payload=b""):
    return (struct.pack(">I", len(payload))[1:] + bytes([kind, flags])
            + struct.pack(">I", stream) + payload)


def header(name, value):
    """Literal, never indexed, uncompressed."""
    name, value = name.encode(), value.encode()
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def grpc_message(body):
    return b"\0" + struct.pack(">I", len(body)) + body


class Stranger:
    """One connection, one Attend stream."""

    FRAME_MOST = 16384

    def __init__(self, port, host="127.0.0.1", deadline_s=60):
        self.until = time.monotonic() + deadline_s
        self.socket = socket.create_connection((host, port), deadline_s)
        self.pending = b""
        # Bytes that we may still send: on the connection, on the stream.
        self.credit = {0: 65535, 1: 65535}

    def raw(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # The daemon hung up on us: what the tests want to see.

    def open(self, path="/rollcall.v1.Membership/Attend"):
        self.raw(PREFACE + frame(SETTINGS, 0, 0) + frame(
            HEADERS, END_HEADERS, 1, b"".join(
                header(*pair) for pair in [
                    (":method", "POST"), (":scheme", "http"), (":path", path),
                    (":authority", "rollcall"), ("te", "trailers"),
                    ("content-type", "application/grpc")])))
        return self

    def say(self, message):
        """One message, in as many frames as the daemon's windows allow."""
        left = grpc_message(message)
        while left:
            most = min(self.FRAME_MOST, *self.credit.values())
            if most <= 0:
                if self._next() is None:
                    return self
                continue
            self.raw(frame(DATA, 0, 1, left[:most]))
            for stream in self.credit:
                self.credit[stream] -= len(left[:most])
            left = left[most:]
        return self

    def _next(self):
        """The next frame (kind, payload), None at the connection's end.

        Answers by itself what a peer must answer.
        """
        while True:
            if len(self.pending) >= 9:
                size = int.from_bytes(self.pending[:3], "big")
                if len(self.pending) >= 9 + size:
                    break
            self.socket.settimeout(max(0.01, self.until - time.monotonic()))
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
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
                    self.credit[1] += value - 65535
            self.raw(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.raw(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE and stream in self.credit:
            self.credit[stream] += int.from_bytes(payload, "big")
        return kind, payload

    def end(self):
        """How the stream ended: a gRPC code, or "reset" or "closed"."""
        while True:
            kind, payload = self._next() or (GOAWAY, b"")
            if kind == HEADERS:
                found = re.search(rb"grpc-status.(\d{1,2})", payload, re.S)
                if found:
                    return int(found[1][:payload[found.start() + 11]])
            elif kind == RST_STREAM:
                return "reset"
            elif kind == GOAWAY:
                return "closed"

    def rest(self):
        """Reads until the daemon hangs up: None; fails where it does not."""
        while True:
            self.socket.settimeout(max(0.01, self.until - time.monotonic()))
            try:
                if not self.socket.recv(1 << 16):
                    return None
            except ConnectionError:
                return None

    def welcome(self):
        """Waits for the first message of the daemon: True; False: its end."""
        while True:
            kind, payload = self._next() or (GOAWAY, b"")
            if kind == DATA and payload:
                return True
            if kind in (RST_STREAM, GOAWAY) or (
                    kind == HEADERS and b"grpc-status" in payload):
                return False

    def close(self):
        self.socket.close()
