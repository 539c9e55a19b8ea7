"""``napari-gsw evaluate``: scores of a method on a data set with human segmentations."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_gsw.cli.choices import add_choices, chosen, natural_number
from napari_gsw.core.errors import InputError
from napari_gsw.core.threads import cores

if TYPE_CHECKING:
    from napari_gsw.evaluation.data_sets import Example
    from napari_gsw.jobs.records import JobOptions

PARTLY = 3


def add_to(commands: Any) -> None:
    one = commands.add_parser(
        "evaluate",
        usage="%(prog)s (--bsds DIR [--split S] | --labelme DIR | --folder DIR) -o OUT [options]",
        help="score a method on a data set with human segmentations",
        description="Segment every image of a data set and score it against people: writes images.csv and "
        "evaluation.json into the folder OUT. A stopped run goes on where it was when it is started again.",
        epilog="Exit codes: 0 done, 2 wrong input, 3 done but for some images (named), 130 stopped by Ctrl+C.",
        allow_abbrev=False,
    )
    one.set_defaults(run=run_evaluate)
    which = one.add_argument_group("data set (one of them)")
    which.add_argument("--bsds", metavar="DIR", help="BSDS500: images/S/NAME.jpg and groundTruth/S/NAME.mat")
    which.add_argument("--split", metavar="S", help="train, val or test (may be left out if there is only one)")
    which.add_argument("--labelme", metavar="DIR", help="LabelMe: images/NAME.jpg and annotations/NAME.xml")
    which.add_argument("--folder", metavar="DIR", help="any: images/NAME.* and labels/NAME.*, label images")
    one.add_argument("-o", "--output", metavar="OUT", required=True, help="folder to write into")
    one.add_argument("--save-labels", action="store_true", help="also write every label image into OUT/labels")
    add_manner(one)
    add_choices(one)


def add_manner(command: argparse.ArgumentParser) -> None:
    """Options of everything that runs over many images."""
    command.add_argument(
        "--limit", type=natural_number, metavar="N", help="take only N images, spread evenly over the data set"
    )
    command.add_argument(
        "--jobs", type=natural_number, metavar="N", help="processes at a time (default: one for each core)"
    )
    command.add_argument("--fresh", action="store_true", help="begin anew, whatever an earlier run has left in OUT")
    command.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def manner_of(given: argparse.Namespace) -> JobOptions:
    from napari_gsw.core.pipeline.segment import warm_up
    from napari_gsw.jobs.records import JobOptions

    warm_up()  # so that the processes find everything compiled
    return JobOptions(Path(given.output), given.jobs or cores(), given.fresh, given.quiet)


def run_evaluate(given: argparse.Namespace) -> int:
    from napari_gsw.evaluation.evaluate import evaluate
    from napari_gsw.experiments.pictures import spread

    choice = chosen(given)
    examples = spread(_examples(given), given.limit)
    manner = manner_of(given)
    try:
        found = evaluate(examples, choice, manner, given.seed, given.save_labels)
    except KeyboardInterrupt:
        print("napari-gsw: stopped; the same command goes on where it was", file=sys.stderr)
        return 130
    if not given.quiet:
        print(found.table())
        print(f"{len(found.rows)} images scored, {len(found.failed)} skipped; written to {given.output}")
    return PARTLY if found.failed else 0


def _examples(given: argparse.Namespace) -> list[Example]:
    from napari_gsw.evaluation import data_sets

    named = [name for name in ("bsds", "labelme", "folder") if getattr(given, name) is not None]
    if len(named) != 1:
        raise InputError("name one data set: --bsds DIR --split S, --labelme DIR or --folder DIR")
    if given.split is not None and named != ["bsds"]:
        raise InputError("--split belongs to --bsds")
    if named == ["bsds"]:
        return bsds_examples(given.bsds, given.split)
    return data_sets.labelme(given.labelme) if named == ["labelme"] else data_sets.labelled_folder(given.folder)


def bsds_examples(folder: str, split: str | None) -> list[Example]:
    from napari_gsw.evaluation import data_sets

    if split is None:
        there = sorted(p.name for p in Path(folder, "images").glob("*") if p.is_dir())
        if len(there) > 1:
            raise InputError(f"--bsds has the splits {', '.join(there)}; choose one with --split")
        split = there[0] if there else "train"
    return data_sets.bsds(folder, split)
