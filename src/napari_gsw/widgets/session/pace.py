"""How often to draw: as often as is nice to look at, but never so often that drawing is all the computer does."""

from __future__ import annotations

import math
import time

# After a picture the painter rests so many times longer than it took to paint, at least and at most. Where there is no
# graphics card, painting takes as much of the processor as the chain does. At first, when most of the picture changes,
# a chain that makes a hundred sweeps a second can spare that, and is nice to look at; one that takes a tenth of a
# second for a sweep comes first. Later any chain does.
EAGER_REST, LEAST_REST, MOST_REST = 0.8, 10.0, 14.0
# Later pictures are so many times as far apart at least, even where painting costs nothing: they have to be made, too.
# With the time between two looks that is about ten a second.
CALM = 1.2
# For how long after a beginning or a correction pictures come first, in seconds.
EAGER_FOR = 4.0
# A sweep of so many seconds is worth a rest as long as the picture took.
QUICK_SWEEP = 0.01
# So many times what the picture before has cost, or what is next to nothing (in seconds), no picture costs by itself.
UNUSUAL, NOTHING = 8.0, 0.05


class Pace:
    """Decides when the next picture is due, from how long the last one took to reach the screen.

    Qt does not say when a picture has been painted; but while it paints, it does not come back to us. So the time from
    a picture to the next look, beyond the usual time between two looks, is what painting has cost. Something else may
    have held the window up meanwhile: what is far above the picture before counts only when it comes again.

    Parameters
    ----------
    every : shortest time between two pictures at first, in seconds.
    usual : time between two looks when there is nothing to paint.
    lines : time from one turn of what is written beside the picture to the next.
    """

    def __init__(self, every: float, usual: float, lines: float) -> None:
        self.every, self.usual, self.lines = every, usual, lines
        self._lines_due = 0.0
        self._next = 0.0
        self._began: float | None = None
        self._cost = math.inf
        self._eager_until = 0.0

    def be_eager(self) -> None:
        """Much is going to change."""
        self._eager_until = time.perf_counter() + EAGER_FOR

    @property
    def painted(self) -> bool:
        """Whether this is the first look after a picture: a frame is asked for now, and not before.

        A chain that comes to a frame while the window is painted would have to wait until that is over.
        """
        return self._began is not None

    def due(self, sweep: float = 0.0) -> bool:
        """Whether to draw now; to be asked at every look. `sweep` is the time that a sweep takes, in seconds."""
        now = time.perf_counter()
        if self._began is not None:
            before, cost = self._cost, max(0.0, now - self._began - self.usual)
            self._cost = cost
            cost = before if cost > UNUSUAL * max(before, NOTHING) else cost
            eager = now < self._eager_until
            rest = min(max(sweep / QUICK_SWEEP, EAGER_REST if eager else LEAST_REST), MOST_REST)
            self._next = max(self._began + self.every * (1 if eager else CALM), now + rest * cost)
            self._began = None
        return now >= self._next

    def turn_of_lines(self) -> bool:
        """Whether it is the turn of what is written, which is then taken."""
        turn = time.perf_counter() > self._lines_due
        if turn:
            self.postpone_lines()
        return turn

    def postpone_lines(self) -> None:
        """What is written has its turn later."""
        self._lines_due = time.perf_counter() + self.lines

    def correct(self) -> None:
        """Somebody has stepped in: what follows from it is drawn first, and often."""
        self.postpone_lines()
        self.be_eager()

    def drawn(self) -> None:
        """A picture has just been handed to Qt."""
        self._began = time.perf_counter()
