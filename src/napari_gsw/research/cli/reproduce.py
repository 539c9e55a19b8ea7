"""``napari-gsw reproduce``: the figures and the table of the paper, and further experiments."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from napari_gsw.batch.interruption import exit_code
from napari_gsw.cli.options import PARTIAL_FAILURE, RANDOM, add_job_options, add_output, add_seed, make_job_options
from napari_gsw.core.errors import InputError, check_seed

# The function of each experiment, in research.paper, and what it is.
EXPERIMENTS = {
    "fig1": ("prior.reproduce_fig1", "number of clusters of a Dirichlet process"),
    "fig2": ("prior.reproduce_fig2", "number of clusters against beta"),
    "fig4": ("samplers.reproduce_fig4", "log posterior for several lambda, and under strong couplings"),
    "table1": ("table1.reproduce", "mean shift, rdd-CRP and Potts-DP on both data sets"),
    "limits": ("prior.reproduce_limits", "size limits: the number of clusters that chains find, and the law of it"),
    "shown": ("joint.reproduce_shown", "the states of a chain beside what is made of them and shown"),
    "shared": ("joint.reproduce_shared", "several images: how often paint in some is understood in all"),
    "search": ("samplers.reproduce_search", "best log posterior against time for every way to search"),
    "quality": ("quality.reproduce", "our presets against other methods, and whether the uncertainty is right"),
    "maps": ("synthetic.reproduce_maps", "maps as evidence, and volumes of coarse planes, on drawn images"),
    "volumes": ("synthetic.reproduce_volumes", "nuclei in volumes made on the spot, beside other methods"),
    "cells": ("quality.reproduce_cells", "nuclei and membranes by folds, beside other methods"),
    "steering": ("scribbles.reproduce", "labels from strokes, and what each stroke of a robot is worth"),
}


def add_parser(commands: Any) -> None:
    """Add the command and its options."""
    experiments = "; ".join(f"{name}: {text}" for name, (_, text) in EXPERIMENTS.items())
    command = commands.add_parser(
        "reproduce",
        usage="%(prog)s [NAME ...] -o OUT [--quick] [--bsds DIR] [--labelme DIR] [--scribbles DIR] [--nuclei DIR] "
        "[--membranes DIR] [options]",
        help="make the figures and the table of the paper",
        description="Make the figures and the table of the paper, as PNG, CSV and JSON in the folder OUT. "
        f"{experiments}. A stopped run goes on where it was when it is started again.",
        epilog="Experiments for which there is no data set draw mosaics. Exit codes: 0 done, 2 wrong input, 3 done but "
        "for some images (named), 130 stopped, 143 by the system.",
        allow_abbrev=False,
    )
    command.set_defaults(run=run)
    command.add_argument("names", metavar="NAME", nargs="*", help=f"any of {', '.join(EXPERIMENTS)} (default: all)")
    add_output(command, "folder to write into")
    command.add_argument("--quick", action="store_true", help="few images and sweeps: minutes instead of an hour")
    for name, text in (
        ("bsds", "BSDS500: images/S/NAME.jpg and groundTruth/S/NAME.mat"),
        ("labelme", "LabelMe: images/NAME.jpg and annotations/NAME.xml"),
        ("scribbles", "images/IMAGE.jpg, scribbles/IMAGE_USER.png and labels/IMAGE_USER.png"),
        ("nuclei", "objects on a background: images/NAME.* and labels/NAME.*, label images"),
        ("membranes", "sections: images/membrane*.* and labels/membrane*.*, membranes 0"),
    ):
        command.add_argument(f"--{name}", metavar="DIR", help=text)
    command.add_argument("--split", metavar="S", help="train, val or test (may be left out if there is only one)")
    add_seed(command, "seed of everything that is drawn")
    add_job_options(command)


def run(arguments: argparse.Namespace) -> int:
    """Run ``napari-gsw reproduce``."""
    from napari_gsw.files.output_folder import check_writable
    from napari_gsw.research.evaluation import data_sets
    from napari_gsw.research.paper.experiment import BERKELEY, LABELME, Study
    from napari_gsw.research.training.couplings import membrane_examples

    for name in arguments.names:
        if name not in (*EXPERIMENTS, "all"):
            raise InputError(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    names = list(dict.fromkeys(arguments.names))
    if not names or "all" in names:
        names = list(EXPERIMENTS)
    data = {}
    if arguments.labelme is not None:
        data[LABELME] = data_sets.list_labelme(arguments.labelme)
    if arguments.bsds is not None:
        data[BERKELEY] = data_sets.list_bsds(arguments.bsds, arguments.split)
    if not data and not arguments.quiet and {"fig4", "table1"} & set(names):
        print("napari-gsw: no --bsds or --labelme: built-in pictures instead of the paper's", file=sys.stderr)
    seed = check_seed(None) if arguments.seed == RANDOM else arguments.seed or 0
    output = Path(arguments.output)
    check_writable(output, _list_files(output, names), arguments.overwrite)
    inputs: dict[str, Any] = {
        "scribbles": [] if arguments.scribbles is None else data_sets.list_scribbles(arguments.scribbles),
        "nuclei": [] if arguments.nuclei is None else data_sets.list_labelled_folder(arguments.nuclei),
        "membranes": [] if arguments.membranes is None else membrane_examples(Path(arguments.membranes)),
    }
    options = make_job_options(arguments)
    n_failed = 0
    try:
        for name in names:
            module, _, function = EXPERIMENTS[name][0].partition(".")
            study = Study(options, data, arguments.quick, seed, arguments.limit, **inputs)
            getattr(importlib.import_module(f"napari_gsw.research.paper.{module}"), function)(study)
            n_failed += len(study.failed)
    except KeyboardInterrupt as error:
        print("napari-gsw: stopped; the same command goes on where it was", file=sys.stderr)
        return exit_code(error)
    if not arguments.quiet:
        files = ", ".join(_list_files(output, names))
        print(f"written to {arguments.output}: {files}" + (f"; {n_failed} skipped" if n_failed else ""))
    return PARTIAL_FAILURE if n_failed else 0


def _list_files(folder: Path, names: list[str]) -> list[str]:
    """List the files that experiments have written into a folder, or that have such names."""
    endings = ("csv", "json", "md", "png")
    return sorted({file.name for name in names for ending in endings for file in folder.glob(f"{name}*.{ending}")})
