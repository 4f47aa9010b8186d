"""The messages of rank.proto as bytes: protobuf's wire format, as much of it as
a rank needs, and the lengths around it.

Pure: no socket, no thread. What is malformed raises WireError, and nothing
else; fields that are not known are passed over.
"""

import struct
from typing import Dict, List, Optional, Tuple, Union

VERSION = 1

# Of a message from a rank and of one from its agent; frames.h has both.
RANK_MESSAGE_BYTES_MAX = (1 << 20) + (16 << 10)
AGENT_REPLY_BYTES_MAX = 68 << 20

EXCHANGE_VALUE_BYTES_MAX = 4 << 10
EXCHANGE_KEY_BYTES_MAX = 128
STORE_KEY_BYTES_MAX = 1 << 10
STORE_VALUE_BYTES_MAX = 1 << 20
REASON_BYTES_MAX = 4 << 10
STEP_MAX = 1 << 53

_HEADER = struct.Struct(">I")
_DOUBLE = struct.Struct("<d")
_FIXED64 = struct.Struct("<Q")
_FIXED32 = struct.Struct("<I")

_VARINT, _I64, _BYTES, _I32 = 0, 1, 2, 5
_UINT64 = (1 << 64) - 1


class WireError(Exception):
    """Bytes that no agent sends."""


class Writer:
    """A message that is built field by field, in any order.

    As in proto3, a field that has its default is left out; `always` sends it
    even so, which an `optional` field needs.
    """

    def __init__(self) -> None:
        self._bytes = bytearray()

    def _varint(self, value: int) -> None:
        while value > 0x7F:
            self._bytes.append(value & 0x7F | 0x80)
            value >>= 7
        self._bytes.append(value)

    def uint(self, number: int, value: int, always: bool = False) -> "Writer":
        if not 0 <= value <= _UINT64:
            raise ValueError(f"expected 0 to 2^64 - 1, got {value}")
        if value or always:
            self._varint(number << 3 | _VARINT)
            self._varint(value)
        return self

    def sint(self, number: int, value: int) -> "Writer":
        """Of 64 bits, negative ones in as few bytes as positive ones."""
        return self.uint(number, (value << 1) ^ (value >> 63))

    def double(self, number: int, value: float) -> "Writer":
        """An `optional` field: 0.0 is sent."""
        self._varint(number << 3 | _I64)
        self._bytes += _DOUBLE.pack(value)
        return self

    def data(self, number: int, value: bytes, always: bool = False) -> "Writer":
        if value or always:
            self._varint(number << 3 | _BYTES)
            self._varint(len(value))
            self._bytes += value
        return self

    def text(self, number: int, value: str) -> "Writer":
        # A lone surrogate (a file name, say) is no valid text on the wire.
        return self.data(number, value.encode("utf-8", "replace"))

    def message(self, number: int, value: "Writer") -> "Writer":
        return self.data(number, bytes(value._bytes), always=True)

    def frame(self) -> bytes:
        """The message after its length."""
        return _HEADER.pack(len(self._bytes)) + bytes(self._bytes)


_Value = Union[int, bytes]


class Message:
    """A message that was received, by field number."""

    def __init__(self, data: bytes = b"") -> None:
        self._fields: Dict[int, List[_Value]] = {}
        at = 0
        while at < len(data):
            key, at = _read_varint(data, at)
            number, kind = key >> 3, key & 7
            if number == 0:
                raise WireError("a field with number 0")
            value: _Value
            if kind == _VARINT:
                value, at = _read_varint(data, at)
            elif kind in (_I64, _I32):
                shape = _FIXED64 if kind == _I64 else _FIXED32
                if len(data) - at < shape.size:
                    raise WireError("a field that ends too early")
                value = int(shape.unpack_from(data, at)[0])
                at += shape.size
            elif kind == _BYTES:
                size, at = _read_varint(data, at)
                if len(data) - at < size:
                    raise WireError("a field that ends too early")
                value = data[at:at + size]
                at += size
            else:
                raise WireError(f"a field of kind {kind}")
            self._fields.setdefault(number, []).append(value)

    def has(self, number: int) -> bool:
        return number in self._fields

    def uint(self, number: int) -> int:
        value = self._fields.get(number, [0])[-1]
        if not isinstance(value, int):
            raise WireError(f"field {number}: expected a number")
        return value

    def sint(self, number: int) -> int:
        value = self.uint(number)
        return (value >> 1) ^ -(value & 1)

    def double(self, number: int) -> float:
        return float(_DOUBLE.unpack(_FIXED64.pack(self.uint(number)))[0])

    def data(self, number: int) -> bytes:
        return self._all_data(number)[-1] if self.has(number) else b""

    def all_data(self, number: int) -> Tuple[bytes, ...]:
        return tuple(self._all_data(number)) if self.has(number) else ()

    def _all_data(self, number: int) -> List[bytes]:
        values = []
        for value in self._fields[number]:
            if not isinstance(value, bytes):
                raise WireError(f"field {number}: expected bytes")
            values.append(value)
        return values

    def text(self, number: int) -> str:
        return self.data(number).decode("utf-8", "replace")

    def all_text(self, number: int) -> Tuple[str, ...]:
        return tuple(value.decode("utf-8", "replace")
                     for value in self.all_data(number))

    def message(self, number: int) -> "Message":
        """Empty where it is not set. What comes in two parts is merged."""
        return Message(b"".join(self.all_data(number)))

    def messages(self, number: int) -> List["Message"]:
        return [Message(value) for value in self.all_data(number)]


def _read_varint(data: bytes, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise WireError("a number that ends too early")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _UINT64, at
        shift += 7
        if shift > 63:
            raise WireError("a number of over ten bytes")


class FrameReader:
    """Cuts a stream of bytes, in whatever pieces they come, into messages."""

    def __init__(self, bytes_max: int = AGENT_REPLY_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._pieces: List[bytes] = []
        self._held = 0

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._held += len(piece)

    def next(self) -> Optional[Message]:
        """The next message; None: more bytes are needed."""
        if self._held < _HEADER.size:
            return None
        # Joined only where it can help: a large world comes in many pieces.
        if len(self._pieces[0]) < _HEADER.size:
            self._join()
        size = int(_HEADER.unpack_from(self._pieces[0])[0])
        if size > self._bytes_max:
            raise WireError(f"a message of {size} bytes; expected at most "
                            f"{self._bytes_max}")
        whole = _HEADER.size + size
        if self._held < whole:
            return None
        self._join()
        data = self._pieces[0]
        self._pieces = [data[whole:]]
        self._held -= whole
        return Message(data[_HEADER.size:whole])

    def _join(self) -> None:
        if len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)]
