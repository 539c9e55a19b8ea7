"""Times that a busy machine hardly disturbs, and a description of the machine."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from napari_gsw.core.threads import count_cores
from napari_gsw.core.versions import collect_versions

# Repetitions that even the slowest call gets.
MIN_REPEATS = 3
# Resolution of a clock that is good enough for some milliseconds.
FINE_RESOLUTION = 1e-4

Clock = Callable[[], float]


def choose_clock() -> Clock:
    """Choose the clock for work on one core: processor time, or wall time where that is too coarse (Windows)."""
    is_fine = time.get_clock_info("process_time").resolution < FINE_RESOLUTION
    return time.process_time if is_fine else time.perf_counter


def time_fastest(
    calls: Mapping[str, Callable[[], object]],
    seconds: float,
    min_repeats: int = MIN_REPEATS,
    clock: Clock = time.perf_counter,
) -> dict[str, float]:
    """Measure the shortest time of each call, in seconds.

    The calls alternate, so that other work of the machine disturbs all of them alike. Each is repeated until it has run
    `min_repeats` times and for its share of `seconds`.

    Examples
    --------
    >>> ticks = iter([0.0, 3.0, 3.0, 4.0, 4.0, 6.0, 6.0, 7.5])
    >>> time_fastest({"a": list, "b": list}, 0.0, min_repeats=2, clock=lambda: next(ticks))
    {'a': 2.0, 'b': 1.0}
    """
    total = dict.fromkeys(calls, 0.0)
    repeats = dict.fromkeys(calls, 0)
    best = dict.fromkeys(calls, float("inf"))
    while pending := [c for c in calls if repeats[c] < min_repeats or total[c] < seconds / len(calls)]:
        for name in pending:
            start = clock()
            calls[name]()
            elapsed = clock() - start
            best[name] = min(best[name], elapsed)
            total[name] += elapsed
            repeats[name] += 1
    return best


def cpu_name() -> str:
    """Return the name of the processor, or at least its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def describe_machine() -> dict[str, str | int]:
    """Return cores, processor, system, and the versions that speed depends on; nothing that names the owner."""
    return {"cores": count_cores(), "cpu": cpu_name(), "system": platform.system(), **collect_versions()}
