"""What an agent tells its rank: the world, notices, aborts. Values."""

import enum
from dataclasses import dataclass
from typing import Optional, Tuple

from ._wire import Message, WireError


class NoticeKind(enum.IntEnum):
    """Why a step boundary is asked for."""

    UNSPECIFIED = 0
    PREEMPT = 1  # The job ends for requeue.
    DRAIN = 2  # Some nodes leave; the others continue.
    GROW = 3  # Newcomers are taken in.

    @classmethod
    def _missing_(cls, value: object) -> "NoticeKind":
        return cls.UNSPECIFIED  # From a newer agent.


@dataclass(frozen=True)
class Notice:
    """The ranks are to agree on a step, and to stop after it."""

    number: int
    kind: NoticeKind
    reason: str
    generation: int
    # The time that was left when it came; None: there is no deadline.
    seconds: Optional[float]


@dataclass(frozen=True)
class Abort:
    """A generation has ended."""

    generation: int
    reason: str


@dataclass(frozen=True)
class Node:
    """One node of a world; its ranks are first_rank to first_rank + ranks - 1."""

    name: str
    node_rank: int
    first_rank: int
    ranks: int
    # What its peers reach it by, and all that it has.
    address: str
    addresses: Tuple[str, ...]
    hostname: str


@dataclass(frozen=True)
class StateSource:
    """Whose training state counts in this world, and of which step."""

    rank: int
    step: int


@dataclass(frozen=True)
class World:
    """One agreed world, as one rank sees it.

    `generation` grows from world to world and is never used again; 0: there is
    no agent, and this process is a world of its own.
    """

    job: str
    run: str
    generation: int
    rank: int
    size: int
    local_rank: int
    node_rank: int
    nodes: Tuple[Node, ...]
    # Of node rank 0. The port is free on its node; 0: there is no agent.
    master_address: str
    master_port: int
    nccl_ids: Tuple[bytes, ...]
    # None: no rank has a state yet.
    state_source: Optional[StateSource]
    # Worlds that a failure has ended, of those that the job may have.
    restarts: int
    restarts_max: int
    # Variables of the network plan for this node, and their values. Empty if the
    # agent started this process, since they are in its environment.
    network: Tuple[Tuple[str, str], ...] = ()

    @property
    def node(self) -> Node:
        """The node that this rank runs on."""
        return self.nodes[self.node_rank]

    @property
    def local_size(self) -> int:
        """How many ranks this node has."""
        return self.node.ranks


def world_of_one(hostname: str) -> World:
    """The world of a process that has no agent."""
    node = Node(name=hostname, node_rank=0, first_rank=0, ranks=1,
                address="127.0.0.1", addresses=("127.0.0.1",),
                hostname=hostname)
    return World(job="", run="", generation=0, rank=0, size=1, local_rank=0,
                 node_rank=0, nodes=(node,), master_address="127.0.0.1",
                 master_port=0, nccl_ids=(), state_source=None, restarts=0,
                 restarts_max=0)


def parse_world(message: Message) -> World:
    """A RankWorld. WireError: it says nothing that can be true."""
    table, commit = message.message(1), message.message(2)
    source = commit.message(7)
    world = World(
        job=table.text(1), run=table.text(2), generation=table.uint(3),
        rank=message.uint(5), size=table.uint(5), local_rank=message.uint(4),
        node_rank=message.uint(3),
        nodes=tuple(_parse_node(node) for node in table.messages(4)),
        master_address=commit.text(2), master_port=commit.uint(3),
        nccl_ids=commit.all_data(4),
        state_source=StateSource(source.uint(1), source.uint(2))
        if commit.has(7) else None,
        restarts=table.uint(6), restarts_max=table.uint(7),
        network=tuple((variable.text(1), variable.text(2))
                      for variable in message.messages(6)))
    if world.node_rank >= len(world.nodes) or world.rank >= world.size:
        raise WireError(
            f"a world of {len(world.nodes)} nodes and {world.size} ranks in "
            f"which this is node rank {world.node_rank}, rank {world.rank}")
    return world


def _parse_node(message: Message) -> Node:
    return Node(name=message.text(1), node_rank=message.uint(2),
                first_rank=message.uint(4), ranks=message.uint(5),
                address=message.text(6), addresses=message.all_text(7),
                hostname=message.text(13))


def parse_notice(message: Message) -> Notice:
    """A RankNotice."""
    left = message.message(3)
    return Notice(number=message.uint(1), kind=NoticeKind(message.uint(2)),
                  reason=message.text(4), generation=message.uint(5),
                  seconds=left.uint(1) + left.uint(2) / 1e9
                  if message.has(3) else None)


def parse_abort(message: Message) -> Abort:
    """A RankAbort."""
    return Abort(generation=message.uint(1), reason=message.text(3))
