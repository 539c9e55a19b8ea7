"""``napari-gsw evaluate``: scores of a method on a data set with human segmentations."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from napari_gsw.batch.interruption import exit_code
from napari_gsw.cli.options import (
    PARTIAL_FAILURE,
    add_choices,
    add_job_options,
    add_output,
    make_job_options,
    resolve_choice,
)
from napari_gsw.core.errors import InputError

if TYPE_CHECKING:
    from napari_gsw.research.evaluation.evaluate import Scorable

# The options of the data sets, and their layouts.
DATA_SETS = {
    "bsds": "BSDS500: images/S/NAME.jpg and groundTruth/S/NAME.mat",
    "labelme": "LabelMe: images/NAME.jpg and annotations/NAME.xml",
    "folder": "any: images/NAME.* and labels/NAME.*, label images",
    "scribbles": "what people painted, and wanted: images/IMAGE.jpg, scribbles/IMAGE_USER.png and "
    "labels/IMAGE_USER.png",
}


def add_parser(commands: Any) -> None:
    """Add the command and its options."""
    command = commands.add_parser(
        "evaluate",
        usage="%(prog)s (--bsds DIR [--split S] | --labelme DIR | --folder DIR | --scribbles DIR | --easy) -o OUT "
        "[options]",
        help="score a method on a data set with human segmentations",
        description="Segment every image of a data set and score it against people: writes images.csv and "
        "evaluation.json into the folder OUT. A stopped run goes on where it was when it is started again.",
        epilog="Exit codes: 0 done, 2 wrong input, 3 done but for some images (named), 130 stopped by Ctrl+C, 143 by "
        "the system.",
        allow_abbrev=False,
    )
    command.set_defaults(run=run)
    group = command.add_argument_group("data set (one of them)")
    data_set = group.add_mutually_exclusive_group(required=True)
    for name, text in DATA_SETS.items():
        data_set.add_argument(f"--{name}", metavar="DIR", help=text)
    data_set.add_argument(
        "--easy",
        action="store_true",
        help="plain shapes in noise that any method must get right, drawn by the program: those that the preset is for",
    )
    group.add_argument("--split", metavar="S", help="train, val or test (may be left out if there is only one)")
    add_output(command, "folder to write into")
    for flag, text in (
        ("--ignore-background", "with --folder: leave out pixels that are 0 in the labels, such as membranes"),
        ("--save-labels", "also write every label image into OUT/labels"),
        ("--levels", "also score the hierarchy, cut at 100 thresholds: the best for the set (ODS) and for each image"),
    ):
        command.add_argument(flag, action="store_true", help=text)
    add_job_options(command)
    add_choices(command)


def run(arguments: argparse.Namespace) -> int:
    """Run ``napari-gsw evaluate``."""
    from napari_gsw.research.evaluation.data_sets import spread
    from napari_gsw.research.evaluation.evaluate import evaluate, format_table

    choice = resolve_choice(arguments)
    examples = spread(_list_examples(arguments), arguments.limit)
    job_options = make_job_options(arguments)
    try:
        evaluation = evaluate(examples, choice, job_options, arguments.seed, arguments.save_labels, arguments.levels)
    except KeyboardInterrupt as error:
        print("napari-gsw: stopped; the same command goes on where it was", file=sys.stderr)
        return exit_code(error)
    if not arguments.quiet:
        print(format_table(evaluation))
        skipped = f"{len(evaluation['failed'])} skipped; written to {arguments.output}"
        print(f"{evaluation['images']} images scored, {skipped}")
    return PARTIAL_FAILURE if evaluation["failed"] else 0


def _list_examples(arguments: argparse.Namespace) -> Sequence[Scorable]:
    from napari_gsw.research.evaluation import data_sets
    from napari_gsw.research.evaluation.easy_images import make_easy_images, select_for_preset

    if arguments.split is not None and arguments.bsds is None:
        raise InputError("--split belongs to --bsds")
    if arguments.ignore_background and arguments.folder is None:
        raise InputError("--ignore-background belongs to --folder")
    if arguments.easy:
        return select_for_preset(arguments.preset, make_easy_images())
    if arguments.bsds is not None:
        return data_sets.list_bsds(arguments.bsds, arguments.split)
    if arguments.labelme is not None:
        return data_sets.list_labelme(arguments.labelme)
    if arguments.scribbles is not None:
        return data_sets.list_scribbles(arguments.scribbles)
    return data_sets.list_labelled_folder(arguments.folder, arguments.ignore_background)
