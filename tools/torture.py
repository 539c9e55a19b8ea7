"""A monkey at the window: it clicks, paints, undoes, adds, renames and removes layers, switches slices and themes,
closes and opens docks, in two viewers at once, for some minutes; everything by a seed.

    python tools/torture.py --minutes 5 --seed 0

Exit code 0 when there was no exception, no thread, panel or connection that stayed, memory that held, and no moment
longer than a quarter of a second in which the window did not answer because of us. Python's own collector of cycles is
counted apart; so are the first opening of a dock, in which Python imports what it needs, and moments in which the
machine or one of its cores stood still: not even another process ran there that does nothing but look at the clock.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import gc
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

import napari
import numpy as np
import psutil
from napari.utils.notifications import NotificationSeverity, notification_manager
from qtpy.QtCore import QCoreApplication, QEvent, QEventLoop, QPoint, QPointF, Qt, QTimer
from qtpy.QtGui import QWheelEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QDialog,
    QFileDialog,
    QMenu,
    QMessageBox,
    QWidget,
)

import napari_gsw as gsw
from napari_gsw.sample_data import mosaic, mosaic_3d
from napari_gsw.widgets.common.dock_panel import DockPanel
from napari_gsw.widgets.common.undo import REDO_KEY, UNDO_KEY
from napari_gsw.widgets.panel.panel import SegmentationPanel
from napari_gsw.widgets.session import autosave

FRAME = re.compile(r'File "([^"]*", line \d+) in (\S+)')
# Functions in which a thread does nothing; the last one is that of the thread that looks.
WAITING = ("wait", "_worker", "get", "select", "sleep", "_watch")
STANDSTILL = 0.1  # seconds by which a process that looks at the clock is late
STARVED = 0.05  # seconds without a look after which, again and again, Python itself writes down where the GUI thread is
LONGEST = 0.25  # seconds without an answer that are our doing
MOST_GROWTH = 200  # megabytes from the middle to the end, beside what layers take
LAYER = 12  # megabytes that napari takes for a layer of labels: its controls, and what draws it
DOCKS = ("GSW segmentation", "Superpixels", "Compare segmentations", "Table of regions")
# Buttons that begin work for minutes.
LEFT_ALONE = ("Run 4 chains", "Compute")


def _plain(name: str) -> str:
    """The name of a dock without the plugin's, which napari puts after it."""
    return name.removesuffix(" (napari-gsw)")


# Looks at the clock on one core, and says from when to when it could not.
CLOCK = f"""
import os, sys, time
os.sched_setaffinity(0, [int(sys.argv[1])])
while True:
    began = time.perf_counter()
    time.sleep(0.01)
    if (now := time.perf_counter()) - began > {STANDSTILL}:
        print(began, now, flush=True)
"""


class Span(NamedTuple):
    """Seconds from and to, by a clock that all processes share."""

    began: float
    ended: float

    def common(self, other: Span) -> float:
        """Seconds that are in both."""
        return max(0.0, min(self.ended, other.ended) - max(self.began, other.began))


class Clocks:
    """A process on each core that looks at the clock.

    Where a virtual machine is denied one of its cores, the thread that holds Python's lock may be the one that stands
    still, and nobody in this process can tell that from a thread that does not let go of it.
    """

    def __init__(self) -> None:
        self.standstills: list[Span] = []
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._processes = [
            subprocess.Popen([sys.executable, "-c", CLOCK, str(core)], stdout=subprocess.PIPE, text=True)
            for core in cores
        ]
        for process in self._processes:
            threading.Thread(target=self._listen, args=(process.stdout,), daemon=True).start()

    def _listen(self, lines: IO[str]) -> None:
        for line in lines:
            self.standstills.append(Span(*map(float, line.split())))

    def longest_in(self, span: Span) -> float:
        """Seconds of a span in which the core stood still that did so for longest."""
        return max((span.common(still) for still in self.standstills), default=0.0)

    def end(self) -> None:
        for process in self._processes:
            process.terminate()


# File and line, and function, of every call, the innermost first.
Stack = list[tuple[str, str]]


class Gap(NamedTuple):
    """A moment in which the window did not answer: when, seconds of it that were our doing, and where that was."""

    span: Span
    ours: float
    where: str


def _read_anew(file: IO[str]) -> str:
    """Take the content of a file, which is empty afterwards."""
    file.seek(0)
    text = file.read()
    file.seek(0)
    file.truncate()
    return text


class Heart:
    """Beats in the GUI thread; somebody in another thread looks whether it does, and where the GUI thread is if not.

    It reads where that is from what `faulthandler` writes. Frames as objects would do harm: what they hold, a painter
    or a font, would be deleted in the thread that looks, if the GUI thread has left them by then.
    """

    def __init__(self) -> None:
        self.last, self._busy = time.perf_counter(), time.thread_time()
        self.gaps: list[Gap] = []
        self.collections: list[float] = []
        self.clocks = Clocks()
        self._over = False
        self._collecting = self._collected = 0.0
        self.actions: deque[str] = deque(maxlen=4)
        self._ours = 0.0
        self._where: Counter[str] = Counter()
        self._beside: set[str] = set()
        self._main = f"0x{threading.main_thread().ident:016x}"
        self._written = tempfile.TemporaryFile("w+")  # noqa: SIM115 (as long as the heart beats)
        self._starved = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._timer = QTimer()
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._timer.start(10)
        gc.callbacks.append(self._collect)
        # In the GUI thread itself: a look at its calls from another thread, which does not wait for Python's lock, may
        # meet calls that are just being taken away, and ends the process without a word.
        faulthandler.register(signal.SIGALRM, file=self._starved, all_threads=False)
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def end(self) -> None:
        """Beat no more."""
        self._over = True
        self._timer.stop()
        self._watcher.join()
        gc.callbacks.remove(self._collect)
        self.clocks.end()

    def _collect(self, phase: str, _info: object) -> None:
        """Python's collector of unused cycles goes over all that there is, half of a million things with napari."""
        if phase == "start":
            self._collecting = time.perf_counter()
        else:
            self.collections.append(time.perf_counter() - self._collecting)
            self._collected += self.collections[-1]
            self._collecting = 0.0

    def _beat(self) -> None:
        now, busy = time.perf_counter(), time.thread_time()
        if self._ours > LONGEST:
            places = "; ".join(f"{100 * n // self._where.total()} % {place}" for place, n in self._where.most_common(3))
            work = f"{busy - self._busy:.2f} s at work"
            where = f"{', '.join(self.actions)}, {work}: {places}{self._others()}"
            self.gaps.append(Gap(Span(self.last, now), self._ours, where))
        self.last, self._busy, self._ours, self._where, self._beside = now, busy, 0.0, Counter(), set()

    def _others(self) -> str:
        return f"; beside it {'; '.join(sorted(self._beside))}" if self._beside else ""

    def _stack(self) -> Stack:
        """File and line, and function, of every call of the GUI thread, the innermost first; others are noted."""
        faulthandler.dump_traceback(self._written, all_threads=True)
        return self._main_of(_read_anew(self._written))

    def _main_of(self, dumped: str) -> Stack:
        """One of the other threads may let nobody else run, which Python calls holding its lock."""
        threads = dumped.split("\n\n")
        for thread in threads:
            calls = FRAME.findall(thread)
            if calls and self._main not in thread and not any(name in WAITING for _, name in calls[:2]):
                self._beside.add(" < ".join(f"{name} ({file.rpartition('/')[2]})" for file, name in calls[:6]))
        return [call for thread in threads if self._main in thread for call in FRAME.findall(thread)]

    def _watch(self) -> None:
        """While the window does not answer, count the time in which a function of ours is under way."""
        step = 0.01
        while not self._over:
            began, collected = time.perf_counter(), self._collected
            signal.setitimer(signal.ITIMER_REAL, STARVED, STARVED)
            time.sleep(step)
            stacks: list[Stack] = []
            if time.perf_counter() - began > STARVED:
                signal.setitimer(signal.ITIMER_REAL, 0)
                stacks = [FRAME.findall(dumped) for dumped in _read_anew(self._starved).split("Stack ")[1:]]
            if (stacks or time.perf_counter() - self.last > 0.05) and not self._collecting:
                # Less what was collected meanwhile: the collector lets no other thread look.
                seconds = max(0.0, time.perf_counter() - began - (self._collected - collected))
                self._count(stacks or [self._stack()], seconds)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _count(self, stacks: list[Stack], seconds: float) -> None:
        """Take for ours as large a share of some time as that of the looks that saw a function of ours."""
        for stack in stacks:
            depth = next((k for k, (file, _) in enumerate(stack) if "/napari_gsw/" in file), None)
            # Where napari redraws because we told it to, the time is napari's, as it is when a user does it.
            if depth is not None and not any("/napari/" in file for file, _ in stack[:depth]):
                self._ours += seconds / len(stacks)
                calls = (f"{name} ({file.rpartition('/')[2]})" for file, name in stack[: depth + 3])
                self._where[" < ".join(calls)] += 1


class Monkey:
    """Does one thing after the other."""

    def __init__(self, viewers: list[napari.Viewer], seed: int) -> None:
        self.viewers, self.random = viewers, random.Random(seed)
        self.done: Counter[str] = Counter()
        self.pressed: Counter[str] = Counter()
        self.actions = {
            self.click: 10, self.paint: 8, self.key: 8, self.combo: 4, self.hover: 4, self.wheel: 3,
            self.double_click: 2, self.add: 2, self.rename: 2, self.remove: 1, self.slice: 3, self.theme: 0.3,
            self.ndisplay: 0.5, self.close_dock: 0.6, self.open_dock: 1.2, self.select: 3, self.zoom: 2, self.save: 0.3,
        }  # fmt: skip
        self.folder = Path(tempfile.mkdtemp(prefix="torture-"))
        self.pictures = {"m": mosaic()[0][:120, :160], "v": mosaic_3d()[0][:6, :40, :40]}

    def act(self, told: deque[str]) -> None:
        """One thing at random, whose name is noted first."""
        (action,) = self.random.choices(list(self.actions), list(self.actions.values()))
        viewer = self.random.choice(self.viewers)
        told.append(action.__name__)
        action(viewer)
        self.done[action.__name__] += 1

    def _docks(self, viewer: napari.Viewer) -> list:
        from napari._qt.widgets.qt_viewer_dock_widget import QtViewerDockWidget

        docks = viewer.window._qt_window.findChildren(QtViewerDockWidget)
        return [dock for dock in docks if _plain(dock.name) in DOCKS]

    def _panels(self, viewer: napari.Viewer) -> list:
        return [p for dock in self._docks(viewer) for p in dock.findChildren(QWidget) if isinstance(p, DockPanel)]

    def _panel(self, viewer: napari.Viewer):
        panels = [p for p in self._panels(viewer) if isinstance(p, SegmentationPanel)]
        return panels[0] if panels else None

    def click(self, viewer: napari.Viewer) -> None:
        buttons = [b for p in self._panels(viewer) for b in p.findChildren(QAbstractButton)]
        buttons = [b for b in buttons if b.isVisible() and b.isEnabled() and b.text() not in LEFT_ALONE]
        buttons = [b for b in buttons if getattr(b, "menu", lambda: None)() is None]
        if buttons:
            button = self.random.choice(buttons)
            self.pressed[button.text() or button.toolTip() or "(no text)"] += 1
            QTest.mouseClick(button, Qt.MouseButton.LeftButton)

    def combo(self, viewer: napari.Viewer) -> None:
        combos = [c for p in self._panels(viewer) for c in p.findChildren(QComboBox) if c.isVisible() and c.isEnabled()]
        if combos:
            combo = self.random.choice(combos)
            if combo.count():
                index = self.random.randrange(combo.count())
                combo.setCurrentIndex(index)
                combo.activated.emit(index)

    def _place(self, viewer: napari.Viewer) -> QPoint:
        native = viewer.window._qt_viewer.canvas.native
        return QPoint(self.random.randrange(native.width()), self.random.randrange(native.height()))

    def paint(self, viewer: napari.Viewer) -> None:
        layers = [x for x in viewer.layers if isinstance(x, napari.layers.Labels) and x.editable and x.visible]
        if not layers or viewer.dims.ndisplay == 3:
            return
        layer = self.random.choice(layers)
        viewer.layers.selection.active = layer
        layer.mode = self.random.choice(("paint", "paint", "erase", "fill"))
        layer.selected_label = self.random.randrange(0, 6)
        layer.brush_size = self.random.randrange(1, 20)
        native = viewer.window._qt_viewer.canvas.native
        QTest.mousePress(native, Qt.MouseButton.LeftButton, pos=self._place(viewer))
        for _ in range(3):
            QTest.mouseMove(native, self._place(viewer))
        QTest.mouseRelease(native, Qt.MouseButton.LeftButton, pos=self._place(viewer))

    def key(self, viewer: napari.Viewer) -> None:
        native = viewer.window._qt_viewer.canvas.native
        control, alt, shift = (
            Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.AltModifier, Qt.KeyboardModifier.ShiftModifier,
        )  # fmt: skip
        choices = [
            (Qt.Key.Key_Z, control), (Qt.Key.Key_Z, control), (Qt.Key.Key_Z, control | shift),
            (Qt.Key.Key_R, control | alt), (Qt.Key.Key_X, control | alt), (Qt.Key.Key_D, control | alt),
            (Qt.Key.Key_L, control | alt), (Qt.Key.Key_A, Qt.KeyboardModifier.NoModifier),
            (Qt.Key.Key_J, Qt.KeyboardModifier.NoModifier), (Qt.Key.Key_D, Qt.KeyboardModifier.NoModifier),
            (Qt.Key.Key_N, Qt.KeyboardModifier.NoModifier), (Qt.Key.Key_Escape, Qt.KeyboardModifier.NoModifier),
        ]  # fmt: skip
        key, held = self.random.choice(choices)
        QTest.keyClick(native, key, held)

    def hover(self, viewer: napari.Viewer) -> None:
        panel = self._panel(viewer)
        QTest.mouseMove(viewer.window._qt_viewer.canvas.native, self._place(viewer))
        if panel is not None and panel.trace_section.body.isVisible():
            width, height = max(panel.trace.width(), 2), max(panel.trace.height(), 2)
            QTest.mouseMove(panel.trace, QPoint(self.random.randrange(width), self.random.randrange(height)))

    def wheel(self, viewer: napari.Viewer) -> None:
        panel = self._panel(viewer)
        if panel is None or not panel.trace_section.body.isVisible():
            return
        centre = QPointF(panel.trace.rect().center())
        held = self.random.choice((Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ControlModifier))
        turn = QPoint(0, self.random.choice((-120, 120)))
        event = QWheelEvent(
            centre, QPointF(panel.trace.mapToGlobal(centre.toPoint())), QPoint(), turn, Qt.MouseButton.NoButton, held,
            Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(panel.trace.viewport() if hasattr(panel.trace, "viewport") else panel.trace, event)

    def double_click(self, viewer: napari.Viewer) -> None:
        panel = self._panel(viewer)
        if panel is not None and panel.trace_section.body.isVisible():
            target = panel.trace.viewport() if hasattr(panel.trace, "viewport") else panel.trace
            QTest.mouseDClick(target, Qt.MouseButton.LeftButton, pos=target.rect().center())

    def add(self, viewer: napari.Viewer) -> None:
        if len(viewer.layers) > 12:
            return
        kind = self.random.randrange(5)
        noise = np.random.default_rng(self.random.randrange(99))
        if kind == 0:
            viewer.add_image(np.array(self.pictures["m"]), name="m")
        elif kind == 1:
            viewer.add_image(np.array(self.pictures["v"]), name="v")
        elif kind == 2:
            viewer.add_image(noise.normal(0, 1, (60, 80)).astype(np.float32), name="noise")
        elif kind == 3:
            viewer.add_labels(noise.integers(0, 3, (120, 160)), name="mine")
        else:
            viewer.add_points(noise.uniform(0, 60, (4, 2)), name="points")

    def rename(self, viewer: napari.Viewer) -> None:
        if viewer.layers:
            self.random.choice(list(viewer.layers)).name = self.random.choice(("a", "b", "m", "ä [GSW]", ""))

    def remove(self, viewer: napari.Viewer) -> None:
        if self.random.random() < 0.1:
            viewer.layers.clear()
        elif viewer.layers:
            viewer.layers.remove(self.random.choice(list(viewer.layers)))

    def select(self, viewer: napari.Viewer) -> None:
        if viewer.layers:
            layer = self.random.choice(list(viewer.layers))
            viewer.layers.selection.active = layer
            layer.visible = self.random.random() < 0.9

    def slice(self, viewer: napari.Viewer) -> None:
        if viewer.dims.ndim > 2:
            viewer.dims.set_current_step(0, self.random.randrange(max(1, int(viewer.dims.nsteps[0]))))

    def zoom(self, viewer: napari.Viewer) -> None:
        viewer.scene.camera.zoom *= self.random.choice((0.5, 2.0))
        if not 0.1 < viewer.scene.camera.zoom < 50:
            viewer.reset_view()

    def theme(self, viewer: napari.Viewer) -> None:
        viewer.theme = "light" if viewer.theme == "dark" else "dark"

    def ndisplay(self, viewer: napari.Viewer) -> None:
        viewer.dims.ndisplay = 5 - viewer.dims.ndisplay

    def close_dock(self, viewer: napari.Viewer) -> None:
        if docks := self._docks(viewer):
            dock, events = self.random.choice(docks), QEventLoop()

            def close() -> None:
                try:
                    dock.destroyOnClose()
                finally:
                    events.quit()

            QTimer.singleShot(0, close)  # among events, as by a click: only without any does it wait for the disk
            events.exec()

    def open_dock(self, viewer: napari.Viewer) -> None:
        there = {_plain(dock.name) for dock in self._docks(viewer)}
        if free := [name for name in DOCKS if name not in there]:
            viewer.window.add_plugin_dock_widget("napari-gsw", self.random.choice(free))

    def save(self, viewer: napari.Viewer) -> None:
        panel, path = self._panel(viewer), self.folder / "work.zarr.zip"
        if panel is None:
            return
        if path.exists() and self.random.random() < 0.5:
            panel.opening.open(str(path))
        else:
            panel.saving.save(path)


def cancel_dialogs() -> None:
    """Every dialog that waits for an answer is cancelled: only a person could choose a file."""
    for name in ("getSaveFileName", "getOpenFileName", "getOpenFileNames"):
        setattr(QFileDialog, name, staticmethod(lambda *_, **__: ("", "")))
    QFileDialog.getExistingDirectory = staticmethod(lambda *_, **__: "")
    QDialog.exec = lambda self: int(QDialog.DialogCode.Rejected)
    QMessageBox.exec = lambda self: int(QMessageBox.StandardButton.Cancel)
    QMenu.exec = lambda self, *_: None


def torture(minutes: float, seed: int) -> list[str]:
    """Let the monkey at two windows; what went wrong, a line each."""
    wrong: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="torture-autosaves-"))
    autosave.autosave_folder = lambda: folder
    sys.excepthook = lambda kind, value, trace: wrong.append("".join(traceback.format_exception(kind, value, trace)))
    threading.excepthook = lambda args: wrong.append("".join(traceback.format_exception(args.exc_value)))

    def noticed(notification) -> None:
        # A sentence of ours about what was asked for is an answer; a bug comes with its exception.
        ours = notification.message.partition(": ")[0] in DOCKS and not hasattr(notification, "exception")
        if notification.severity >= NotificationSeverity.WARNING and not ours:
            wrong.append(f"napari says: {notification.message}")

    notification_manager.notification_ready.connect(noticed)
    faulthandler.enable()  # a crash says where
    cancel_dialogs()
    gsw.warm_up()
    threads = {t.name for t in threading.enumerate()}
    viewers = [napari.Viewer(), napari.Viewer()]
    for viewer in viewers:
        for name in DOCKS[:2] if viewer is viewers[0] else DOCKS:
            viewer.window.add_plugin_dock_widget("napari-gsw", name)
    QApplication.processEvents()
    monkey, heart = Monkey(viewers, seed), Heart()
    for viewer in viewers:
        monkey.add(viewer)
    process = psutil.Process()
    sizes: list[float] = []
    layers = 0
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end and len(wrong) < 20:
        for _ in range(monkey.random.randrange(1, 6)):
            QApplication.processEvents()
            time.sleep(0.01)
        try:
            monkey.act(heart.actions)
        except Exception:
            wrong.append(traceback.format_exc())
        layers = max(layers, sum(len(viewer.layers) for viewer in viewers))  # what one took is not given back at once
        sizes.append(process.memory_info().rss / 2**20 - LAYER * layers)
    return wrong + finish(viewers, heart, threads, sizes, monkey)


def emptied(viewers: list[napari.Viewer], let_events_pass: Callable[[float], object]) -> float:
    """Megabytes of this process once all layers are removed, and what can be given back was."""
    for viewer in viewers:
        viewer.layers.clear()
    for _ in range(20):
        let_events_pass(0)
        time.sleep(0.01)
    gc.collect()
    with suppress(OSError, AttributeError):  # where the C library keeps what it is given
        ctypes.CDLL(None).malloc_trim(0)
    return float(psutil.Process().memory_info().rss / 2**20)


def finish(viewers, heart: Heart, threads: set[str], sizes: list[float], monkey: Monkey) -> list[str]:
    """Close everything and see what is left."""
    sys.excepthook = sys.__excepthook__
    wrong = []
    for gap in heart.gaps:
        still = heart.clocks.longest_in(gap.span)
        words = f"the window did not answer for {gap.ours:.2f} s: {gap.where}"
        if gap.ours - still > LONGEST:
            wrong.append(words)
        else:
            print(f"a core stood still for {still:.2f} s, and {words}")
    heart.end()
    for viewer in viewers:
        for dock in monkey._docks(viewer):
            dock.destroyOnClose()
            del dock  # which holds its panel

    def left(seconds: float) -> list[str]:
        """Threads of ours that are there after so long; events go on meanwhile, as an event loop would have it."""
        deadline = time.monotonic() + seconds
        while True:
            QApplication.processEvents()
            QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
            names = [t.name for t in threading.enumerate() if "gsw" in t.name and t.name not in threads]
            if not names or time.monotonic() > deadline:
                return names
            time.sleep(0.02)

    left(30)
    for _ in range(50):
        left(0)
        time.sleep(0.01)
    gc.collect()
    stayed = left(2)  # a pool that is collected tells its threads to end, and does not wait
    wrong += [f"the thread {name} stayed" for name in stayed]
    # By their own type: one that stands for another (a weak proxy) fails when it is asked for that of the other.
    panels = [x for x in gc.get_objects() if issubclass(type(x), SegmentationPanel)]
    wrong += [f"a panel stayed, held by {holders(x)}" for x in panels]
    if stayed:
        pools = [x for x in gc.get_objects() if type(x) is ThreadPoolExecutor and "gsw" in x._thread_name_prefix]
        wrong += [f"a pool stayed, {x._thread_name_prefix}, held by {holders(x)}" for x in pools]
    for viewer in viewers:
        keys = [str(key) for key in viewer.keymap if str(key) in (UNDO_KEY, REDO_KEY)]
        if keys:
            wrong.append(f"the viewer is still bound to {keys}")
    middle, late = np.median(sizes[len(sizes) // 2 : len(sizes) * 3 // 4]), np.median(sizes[-len(sizes) // 8 :])
    print(f"{sum(monkey.done.values())} actions: {dict(monkey.done)}")
    print(f"{len(monkey.pressed)} buttons: {', '.join(monkey.pressed)}")
    if monkey.done["click"] > 20 and not monkey.pressed:
        wrong.append("the monkey did not find a button of ours")
    slow = [seconds for seconds in heart.collections if seconds > 0.1]
    print(f"Python collected cycles {len(slow)} times for more than .1 s, at most {max(slow, default=0):.2f} s")
    still = [span.ended - span.began for span in heart.clocks.standstills]
    print(f"a core stood still {len(still)} times, at most for {max(still, default=0):.2f} s")
    print(f"memory without layers {sizes[0]:.0f} MB at first, {middle:.0f} after half the time, {late:.0f} at the end")
    print(f"memory of everything {emptied(viewers, left):.0f} MB when all layers and docks are gone")
    if late - middle > MOST_GROWTH:
        wrong.append(f"memory grew from {middle:.0f} to {late:.0f} MB in the second half")
    for viewer in viewers:
        viewer.close()
    return wrong


def holders(thing: object) -> str:
    """Find what keeps an object alive that should be gone: frames and modules, and the references from them to it."""
    objects = gc.get_objects()
    known = {id(x) for x in objects}
    held_by: dict[int, list[object]] = {}
    for holder in objects:
        for held in gc.get_referents(holder):
            if id(held) in known:
                held_by.setdefault(id(held), []).append(holder)
    own = sys._getframe()
    here = {id(own), id(own.f_back), id(own.f_locals), id(objects), id(known), id(held_by)}
    paths, rim, lines = {id(thing): type(thing).__name__}, [thing], []
    while rim:
        held = rim.pop(0)
        for holder in held_by.get(id(held), []):
            if id(holder) in paths or id(holder) in here:
                continue
            name = type(holder).__name__
            if isinstance(holder, types.FunctionType | types.MethodType):
                name = getattr(holder, "__qualname__", name)
            elif isinstance(holder, types.FrameType):
                name = f"frame of {holder.f_code.co_qualname}"
            paths[id(holder)] = path = f"{name} > {paths[id(held)]}"
            if isinstance(holder, types.FrameType | types.ModuleType | types.TracebackType | type):
                lines.append(path)
            else:
                rim.append(holder)
    return f"{len(paths)} things:\n    " + "\n    ".join(lines[:30])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    wrong = torture(arguments.minutes, arguments.seed)
    for line, count in Counter(wrong).most_common():
        print(f"{count} x {line}")
    print("nothing went wrong" if not wrong else f"{len(wrong)} things went wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
