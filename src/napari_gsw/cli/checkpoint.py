"""``segment --checkpoint FILE [--resume]``: a run that was killed goes on where it was."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from napari_gsw.core.errors import InputError

if TYPE_CHECKING:
    from napari_gsw.core.pipeline.saved_run import SavedRun
    from napari_gsw.files.autosave import Autosave
    from napari_gsw.methods.registry import Choice


class Checkpoint(NamedTuple):
    """How a run is kept, if it is, and what it goes on from, if there is something."""

    keep: Autosave | None = None
    saved: SavedRun | None = None


def add_checkpoint_options(command: argparse.ArgumentParser) -> None:
    """The options."""
    command.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="save the run to FILE (.zarr.zip) again and again and at its end; the window opens it, too",
    )
    command.add_argument(
        "--checkpoint-every", metavar="SECONDS", type=float, default=30.0, help="how often it is saved (default 30)"
    )
    command.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in the checkpoint, if there is one; the labels are those of a run that never stopped",
    )


@contextmanager
def checkpointed(
    arguments: argparse.Namespace, choice: Choice, image: Any, arrays: Mapping[str, Any]
) -> Iterator[Checkpoint]:
    """The checkpoint that the options ask for; at the end of the block the last state is on the disk."""
    if arguments.checkpoint is None:
        if arguments.resume:
            raise InputError("--resume goes on with the run in a checkpoint: name it with --checkpoint FILE")
        yield Checkpoint()
        return
    from napari_gsw.files.autosave import Autosave
    from napari_gsw.files.session_file import open_session

    if choice.method != "gsw":
        raise InputError(f"{choice.method} has no state to save; leave --checkpoint out")
    there = os.path.lexists(arguments.checkpoint)
    saved = open_session(arguments.checkpoint).run if there and arguments.resume else None
    if there and saved is None and not arguments.overwrite:
        raise InputError(f"{arguments.checkpoint!r} is there already: add --resume to go on with it, or --overwrite")
    if saved is not None:
        check_same(saved, choice, arguments.seed, image, arrays)
    place = None if arguments.image.startswith("sample:") else arguments.image
    every, overwrite = arguments.checkpoint_every, arguments.overwrite
    with Autosave(arguments.checkpoint, every, _tell, image_path=place, overwrite=overwrite) as keep:
        yield Checkpoint(keep, saved)


def check_same(saved: SavedRun, choice: Choice, seed: int, image: Any, arrays: Mapping[str, Any]) -> None:
    """Refuse to go on with a run of another image, other settings or other arrays: the labels would be of neither."""
    from napari_gsw.core.image.lazy import is_lazy
    from napari_gsw.core.pipeline.provenance import given_hashes, looks_of

    before, now = saved.settings.to_dict(), choice.settings.to_dict()
    other = [f"{name} {before[name]}, not {now[name]}" for name in now if before[name] != now[name]]
    if saved.seed != seed:
        other.append(f"seed {saved.seed}, not {seed}")
    if other:
        raise InputError(f"the checkpoint belongs to a run with other settings: {'; '.join(other)}")
    if dict(saved.looks) != looks_of(image):
        raise InputError("the checkpoint belongs to another image")
    # A lazy array is not in the session; a codebook and its softness are a matter of the settings.
    theirs = given_hashes({name: value for name, value in saved.given.items() if name not in ("codebook", "softness")})
    ours = given_hashes({name: value for name, value in arrays.items() if name in theirs or not is_lazy(value)})
    differing = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    if differing:
        raise InputError(f"the checkpoint belongs to a run with another {differing[0]}")


def _tell(sentence: str) -> None:
    print(f"napari-gsw: {sentence}", file=sys.stderr)
