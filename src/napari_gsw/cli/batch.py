"""``napari-gsw batch FOLDER -o OUT``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from napari_gsw.batch.interruption import exit_code
from napari_gsw.cli import options
from napari_gsw.cli.options import MAPS, add_flags, print_remark
from napari_gsw.core.errors import InputError
from napari_gsw.core.threads import count_cores


def add_parser(commands: Any) -> None:
    """Add the command and its options."""
    command = commands.add_parser(
        "batch",
        usage="%(prog)s FOLDER -o OUT [options]",
        help="segment every image of a folder",
        description="Segment every image of a folder, each as `napari-gsw segment` does it alone: writes NAME.tif, "
        "NAME.provenance.json and (if the method samples) NAME.trace.csv into OUT, and batch.csv with a row an image "
        "and batch.json. A stopped run goes on with --resume.",
        epilog="Exit codes: 0 done, 2 wrong input (one line tells; nothing was begun), 3 done but for some images "
        "(each named), 130 stopped by Ctrl+C or 143 by the system (finished images are kept; --resume goes on).",
        allow_abbrev=False,
    )
    command.set_defaults(run=run_batch_command)
    add = command.add_argument
    add("folder", metavar="FOLDER", help="folder of images: TIFF, PNG, JPEG, NumPy, zarr ...")
    options.add_output(command, "folder to write into, another than FOLDER")
    add_flags(command, recursive="also the images of sub-folders, into such of OUT")
    add("--pattern", metavar="GLOB", default="*", help="only images of this name, such as 'cell_*.tif'")
    add("--limit", type=options.natural_number, metavar="N", help="only the first N images")
    add("--format", choices=("tif", "png", "zarr"), default="tif", help="format of the labels (default tif)")
    text = "label image of what was painted on --image: every image of FOLDER is segmented together with that one, "
    text += "so that labels mean the same; may be repeated, each with an --image"
    add("--teach", action="append", default=[], metavar="PAINTED", help=text)
    add("--image", action="append", default=[], metavar="IMAGE", help="the image that --teach was painted on")
    for name in MAPS:
        text = f"map of {name} for each image, such as 'maps/{{stem}}.tif' (evidence.md)"
        add(f"--{name}", metavar="PATTERN", help=text)
    options.add_output_options(command)
    add_flags(
        command.add_mutually_exclusive_group(),
        resume="go on where an earlier run was: what it made of the same images with the same settings is kept",
        overwrite="begin anew, writing over what an earlier run has left in OUT, and over files in the way not ours",
    )
    text = "processes at a time (default: one for each core); 1 works in this one"
    add("--jobs", type=options.natural_number, metavar="N", help=text)
    text = "try an image again so often after a failure that may pass: a file server, a dead process (default 1)"
    add("--retries", type=options.whole_argument, metavar="N", default=1, help=text)
    text = "work on the Dask cluster of this scheduler, tcp://HOST:8786 or its scheduler file; its workers must see "
    text += "FOLDER and OUT under the same paths. `local` starts one of --jobs processes here"
    add("--scheduler", metavar="ADDRESS", help=text)
    add_flags(command, dashboard="tell where the dashboard of the cluster is", quiet=options.QUIET)
    options.add_choices(command)


def run_batch_command(arguments: argparse.Namespace) -> int:
    """Segment every image of a folder."""
    from napari_gsw.batch import BatchOptions, BatchSpec, ReferenceImage, Selection, run_batch_spec
    from napari_gsw.files.results import make_printable

    if arguments.seed == options.RANDOM and arguments.resume:
        raise InputError("--resume goes on with the seed of the run before, which is in batch.json: --seed N")
    images, painted = arguments.image, arguments.teach
    if len(images) != len(painted):
        raise InputError(f"each --teach needs its --image: there are {len(painted)} --teach, but {len(images)} --image")
    pairs = zip(images, painted, strict=True)
    spec = BatchSpec(
        Path(arguments.folder),
        options.resolve_choice(arguments, shared=bool(painted)),
        arguments.seed,
        Selection(arguments.recursive, arguments.pattern, arguments.limit),
        arguments.format,
        options.make_output_options(arguments),
        tuple(ReferenceImage(Path(image).absolute(), Path(paint).absolute()) for image, paint in pairs),
        {name: pattern for name in MAPS if (pattern := getattr(arguments, name)) is not None},
    )
    batch_options = BatchOptions(
        Path(arguments.output),
        arguments.jobs or count_cores(),
        fresh=arguments.overwrite,
        quiet=arguments.quiet,
        retries=arguments.retries,
        overwrite=arguments.overwrite,
        resume=arguments.resume,
        scheduler=arguments.scheduler,
        dashboard=arguments.dashboard,
    )
    if arguments.dashboard and arguments.scheduler is None:
        print_remark("there is no dashboard without a cluster; --scheduler local has one")
    try:
        rows = run_batch_spec(spec, batch_options)
    except KeyboardInterrupt as error:
        print_remark("stopped; finished images are kept, and --resume goes on")
        return exit_code(error)
    failed = sum(row["status"] == "failed" for row in rows)
    if not arguments.quiet:
        counts = f"{len(rows) - failed} of {len(rows)} images segmented, {failed} failed"
        print(make_printable(f"{counts}; written to {arguments.output}"))
    return options.PARTIAL_FAILURE if failed else 0
