"""What a person reads when something goes wrong in the background."""

from __future__ import annotations

from typing import NamedTuple

from napari.utils.notifications import notification_manager, show_error

from napari_gsw.core.errors import InputError


class WorkerFailure(NamedTuple):
    """An error as a worker's result. Raised, a RuntimeError would be swallowed by napari and any other be printed."""

    reason: Exception


def sentence(reason: Exception) -> str:
    return str(reason) or type(reason).__name__


def report_failure(reason: Exception, who: str) -> None:
    """Bad input is a sentence; anything else is a bug, whose report napari offers behind the sentence."""
    if isinstance(reason, InputError):
        show_error(f"{who}: {sentence(reason)}")
    else:
        notification_manager.receive_error(type(reason), reason, reason.__traceback__)
