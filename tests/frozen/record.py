"""Compute the frozen cases, record them, or compare them with another record.

From the root of the repository, with ``PYTHONPATH=tests``:

    python -m frozen.record                         write tests/data/frozen.json anew
    python -m frozen.record --only lazy             record the cases with this in their name anew, keep the others
    python -m frozen.record -o before.json          write elsewhere, on another machine or for another commit
    python -m frozen.record --compare before.json   name what differs; exit code 1 if anything does
    python -m frozen.record --sessions FOLDER       write the session files with the present version
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

RECORD = Path(__file__).parents[1] / "data" / "frozen.json"
DIGITS = 9
# Where processor or versions are others, log posteriors agree to this share if the case is the same at all.
LOOSE = 0.05


def environment() -> dict[str, str]:
    """Versions, processor and instructions of compilers, on which floating-point results depend."""
    import llvmlite
    import llvmlite.binding
    import numba
    import scipy
    import skimage

    try:
        import onnxruntime

        onnx = onnxruntime.__version__
    except ImportError:
        onnx = "none"
    features = llvmlite.binding.get_host_cpu_features()
    is_estimated = ("sse4.2", "avx2", "fma", "avx512f", "avx512vl", "neon", "sve")
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "instructions": " ".join(name for name in is_estimated if features.get(name)),
        "svml": str(bool(numba.config.USING_SVML)),
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-image": skimage.__version__,
        "onnxruntime": onnx,
    }


def digest(value: Any) -> str:
    """Hash the values alone: whole numbers are the same as integers and as floats, text and mappings as they are."""
    if isinstance(value, str):
        return hashlib.sha256(value.encode()).hexdigest()[:16]
    if isinstance(value, dict):
        return digest(" ".join(f"{name}={digest(value[name])}" for name in sorted(value)))
    array = np.asarray(value)
    if array.dtype.kind in "biuf" and array.size and np.array_equal(array, np.rint(array)):
        array = array.astype(np.int64)
    if array.dtype.kind in "iu":
        array = array.astype(np.int64)
    return hashlib.sha256(f"{array.shape}{array.dtype.str}".encode() + array.tobytes()).hexdigest()[:16]


def digests(kept: dict[str, Any]) -> dict[str, Any]:
    """Hashes by name; log posteriors and short texts and counts as they are."""
    found: dict[str, Any] = {}
    for name, value in kept.items():
        if name == "log posterior":
            found[name] = [float(f"{one:.{DIGITS}g}") for one in value]
        elif name == "files" or name.endswith((" columns", " counts")):
            found[name] = value
        else:
            found[name] = digest(value)
    return found


def read() -> dict[str, Any]:
    """The record of the repository."""
    return dict(json.loads(RECORD.read_text(encoding="utf-8")))


def compute(only: str = "") -> dict[str, Any]:
    """The digests of all cases with `only` in their name."""
    from frozen.cases import all_cases

    found = {}
    for name, case in all_cases().items():
        if only in name:
            began = time.perf_counter()
            found[name] = digests(case.make())
            print(f"{time.perf_counter() - began:6.2f} s  {name}", file=sys.stderr, flush=True)
    return found


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Names of the digests that differ."""
    return sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=RECORD, help="file to write")
    parser.add_argument("--compare", type=Path, help="compare with this record and write nothing")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--sessions", type=Path, metavar="FOLDER", help="write session files and nothing else")
    arguments = parser.parse_args()
    if arguments.sessions:
        from frozen import sessions

        for name in sessions.SESSIONS:
            if arguments.only in name:
                path = sessions.write(name, arguments.sessions)
                print(f"{path.stat().st_size / 1000:6.0f} kB  {path}", file=sys.stderr)
        return 0
    found = compute(arguments.only)
    if arguments.compare:
        before = json.loads(arguments.compare.read_text(encoding="utf-8"))["cases"]
        different = {name: keys for name in found if (keys := differences(before.get(name, {}), found[name]))}
        for name, keys in different.items():
            print(f"{name}: {', '.join(keys)}")
        print(f"{len(found) - len(different)} of {len(found)} cases are the same")
        return int(bool(different))
    if arguments.only and arguments.output.exists():
        found = json.loads(arguments.output.read_text(encoding="utf-8"))["cases"] | found
    content = {"recorded with": environment(), "cases": found}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
