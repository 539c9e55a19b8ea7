"""All sections by name, and the two scales at which they are run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from napari_gsw.core.threads import count_cores
from napari_gsw.research.benchmarks import machine, memory, rivals, sampling, slide, stages, startup
from napari_gsw.research.benchmarks.report import BenchReport, BenchSection


@dataclass(frozen=True)
class Scale:
    """How large the cases are.

    Attributes
    ----------
    sites, clusters, lambdas : of the cases of the sections of these names.
    rival_clusters, rival_lambdas : of the cases that are compared with other programs.
    thread_sites, memory : sites of the cases of the sections ``threads`` and ``memory``.
    n : sites of the cases that do not differ in it.
    seconds : how long a section goes round its cases; one that takes longer for a few turns takes longer.
    sweeps : of the sampling after the stages of `pictures`, (height, width) each.
    slide : side in pixels of the picture of the section of that name.
    cold : whether to compile everything once into an empty cache.
    starts : fresh processes of each kind.
    """

    sites: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    clusters: tuple[int, ...] = (12, 50, 200)
    lambdas: tuple[float, ...] = (0.0, 1.0, 10.0)
    rival_clusters: tuple[int, ...] = (12, 170)
    rival_lambdas: tuple[float, ...] = (0.0, 10.0)
    n: int = 1_000
    thread_sites: int = 10_000
    memory: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    pictures: tuple[tuple[int, int], ...] = ((321, 481), (1000, 1000), (4000, 4000))
    sweeps: int = 300
    slide: int = 20_000
    cold: bool = True
    starts: int = 3
    seconds: float = 8.0


FULL = Scale()
QUICK = Scale(
    sites=FULL.sites[:3], memory=FULL.memory[:2], pictures=FULL.pictures[:2], slide=5_000, cold=False, starts=2,
    seconds=1.5,
)  # fmt: skip

SECTIONS: Mapping[str, Callable[[Scale], BenchSection]] = {
    "sites": lambda s: sampling.sites(s.sites, s.seconds),
    "clusters": lambda s: sampling.clusters(s.clusters, s.seconds, s.n),
    "lambda": lambda s: sampling.lambdas(s.lambdas, s.seconds, s.n),
    "oracle": lambda s: rivals.oracle(s.rival_lambdas, s.seconds, s.n),
    "cpp": lambda s: rivals.compare_with_cpp(s.rival_clusters, s.rival_lambdas, s.seconds, s.n),
    "threads": lambda s: sampling.threads(count_cores(), s.seconds, s.thread_sites),
    "memory": lambda s: memory.memory(s.memory),
    "stages": lambda s: stages.stages(s.pictures, s.seconds, s.sweeps, s.pictures[0]),
    "startup": lambda s: startup.startup(s.cold, s.starts),
    "slide": lambda s: slide.slide(s.slide),
}


def measure(names: Iterable[str], scale: Scale) -> BenchReport:
    """Measure the named sections, one after the other, at a scale."""
    return BenchReport(machine.describe_machine(), {name: SECTIONS[name](scale) for name in names})
