"""How long a thread that computes in Python keeps a window waiting.

Every call into Qt lets go of Python's lock and takes it again afterwards. A thread that computes in Python meanwhile
hands it back after Python's *switch interval*, 5 ms unless somebody says otherwise: a panel of 800 such calls, which is
built in a fortieth of a second, takes four seconds beside one thread that does nothing else. With the interval here it
takes an eighth of a second, and three threads that do nothing but compute in Python are slower by a tenth.
"""

from __future__ import annotations

import sys

INTERVAL = 5e-5  # seconds


class ShortTurns:
    """Short turns from the first `begin` to the last `end`; then it is as it was, unless others have changed it."""

    def __init__(self) -> None:
        self._users = 0
        self._before = 0.0

    def begin(self) -> None:
        """There is a window more."""
        self._users += 1
        if self._users == 1:
            self._before = sys.getswitchinterval()
            sys.setswitchinterval(min(self._before, INTERVAL))

    def end(self) -> None:
        """There is a window less."""
        self._users -= 1
        if not self._users and sys.getswitchinterval() <= INTERVAL:
            sys.setswitchinterval(self._before)


SHORT_TURNS = ShortTurns()
