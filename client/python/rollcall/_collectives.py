"""How many collectives this process has begun, as far as PyTorch counts them.

Does not import torch: a program that has not imported it has begun none.
"""

import json
import sys
import threading
from typing import Any, Optional


class Counter:
    """Counts from the first step of each world on: after it, all ranks of the
    world are at the same place of the program. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ranks, self._stepped = 0, False
        self._before: Optional[int] = None

    def new_world(self, ranks: int) -> None:
        """The program enters a world of so many ranks."""
        with self._lock:
            self._ranks, self._stepped, self._before = ranks, False, None

    def stepped(self) -> None:
        """A step is done. The first one of a world takes up to some 10 ms."""
        with self._lock:
            if self._stepped:
                return
            self._stepped, ranks = True, self._ranks
        before = begun(ranks)
        with self._lock:
            if self._stepped and self._ranks == ranks:
                self._before = before

    def since_first_step(self) -> Optional[int]:
        """None: not known."""
        with self._lock:
            before, ranks = self._before, self._ranks
        if before is None:
            return None
        now = begun(ranks)
        # The count of a group that was made later begins at 0.
        return None if now is None or now < before else now - before


def begun(ranks: int) -> Optional[int]:
    """The collectives of torch.distributed's default group, if that has so many
    ranks and was made with the backend "nccl" or "gloo"; None: not known. Only
    differences between two calls are of use, since the first number of a group
    can be any. Any thread; takes up to some 10 ms.

    Over NCCL, PyTorch 2.4 and newer count collectives alone (not tested with
    PyTorch's `nccl2`). PyTorch's counter of a Gloo group includes
    point-to-point operations, and ranks that do different ones could not be
    compared. So over Gloo the number is from the flight recorder, which keeps
    the latest 2000 collectives (PyTorch 2.9 and newer).
    """
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    recorder: Any = sys.modules.get("torch._C._distributed_c10d")
    try:
        group = c10d.GroupMember.WORLD
        if group.size() != ranks:
            return None
        backend = c10d.get_backend(group)
        # PyTorch 2.4 has this function, and older ones do not.
        if backend == "nccl" and hasattr(recorder, "_dump_nccl_trace_json"):
            return int(group._get_sequence_number_for_group())
        if backend == "gloo":
            return _last_recorded(
                json.loads(recorder._dump_fr_trace_json(True, False)))
        return None
    except Exception:  # pylint: disable=broad-except
        # There is no torch, it has no distributed or is too old, or there is
        # no group. Nothing of this may end a training.
        return None


def _last_recorded(trace: Any) -> Optional[int]:
    """The number of the latest collective of the latest default group."""
    recorded = trace.get("entries", [])
    last = max(((entry["pg_id"], entry["collective_seq_id"])
                for entry in recorded
                if entry["process_group"][1] == "default_pg"
                and not entry["is_p2p"]), default=None)
    if last is not None:
        return int(last[1])
    # Collectives of other groups may have taken the place of its own.
    return None if recorded else 0
