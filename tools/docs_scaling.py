"""Cost of large images and of many, from bench.json and slide.json of docs/data/performance.

`napari-gsw bench -o OUT` writes the one, `napari-gsw bench --only slide -o OUT` the other. Seconds are processor
seconds, so that other work on the machine does not count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from docs_tables import DATA, table

from napari_gsw.research.benchmarks.sections import SLIDE_STAGES

WHOLE_SLIDE, PIXELS_A_SITE = 10**10, 150
A_MINUTE, AN_HOUR = 60, 3600


def sections(file: str) -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads((DATA / "performance" / file).read_text())["sections"]
    return content


@dataclass(frozen=True)
class Costs:
    """Of a pixel, a site and a sweep, as measured; seconds and bytes.

    Attributes
    ----------
    pixel, written_pixel : from the file to the words of its site; of the labels, to the file.
    site : before and after the chain.
    swept : a site in a sweep, with one more cluster; `free` as many clusters are what a site costs with none.
    site_bytes, pixel_bytes : of the problem and its chain; of the compressed sites.
    fixed_bytes : what else there was at the peak.
    """

    pixel: float
    written_pixel: float
    site: float
    swept: float
    free: float
    site_bytes: float
    pixel_bytes: float
    fixed_bytes: float

    @classmethod
    def measured(cls) -> Costs:
        bench, slide = sections("bench.json"), sections("slide.json")["slide"]
        facts, rows = slide["facts"], {row[0]: row[1:] for row in slide["rows"]}
        blocks, assembly, _, result, labels = (rows[title][1] for title in SLIDE_STAGES.values())
        few, many = bench["clusters"]["rows"][0], bench["clusters"]["rows"][-1]
        small, large, times = (int(few[0].split()[0]), int(many[0].split()[0]), many[2] / few[2])
        free = (large - small * times) / (times - 1)
        pixels, sites = facts["pixels"], facts["sites"]
        site_bytes = bench["memory"]["rows"][-1][2]
        packed = facts["bytes of compressed sites"]
        peak = 1e6 * max(row[2] for row in rows.values())
        return cls(
            pixel=blocks / pixels,
            written_pixel=labels / pixels,
            site=(assembly + result) / sites,
            swept=1e-9 * bench["sites"]["rows"][-1][2] / (small + free),
            free=free,
            site_bytes=site_bytes,
            pixel_bytes=packed / pixels,
            fixed_bytes=peak - packed - site_bytes * sites,
        )

    def seconds(self, pixels: float, sites: float, sweeps: int, clusters: int) -> tuple[float, float]:
        """Of what can be shared out among cores, and of the rest."""
        chain = self.swept * sweeps * sites * (clusters + self.free) + self.site * sites
        return (self.pixel + self.written_pixel) * pixels, chain

    def memory(self, pixels: float, sites: float) -> float:
        """Bytes of one chain."""
        return self.fixed_bytes + self.pixel_bytes * pixels + self.site_bytes * sites


def costs() -> str:
    """A table of what was measured, and a formula."""
    one, bench = Costs.measured(), sections("bench.json")
    sweeps, clusters, memory = (bench[name]["rows"] for name in ("sites", "clusters", "memory"))
    name, _, *preparation, sampling, _ = bench["stages"]["rows"][0]
    swept = f"{sweeps[0][2] / 1e3:.2f} to {sweeps[-1][2] / 1e3:.2f} µs"
    more, times = (
        " and ".join(row[0].split()[0] for row in clusters[1:]),
        " and ".join(f"{c[-1]:.1f}" for c in clusters[1:]),
    )
    held = f"{memory[-1][2]:,.0f} to {memory[0][2]:,.0f} bytes"
    whole = f"{sum(preparation):.2f} s up to the chain, {sampling:.2f} s for 300 sweeps"
    rows = [
        ["a pixel, from the file to sites and words", micro(one.pixel), f"{one.pixel_bytes:.2f} bytes", "`slide`"],
        ["a pixel of the result, to zarr with its levels", micro(one.written_pixel), "", "`slide`"],
        [f"a site in a sweep, 12 clusters ({sweeps[0][0]} to {sweeps[-1][0]})", swept, "", "`sites`"],
        [f"the same with {more} clusters", f"{times} times that", "", "`clusters`"],
        ["a site, before and after the chain", micro(one.site), held, "`slide`, `memory`"],
        [f"a photograph of {name.partition(' (')[0]}", whole, "", "`stages`"],
    ]
    formula = (
        f"    seconds = {1e6 * (one.pixel + one.written_pixel):.2f}e-6 P / N  +  {1e6 * one.swept:.3f}e-6 T S (K + "
        f"{one.free:.0f})  +  {1e6 * one.site:.0f}e-6 S\n"
        f"    bytes   = {one.fixed_bytes / 1e6:,.0f} MB  +  {one.pixel_bytes:.2f} P  +  {one.site_bytes:,.0f} S\n"
    )
    words = "So for P pixels, S sites, T sweeps, K clusters, one chain and N cores, about"
    head = ("what", "processor time of one core", "memory", "section of `bench`")
    return table(head, rows) + f"\n{words}\n\n{formula}"


def slide() -> str:
    """Cost of an image that does not fit into memory."""
    one = sections("slide.json")["slide"]
    rows = [[row[0], f"{row[1]:,.0f}", f"{row[2]:,.0f}", f"{row[3]:,.0f}"] for row in one["rows"]]
    words = ", ".join(f"{one['facts'][name]:,} {name}" for name in ("sites", "clusters", "regions", "sweeps")) + "."
    title = one["title"][0].upper() + one["title"][1:]
    return f"{title}:\n\n" + table((head or " " for head in one["columns"]), rows) + f"\n{words}\n"


def forecast() -> str:
    """Cost of an image of 100,000 x 100,000 pixels, by the formula."""
    one = Costs.measured()
    shared = one.seconds(WHOLE_SLIDE, 0, 0, 0)[0]
    words = (
        f"Reading, superpixels and writing would take {shared:,.0f} seconds of one core: {duration(shared / 2)} on "
        f"two, {duration(shared / 32)} on 32. The compressed sites take {one.pixel_bytes * WHOLE_SLIDE / 1e9:.1f} GB. "
        "What is left to choose is their number:\n\n"
    )
    rows = []
    for name, sites in {"500,000": 5e5, "5,000,000": 5e6, "none": WHOLE_SLIDE / PIXELS_A_SITE}.items():
        chain = one.seconds(0, sites, 300, 12)[1]
        memory = one.memory(WHOLE_SLIDE, sites)
        rows.append([name, f"{WHOLE_SLIDE / sites:,.0f}", f"{memory / 1e9:,.0f} GB", duration(chain)])
    head = ("`most_sites`", "pixels a site", "memory", "300 sweeps, 12 clusters, one core")
    return words + table(head, rows)


def micro(seconds: float) -> str:
    """Millionths of a second, with two digits that count.

    >>> micro(6.2e-7), micro(2.34e-5)
    ('0.62 µs', '23 µs')
    """
    return f"{1e6 * seconds:.2f} µs" if seconds < 1e-5 else f"{1e6 * seconds:.0f} µs"


def duration(seconds: float) -> str:
    """Seconds in words, about.

    >>> duration(40), duration(100), duration(9000)
    ('40 seconds', '2 minutes', '2.5 hours')
    """
    if seconds < 1.5 * A_MINUTE:
        return f"{seconds:.0f} seconds"
    return f"{seconds / A_MINUTE:.0f} minutes" if seconds < 1.5 * AN_HOUR else f"{seconds / AN_HOUR:.1f} hours"
