"""What this package raises, beside ValueError for a wrong argument."""


class Error(Exception):
    """Base class of all errors. `code`: the name of a gRPC status code."""

    code = "UNKNOWN"

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        if code:
            self.code = code


class Aborted(Error):
    """The generation has ended. Tear the communicator down, and call
    `Rank.next_world`; a rank that is not elastic ends."""

    code = "ABORTED"


class Lost(Error):
    """The agent is gone: no agent supervises this process any more. End."""

    code = "UNAVAILABLE"


class Refused(Error):
    """The agent has ended the connection, or refused a value, and says why: a
    mistake of the program, or another process took this rank's place. End; with
    code RESOURCE_EXHAUSTED from the store, make room and go on."""

    code = "INVALID_ARGUMENT"


class TimedOut(Error, TimeoutError):
    """The caller's timeout has passed."""

    code = "DEADLINE_EXCEEDED"


CODES = {1: "CANCELLED", 3: "INVALID_ARGUMENT", 8: "RESOURCE_EXHAUSTED",
         9: "FAILED_PRECONDITION", 10: "ABORTED", 13: "INTERNAL",
         14: "UNAVAILABLE"}


def error_of(code: int, text: str) -> Error:
    """For an answer of the agent that refuses a request."""
    name = CODES.get(code, "UNKNOWN")
    if name == "ABORTED":
        return Aborted(text)
    if name in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"):
        return Refused(text, name)
    return Error(text, name)
