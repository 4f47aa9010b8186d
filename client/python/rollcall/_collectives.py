"""How many collectives this process has begun, as far as PyTorch counts them.

Does not import torch: a program that has not imported it has begun none.
"""

import json
import sys
from typing import Any, Optional


def begun(ranks: int) -> Optional[int]:
    """Of torch.distributed's default group, if that has so many ranks; None:
    not known. The first one may have any number. Any thread; takes up to some
    10 ms.

    Over NCCL, PyTorch 2.4 and newer have a counter of collectives alone. Over
    Gloo theirs counts point-to-point operations too, so that ranks which do
    different ones could not be compared; there the flight recorder has the
    number (the latest 2000 collectives; PyTorch 2.9 and newer).
    """
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    recorder: Any = sys.modules.get("torch._C._distributed_c10d")
    try:
        group = c10d.GroupMember.WORLD
        if group.size() != ranks:
            return None
        backend = c10d.get_backend(group)
        if backend == "nccl" and hasattr(recorder, "_dump_nccl_trace_json"):
            return int(group._get_sequence_number_for_group())
        if backend == "gloo":
            return _last_recorded(
                json.loads(recorder._dump_fr_trace_json(True, False)))
        return None
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        # No torch, one without distributed or too old, or no group.
        return None


def _last_recorded(trace: Any) -> Optional[int]:
    """Of the default group that was made last."""
    recorded = trace.get("entries", [])
    last = max(((entry["pg_id"], entry["collective_seq_id"])
                for entry in recorded
                if entry["process_group"][1] == "default_pg"
                and not entry["is_p2p"]), default=None)
    if last is not None:
        return int(last[1])
    # Other groups' collectives may have taken the place of its own.
    return None if recorded else 0
