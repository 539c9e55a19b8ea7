"""Runs the tests of the window with a process for each, which ends before napari closes its window.

For PySide6: its newest release for ARM Linux with an older C library (6.8.0) crashes when napari closes a window, with
or without this plugin. What a test checks has been checked by then.

    python tools/one_by_one.py [arguments for pytest]
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
SECONDS = 400


def main() -> int:
    chosen = ["-m", "gui and not timing", *(sys.argv[1:] or ["tests"])]
    found = subprocess.run([*PYTEST, "--collect-only", *chosen], capture_output=True, text=True)
    tests = [line for line in found.stdout.splitlines() if "::" in line]
    if not tests:
        print(found.stdout + found.stderr)
        return 1
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for test, (code, text) in zip(tests, pool.map(run, tests), strict=True):
            failed += code != 0
            print(f"{'passed' if code == 0 else 'FAILED'} {test}", flush=True)
            if code:
                print(text)
    print(f"{len(tests) - failed} passed, {failed} failed")
    return int(failed > 0)


def run(test: str) -> tuple[int, str]:
    room = {**os.environ, "LEAVE_WINDOW_OPEN": "1"}
    try:
        done = subprocess.run([*PYTEST, test], capture_output=True, text=True, env=room, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return 1, f"more than {SECONDS} seconds"
    return done.returncode, done.stdout[-3000:] + done.stderr[-1500:]


if __name__ == "__main__":
    sys.exit(main())
