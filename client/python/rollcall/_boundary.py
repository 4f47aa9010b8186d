"""Boundary: the step after which all ranks of a world stop for its notices, and
what this rank has to do about it. Pure: it waits for nothing and sends nothing.

The first rank that sees a notice names the boundary in the world's store: the step
after its own, or its own if its training function has returned. Ranks are at most
one step apart, and a rank cannot finish a step without the others, so no rank is
past it.
"""

import enum
from typing import Optional


class Due(enum.Enum):
    """What a rank that knows of a notice has to do."""

    NOTHING = 0  # It has answered, or will when it comes to the boundary.
    NAME = 1  # Ask the store for the boundary, or name it.
    ANSWER = 2  # It stands at the boundary.
    # It has done the boundary's step and gone on: the notice came too late for
    # it. It may wait in a collective of the next step, which the others do not
    # begin.
    FREE = 3


class Boundary:
    """One value for all worlds of a process. Not thread-safe."""

    def __init__(self) -> None:
        self.generation = 0  # 0: in no world.
        self.done = 0  # The last step that this rank has done.
        self.step: Optional[int] = None  # Of this world; None: not known yet.
        # The training thread does what is due itself: it is in `commit`, or has
        # not begun to train in this world.
        self.is_busy = False
        # The training function has returned. The rank stands at every boundary.
        self.returned = False
        self._answered = 0  # The number of the notice answered last.
        self._stands = False  # The rank has answered a notice of this world.

    def enter(self, generation: int) -> None:
        """The rank is in a world, and takes the state over."""
        self.generation, self.step, self.is_busy = generation, None, True
        self.returned = self._stands = False

    def begin(self, done: int) -> None:
        """It trains, from the state after step `done` on."""
        self.done, self.is_busy = done, False

    def leave(self) -> None:
        """The world has ended for this rank."""
        self.generation = 0

    def proposal(self) -> int:
        """The boundary, if this rank is the one that names it."""
        return self.done if self.returned else self.done + 1

    def is_reached(self) -> bool:
        return self.step is not None and self.done >= self.step

    def answer(self, notice: int) -> bool:
        """The rank stands at the boundary and answers the notice with this
        number. False: it has answered that one before."""
        if self._answered == notice:
            return False
        self._answered, self._stands = notice, True
        return True

    def due(self, notice: int) -> Due:
        """What another thread than the training thread has to do about the
        latest notice, of this number."""
        if self.generation == 0 or self.is_busy or self._answered == notice:
            return Due.NOTHING
        if self.step is None:
            return Due.NAME
        if self.returned or self._stands:
            return Due.ANSWER
        return Due.FREE if self.is_reached() else Due.NOTHING
