"""What is worth knowing of the machine beside a measurement; nothing that tells whose it is."""

from __future__ import annotations

import platform
from pathlib import Path

from napari_gsw.core.threads import count_cores
from napari_gsw.core.versions import collect_versions


def cpu_name() -> str:
    """The processor as it calls itself, or at least its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def describe_machine() -> dict[str, str | int]:
    """Cores, processor, system, and the versions that speed depends on."""
    return {"cores": count_cores(), "cpu": cpu_name(), "system": platform.system(), **collect_versions()}
