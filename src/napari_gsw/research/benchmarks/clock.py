"""Times that survive a busy machine: the least of many short turns, taken in turn with what they are compared with."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

# Turns that even the slowest call gets.
LEAST_TURNS = 3
# A clock that is good enough for a turn of some milliseconds.
FINE = 1e-4

Clock = Callable[[], float]


def working_clock() -> Clock:
    """For work on one core: it stands still while other processes have it, unlike the clock on the wall.

    A sweep over a million sites takes a second and is never left alone that long. Where processor time is not told
    finely (Windows), the wall has to do.
    """
    return time.process_time if time.get_clock_info("process_time").resolution < FINE else time.perf_counter


def time_fastest(
    calls: Mapping[str, Callable[[], object]],
    seconds: float,
    least: int = LEAST_TURNS,
    clock: Clock = time.perf_counter,
) -> dict[str, float]:
    """The shortest time of each call, in seconds.

    The calls go round, so that a spell in which the machine is busy with something else hits all of them alike. Each
    goes on until it has had `least` turns and its share of `seconds`.

    Examples
    --------
    >>> ticks = iter([0.0, 3.0, 3.0, 4.0, 4.0, 6.0, 6.0, 7.5])
    >>> fastest({"a": list, "b": list}, 0.0, least=2, clock=lambda: next(ticks))
    {'a': 2.0, 'b': 1.0}
    """
    spent = dict.fromkeys(calls, 0.0)
    turns = dict.fromkeys(calls, 0)
    best = dict.fromkeys(calls, float("inf"))
    while waiting := [c for c in calls if turns[c] < least or spent[c] < seconds / len(calls)]:
        for name in waiting:
            began = clock()
            calls[name]()
            took = clock() - began
            best[name] = min(best[name], took)
            spent[name] += took
            turns[name] += 1
    return best
