"""What a person reads when something goes wrong in the background."""

from __future__ import annotations

from typing import NamedTuple

from napari.utils.notifications import notification_manager, show_error

from napari_gsw.core.errors import InputError
from napari_gsw.widgets.kit.setting_control import with_titles


class WorkerFailure(NamedTuple):
    """An error as a worker's result. Raised, a RuntimeError would be swallowed by napari and any other be printed."""

    reason: Exception


def sentence(reason: Exception) -> str:
    return as_sentence(str(reason) or type(reason).__name__)


def as_sentence(text: str) -> str:
    """Words for a person: a capital at the beginning and a full stop at the end, wherever they come from.

    >>> as_sentence("the image has no pixel"), as_sentence("Run longer!"), as_sentence("")
    ('The image has no pixel.', 'Run longer!', '')
    """
    text = with_titles(text.strip())
    end = "" if text.endswith((".", "!", "?", ":", "...")) else "."
    return f"{text[0].upper()}{text[1:]}{end}" if text else ""


def report_failure(reason: Exception, who: str) -> None:
    """Bad input is a sentence; anything else is a bug, whose report napari offers behind the sentence."""
    if isinstance(reason, InputError):
        show_error(f"{who}: {sentence(reason)}")
    else:
        notification_manager.receive_error(type(reason), reason, reason.__traceback__)
