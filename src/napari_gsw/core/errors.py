"""The one exception that a user can cause, and the sentence it carries."""

from __future__ import annotations


class InputError(ValueError):
    """Something the user gave cannot be used; the message is one line that says what to do.

    Every check of the package raises this and nothing else, so that the command line, the widget and a
    batch can show the sentence and leave tracebacks to real defects.
    """
