"""The states of a session, and what can be done in each: one table."""

from __future__ import annotations

ALLOWED: dict[str, frozenset[str]] = {
    "no image": frozenset(),
    "ready": frozenset({"run", "step", "form"}),
    "running": frozenset({"pause", "stop"}),
    "paused": frozenset({"pause", "step", "stop"}),
    "done": frozenset({"run", "step", "reset", "form"}),
}
