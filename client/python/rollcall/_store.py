"""Store: the key-value store that all ranks of a generation share."""

import os
import time
from typing import (Callable, Dict, Iterable, List, Mapping, NamedTuple,
                    Optional, Sequence, Tuple, Union)

from . import _wire, errors
from ._connection import STORE, Connection
from ._monitor import Monitor
from ._wire import Message, Writer

Key = Union[str, bytes]
Value = Union[str, bytes]

# StoreKind.
_SET, _GET, _WAIT, _CHECK, _ADD, _COMPARE_SET, _DELETE, _NUM_KEYS = range(1, 9)

# Operations of one call under way at once; the agent takes 256 of a rank.
_WINDOW = 64
_INT64_MAX = (1 << 63) - 1


class _Operation(NamedTuple):
    kind: int
    key: bytes = b""
    value: bytes = b""
    expected: bytes = b""
    delta: int = 0


class _Result(NamedTuple):
    number: int
    value: Optional[bytes]


class Store:
    """Make it with `Rank.store`. Keys are 1 to 1,024 bytes, values at most 1
    MiB; a str is sent as UTF-8. The keys that one node's ranks have made may
    take 16 MiB, and all together 64 MiB.

    It lives as long as the generation: it outlives ranks, and restarts of the
    daemon. Each change is applied once. A read that starts after the change was
    answered returns it or a later value. While the daemon is away, and after a
    restart until all nodes are back, every operation waits.

    Any thread may call any function; one rank may have 256 operations under
    way. All of them raise Aborted if the generation has ended, Lost if the
    agent is gone, Refused with code RESOURCE_EXHAUSTED if there is no room
    (make some and go on), Error with code UNAVAILABLE if the agent is behind
    with its work (try again), and ValueError for a wrong argument. Those with a
    `timeout` in seconds (None: never) raise TimedOut after it.
    """

    def __init__(self, backend: "Union[RemoteStore, LocalStore]") -> None:
        self._backend = backend

    def set(self, key: Key, value: Value) -> None:
        """Gives the key this value, in place of the one that it has."""
        self._do(_Operation(_SET, _key(key), _value(key, value)))

    def get(self, key: Key, timeout: Optional[float] = None) -> bytes:
        """Waits until the key exists, and returns its value."""
        return self.multi_get([key], timeout)[0]

    def wait(self, keys: Iterable[Key], timeout: Optional[float] = None) -> None:
        """Waits until all of these exist."""
        self._do_all([_Operation(_WAIT, _key(key)) for key in _many(keys)],
                     timeout)

    def check(self, keys: Iterable[Key]) -> bool:
        """Whether all of these exist now."""
        return all(result.number == 1 for result in self._do_all(
            [_Operation(_CHECK, _key(key)) for key in _many(keys)]))

    def add(self, key: Key, delta: int) -> int:
        """Adds to the key's value, a decimal number (0 if it does not exist),
        and returns the sum."""
        if not isinstance(delta, int) or not (
                -_INT64_MAX - 1 <= delta <= _INT64_MAX):
            raise ValueError(f"add: expected a number of 64 bits, got {delta}")
        return self._do(_Operation(_ADD, _key(key), delta=delta)).number

    def compare_set(self, key: Key, expected: Value, desired: Value) -> bytes:
        """Sets `desired` if the value is `expected`, or if `expected` is empty
        and the key does not exist. Returns the value that the key has then;
        `expected` if it does not exist."""
        want = _value(key, expected)
        swapped, there = self._swap(key, want, _value(key, desired,
                                                      beside=len(want)))
        return want if there is None and not swapped else there or b""

    def append(self, key: Key, value: Value) -> None:
        """Adds to the end of the value, which is empty if there is none. At
        most half of the largest value."""
        data = _value(key, value)
        swapped, there = self._swap(key, b"", data)
        while not swapped:
            want = there or b""
            swapped, there = self._swap(
                key, want, _value(key, want + data, beside=len(want)))

    def _swap(self, key: Key, expected: bytes,
              desired: bytes) -> Tuple[bool, Optional[bytes]]:
        """Whether it is set, and what the key has then; None: nothing."""
        result = self._do(_Operation(_COMPARE_SET, _key(key), desired,
                                     expected))
        if result.number == 1:
            return True, desired
        return False, result.value

    def delete(self, key: Key) -> bool:
        """Removes the key; whether it existed."""
        return self._do(_Operation(_DELETE, _key(key))).number == 1

    def num_keys(self) -> int:
        """How many keys exist."""
        return self._do(_Operation(_NUM_KEYS)).number

    def multi_set(self, values: Mapping[Key, Value]) -> None:
        """Sets each of these. Not atomic: after an error, some may be set."""
        self._do_all([_Operation(_SET, _key(key), _value(key, value))
                      for key, value in values.items()])

    def multi_get(self, keys: Sequence[Key],
                  timeout: Optional[float] = None) -> List[bytes]:
        """The value of each key, once it exists. Not atomic."""
        return [result.value or b"" for result in self._do_all(
            [_Operation(_GET, _key(key)) for key in _many(keys)], timeout)]

    def _do(self, operation: _Operation) -> _Result:
        return self._do_all([operation])[0]

    def _do_all(self, operations: List[_Operation],
                timeout: Optional[float] = None) -> List[_Result]:
        until = None if timeout is None else time.monotonic() + timeout
        results: List[_Result] = []
        for at in range(0, len(operations), _WINDOW):
            left = None if until is None else max(0, until - time.monotonic())
            results += self._backend.do(operations[at:at + _WINDOW], left)
        return results


def _many(keys: Iterable[Key]) -> Iterable[Key]:
    if isinstance(keys, (str, bytes)):
        raise ValueError(f"expected a list of keys, got {keys!r:.200}; write "
                         f"[{keys!r:.200}]")
    return keys


def bytes_of(what: str, value: Value) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise ValueError(f"expected {what} of str or bytes, got {value!r:.200}")
    return bytes(value)


def _key(key: Key) -> bytes:
    data = bytes_of("a key", key)
    if not 1 <= len(data) <= _wire.STORE_KEY_BYTES_MAX:
        raise ValueError("expected a key of 1 to "
                         f"{_wire.STORE_KEY_BYTES_MAX} bytes, got one of "
                         f"{len(data)}: {key!r:.200}")
    return data


def _value(key: Key, value: Value, beside: int = 0) -> bytes:
    data = bytes_of("a value", value)
    if len(data) + beside > _wire.STORE_VALUE_BYTES_MAX:
        raise ValueError(f"key {key!r:.200}: expected at most "
                         f"{_wire.STORE_VALUE_BYTES_MAX} bytes of values, got "
                         f"{len(data) + beside}")
    return data


class RemoteStore:
    """The operations as the agent does them."""

    def __init__(self, connection: Connection, generation: int,
                 raise_abort: Callable[[], None]) -> None:
        self._connection = connection
        self._generation = generation
        # Raises Aborted, once it is known why.
        self._raise_abort = raise_abort

    def do(self, operations: List[_Operation],
           timeout: Optional[float]) -> List[_Result]:
        connection = self._connection
        numbers = connection.ask(STORE, [
            lambda number, what=operation:  # type: ignore[misc]
            Writer().uint(1, number).uint(2, self._generation)
            .message(3, _encode(what)) for operation in operations])
        try:
            connection.wait(
                lambda: all(connection.answers[number] is not None
                            for number in numbers), timeout,
                f"store: no answer for {_named(operations)}")
            answers = [connection.answers[number] for number in numbers]
        finally:
            for number in numbers:
                connection.forget(number, gives_up=True)
        return [self._result(operation, answer)
                for operation, answer in zip(operations, answers)]

    def _result(self, operation: _Operation,
                answer: Optional[Message]) -> _Result:
        assert answer is not None
        result = answer.message(2)
        code = result.uint(1)
        if errors.CODES.get(code) == "ABORTED":
            self._raise_abort()
        if code:
            raise errors.error_of(
                code, f"store: {_named([operation])}: {result.text(2)}")
        return _Result(result.sint(4),
                       result.data(3) if result.has(3) else None)


def _encode(what: _Operation) -> Writer:
    return (Writer().uint(1, what.kind).data(2, what.key).data(3, what.value)
            .data(4, what.expected).sint(5, what.delta))


def _named(operations: List[_Operation]) -> str:
    if operations[0].kind == _NUM_KEYS:
        return "num_keys"
    first = operations[0].key
    more = f" and {len(operations) - 1} more" if len(operations) > 1 else ""
    return f"key {first!r:.200}{more}"


class LocalStore:
    """The same for a process without an agent: its threads share it."""

    def __init__(self) -> None:
        self._monitor = Monitor()
        self._values: Dict[bytes, bytes] = {}
        self._pid = os.getpid()

    def do(self, operations: List[_Operation],
           timeout: Optional[float]) -> List[_Result]:
        if os.getpid() != self._pid:
            raise errors.Lost("this process was forked from a rank and is none "
                              "itself; only the rank has the store")
        until = None if timeout is None else time.monotonic() + timeout
        return [self._one(operation, until) for operation in operations]

    def _one(self, what: _Operation, until: Optional[float]) -> _Result:
        if what.kind in (_GET, _WAIT):
            return _Result(0, self._await(what, until))
        with self._monitor.lock:
            return self._at_once(what)

    def _await(self, what: _Operation, until: Optional[float]) -> bytes:
        found: List[bytes] = []

        def finds() -> bool:
            if what.key in self._values:
                found.append(self._values[what.key])
            return bool(found)
        left = None if until is None else max(0, until - time.monotonic())
        if not self._monitor.await_true(finds, left):
            raise errors.TimedOut(f"store: no answer for {_named([what])} "
                                  f"within {left:g} s")
        return found[0]

    def _at_once(self, what: _Operation) -> _Result:
        """With the lock held."""
        values = self._values
        there = values.get(what.key)
        if what.kind == _CHECK:
            return _Result(int(there is not None), None)
        if what.kind == _NUM_KEYS:
            return _Result(len(values), None)
        number, value = self._change(what, there)
        if value is not None:
            values[what.key] = value
        self._monitor.notify_all()
        return _Result(number, there)

    def _change(self, what: _Operation,
                there: Optional[bytes]) -> Tuple[int, Optional[bytes]]:
        """The number of the result, and the value to set."""
        if what.kind == _DELETE:
            self._values.pop(what.key, None)
            return int(there is not None), None
        if what.kind == _COMPARE_SET:
            same = what.expected == (b"" if there is None else there)
            return int(same), what.value if same else None
        if what.kind == _SET:
            return 0, what.value
        text = b"0" if there is None else there
        total = what.delta
        if text.lstrip(b"+-").isdigit():
            total += int(text)
        if not text.lstrip(b"+-").isdigit() or not (
                -_INT64_MAX - 1 <= total <= _INT64_MAX):
            raise errors.Refused(
                f"store: {_named([what])}: cannot add {what.delta} to "
                f"{text!r:.200}: expected a decimal number and a sum of 64 bits")
        return total, str(total).encode()
