"""Cost of a live view for the chain: sweeps per second in a real window, and of the same chain by itself.

    python tools/live_view.py -o docs/data/performance/live.json

Three images, each with the window on the screen and with the window hidden: nothing is painted then, and what is left
is our own doing. Where there is no graphics card, painting takes the processor that sweeps. Live and alone take turns,
since no machine is as fast in one minute as in the next, and the figures are medians over the turns. It wants the
machine for itself; `make timing` prints it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import napari
import numpy as np
from qtpy.QtWidgets import QApplication

import napari_gsw as gsw
from napari_gsw.core.threads import count_cores
from napari_gsw.sample_data import mosaic
from napari_gsw.widgets.layers.result_layers import ResultLayers
from napari_gsw.widgets.session.run_worker import SWEEP_FOR
from napari_gsw.widgets.session.session import EAGER_FOR

SIDES = (512, 1024, 2048)
TURNS = 7
WATCH = 5.0  # seconds of a turn
SETTLE = 0.6  # seconds after the chain was stopped or went on, until it is what it will be
SIZE = 1200, 800


def tiled(side: int) -> np.ndarray:
    """A picture like a photograph, `side` pixels wide and high."""
    tile = mosaic()[0]
    repeats = (-(-side // tile.shape[0]), -(-side // tile.shape[1]), 1)
    return np.ascontiguousarray(np.tile(tile, repeats)[:side, :side])


def spin(seconds: float, until: Callable[[], bool] = lambda: False) -> None:
    """Let the window live for so long, or until something is so."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end and not until():
        QApplication.processEvents()
        time.sleep(0.002)


class Pictures:
    """Counts the pictures that reach a layer."""

    def __init__(self) -> None:
        self.count = 0
        shown = ResultLayers.show_labels

        def counted(*given: Any, **named: Any) -> None:
            self.count += 1
            shown(*given, **named)

        ResultLayers.show_labels = counted  # type: ignore[method-assign]


def turn(panel: Any, pictures: Pictures) -> tuple[float, float, float]:
    """A while of the chain in the window, then the same sweeps by themselves: sweeps a second of both; pictures."""
    interactive = panel.session.array_run.interactive
    panel.pause()  # goes on
    spin(SETTLE)
    pictures.count, before, began = 0, interactive.snapshot, time.perf_counter()
    spin(WATCH)
    after, took = interactive.snapshot, time.perf_counter() - began
    seen, sweeps = pictures.count / took, after.sweep - before.sweep
    panel.pause()
    spin(SETTLE)
    began = time.perf_counter()
    *_, alone = gsw.sample(interactive.problem, sweeps, state=before.state, interval=SWEEP_FOR)
    speed = sweeps / (time.perf_counter() - began)
    assert np.array_equal(alone.labels, after.labels)
    return sweeps / took, speed, seen


def measured(side: int, pictures: Pictures) -> dict[str, Any]:
    """Of one image: sites, and for a window that is shown and one that is hidden what a chain does in it and alone."""
    viewer = napari.Viewer()
    viewer.window._qt_window.resize(*SIZE)
    _, panel = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    viewer.add_image(tiled(side), name="large")
    panel.form.controls["sweeps"].set_value(10_000_000)
    spin(1)
    panel.run_button.click()
    session = panel.session
    spin(600, lambda: session.array_run is not None and session.array_run.interactive.sweep > 20)
    spin(EAGER_FOR + 1)
    panel.pause()
    row: dict[str, Any] = {"side": side, "sites": session.array_run.interactive.problem.n}
    for name in ("shown", "hidden"):
        viewer.window._qt_window.setVisible(name == "shown")
        spin(1)
        turns = np.array([turn(panel, pictures) for _ in range(TURNS)])
        costs = 1 - turns[:, 0] / turns[:, 1]
        interactive, alone, seen = np.median(turns, axis=0)
        row[name] = {
            "live": interactive,
            "alone": alone,
            "pictures": seen,
            "cost": np.median(costs),
            "costs": list(costs),
        }
        print(
            f"{side} x {side}, {row['sites']:,} sites, {name}: {interactive:,.0f} sweeps/s, {alone:,.0f} alone, "
            f"the view costs {np.median(costs):.0%} ({', '.join(f'{cost:.0%}' for cost in sorted(costs))}); "
            f"{seen:.1f} pictures/s",
            flush=True,
        )
    panel.shut_down()
    viewer.window._qt_window.setVisible(True)
    viewer.close()
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description="What a live view costs the chain.")
    parser.add_argument("-o", "--output", type=Path, help="a JSON file for the figures")
    parser.add_argument("--sides", type=int, nargs="+", default=SIDES, help="pixels of the images along a side")
    arguments = parser.parse_args()
    pictures = Pictures()
    rows = [measured(side, pictures) for side in arguments.sides]
    if arguments.output is not None:
        content = {"cores": count_cores(), "turns": TURNS, "seconds": WATCH, "images": rows}
        arguments.output.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
