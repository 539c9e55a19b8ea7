"""Follows the README word for word in a fresh environment: exit code 0 when everything in it works.

    python tools/follow_readme.py

The commands of the README are run as they stand, one after the other, in a folder that has the files they speak of:
`make demo` in a clone of this checkout without a screen, the others in a virtual environment of their own, where pip
takes the wheel of this checkout as the newest release. The window is opened on a virtual screen and closed again.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
# Seconds that a window stays open, in which anything that is wrong with it is said.
OPEN = 60
# What the reader of the example in Python has already.
IMAGE = "from skimage.data import coffee\nimage = coffee()[::4, ::4]\n"


def commands(page: str) -> list[str]:
    """The lines of a page that are to be typed.

    >>> commands("Type\\n\\n    make demo\\n\\nor\\n\\n    pip list   # all\\n")
    ['make demo', 'pip list   # all']
    """
    return re.findall(r"^ {4}(\S.*)$", BLOCK.sub("", page), re.MULTILINE)


def data(folder: Path) -> None:
    """Write the files that the README speaks of; called in the fresh environment."""
    import numpy as np
    from scipy.io import savemat
    from skimage.data import astronaut
    from skimage.io import imsave

    from napari_gsw.sample_data import sample

    def write(name: str, array: np.ndarray) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        imsave(folder / name, array, check_contrast=False)

    photo = astronaut()[::3, ::3]
    halves = np.ones(photo.shape[:2], np.uint16)
    halves[:, 85:] = 2
    strokes = np.zeros_like(halves)
    strokes[80:90, 20:60], strokes[80:90, 110:150] = 1, 2
    write("photo.jpg", astronaut())
    write("cells.tif", sample("nuclei")[0])
    write("BSDS500/images/val/a.jpg", photo)
    people = np.empty((1, 1), object)
    people[0, 0] = {"Segmentation": halves, "Boundaries": halves > 2}
    (folder / "BSDS500/groundTruth/val").mkdir(parents=True)
    savemat(folder / "BSDS500/groundTruth/val/a.mat", {"groundTruth": people})
    for name in ("mine", "DIR"):
        write(f"{name}/images/a.png", photo)
        write(f"{name}/labels/a.png", halves)
    write("DIR/scribbles/a.png", strokes)


class Reader:
    """Somebody with an empty machine, as far as Python is concerned."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder, folder / "work"
        self.work.mkdir()
        wheels = folder / "wheels"
        self.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)])
        self.run([sys.executable, "-m", "venv", str(folder / "env")])
        tools = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
        self.python = str(tools / "python")
        left_out = ("PYTHONPATH", "VIRTUAL_ENV", "NUMBA_CACHE_DIR", "DISPLAY", "WAYLAND_DISPLAY")
        self.environment = {k: v for k, v in os.environ.items() if k not in left_out} | {
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PIP_FIND_LINKS": str(wheels),
            "NUMBA_CACHE_DIR": str(folder / "kernels"),
        }

    def run(self, words: list[str], where: Path | None = None, **more: object) -> None:
        print(f"$ {shlex.join(words)}", flush=True)
        began = time.monotonic()
        status = subprocess.run(words, cwd=where, check=False, **more).returncode  # type: ignore[call-overload]
        print(f"  {time.monotonic() - began:.0f} s, exit code {status}", flush=True)
        if status:
            raise SystemExit(f"the README says what does not work: {shlex.join(words)}")

    def type(self, line: str) -> None:
        """Do as a line says."""
        if line.startswith("make "):
            clone = self.folder / "clone"
            if not clone.exists():
                self.run(["git", "clone", "--quiet", str(ROOT), str(clone)])
            self.run(["sh", "-c", line], clone, env=self.environment)
        elif line.startswith("napari-gsw gui"):
            self.look(line)
        else:
            self.run(["sh", "-c", line], self.work, env=self.environment)
            if line.startswith("pip install"):
                self.run([self.python, __file__, "--data", str(self.work)], env=self.environment)

    def look(self, line: str) -> None:
        """Open a window and see that it stays open without complaint."""
        print(f"$ {line}", flush=True)
        on_screen = ["xvfb-run", "--auto-servernum", *shlex.split(line)]
        with (self.folder / "said").open("w+") as said:
            window = subprocess.Popen(
                on_screen, cwd=self.work, env=self.environment, stdout=said, stderr=said, start_new_session=True
            )
            time.sleep(OPEN)
            gone = window.poll()
            if gone is None:
                os.killpg(window.pid, 15)
                window.wait()
            said.seek(0)
            words = said.read()
        if gone is not None or "Traceback" in words:
            raise SystemExit(f"the window has not stayed open: {words}")
        print(f"  a window that was open for {OPEN} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Follow the README word for word in a fresh environment.")
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    folder = parser.parse_args().data
    if folder is not None:
        data(folder)
        return
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    scratch = Path(tempfile.mkdtemp(prefix="readme-"))
    try:
        reader = Reader(scratch)
        for line in commands(page):
            reader.type(line)
        for example in BLOCK.findall(page):
            reader.run([reader.python, "-c", IMAGE + example], reader.work, env=reader.environment)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print("Everything in the README works.")


if __name__ == "__main__":
    main()
