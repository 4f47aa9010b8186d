"""How many collectives this process has begun, as far as PyTorch counts them.

Does not import torch: a program that has not imported it has begun none.
"""

import sys
from typing import Any, Optional


def begun() -> Optional[int]:
    """Of torch.distributed's default group, which all ranks are in; None: there
    is none. All ranks count from the same number, which is 0 in PyTorch 2.
    Over Gloo, point-to-point operations are counted too. Any thread."""
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    try:
        group = c10d.GroupMember.WORLD
        return int(group._get_sequence_number_for_group())
    except (AttributeError, RuntimeError):
        # No torch, one without distributed, no group, or a backend that does
        # not count.
        return None
