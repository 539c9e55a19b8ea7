"""``napari-gsw bench``: speed and memory, and a comparison with recorded ratios."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from napari_gsw.cli.options import OVERWRITE, QUIET, add_flags, output_argument
from napari_gsw.core.errors import InputError

SLOWER = 4
BENCH = "bench.json"
# Named here so that --help need not load what is measured; a test holds the two lists together.
SECTION_NAMES = ("sites", "clusters", "lambda", "oracle", "cpp", "threads", "memory", "stages", "startup", "slide")
# Ten minutes and 2 GB of disk for one line of a page: only for who names it.
ASKED_FOR = ("slide",)


def add_parser(commands: Any) -> None:
    """Add the command and its options."""
    command = commands.add_parser(
        "bench",
        usage="%(prog)s [-o OUT] [--quick] [--only NAME ...] [--compare FILE] [--record FILE]",
        help="measure how fast it is",
        description="Measure speed and memory on this machine and print a table. The ratios in it are about the same "
        "on every machine; they can be recorded, and compared with what was recorded.",
        epilog="Exit codes: 0 done, 2 wrong input, 4 a ratio is worse than recorded by more than its tolerance (each "
        "is named), 130 stopped by Ctrl+C.",
        allow_abbrev=False,
    )
    command.set_defaults(run=run)
    command.add_argument(
        "-o", "--output", metavar="OUT", type=output_argument, help="folder to write bench.json and bench.txt into"
    )
    only = f"some of {', '.join(SECTION_NAMES)} (default: all but {', '.join(ASKED_FOR)})"
    command.add_argument("--only", metavar="NAME", nargs="+", default=[], help=only)
    command.add_argument("--quick", action="store_true", help="no large cases: a minute instead of ten")
    command.add_argument("--compare", metavar="FILE", help="recorded ratios, or a bench.json, to compare with")
    command.add_argument("--record", metavar="FILE", help="write the ratios; those not measured stay as they are")
    add_flags(command, overwrite=OVERWRITE, quiet=QUIET)


def run(arguments: argparse.Namespace) -> int:
    """Run ``napari-gsw bench``."""
    from tqdm import tqdm

    from napari_gsw.files.output_folder import check_overwrite, output_folder
    from napari_gsw.research.benchmarks import sections
    from napari_gsw.research.benchmarks.report import find_regressions, read_ratios

    for name in arguments.only:
        if name not in SECTION_NAMES:
            raise InputError(f"there is no section {name!r} of the benchmark; there are {', '.join(SECTION_NAMES)}")
    wanted = arguments.only or [name for name in SECTION_NAMES if name not in ASKED_FOR]
    # All that can be wrong with the arguments is found before minutes are spent.
    recorded = None if arguments.compare is None else read_ratios(arguments.compare)
    record_file = None if arguments.record is None else Path(arguments.record)
    earlier = read_ratios(arguments.record) if record_file is not None and record_file.exists() else {}
    with ExitStack() as stack:
        folder = record_folder = None
        if arguments.output is not None:
            check_overwrite(Path(arguments.output), (BENCH, "bench.txt"), BENCH, arguments.overwrite)
            folder = stack.enter_context(output_folder(arguments.output, BENCH, arguments.overwrite))
        if record_file is not None:  # what is there was read as ratios, and is written again with those that are new
            record_folder = stack.enter_context(output_folder(record_file.parent, None, [record_file.name]))
        names = tqdm([name for name in SECTION_NAMES if name in wanted], "measuring", disable=arguments.quiet)
        report = sections.measure(names, sections.QUICK if arguments.quick else sections.FULL)
        if folder is not None:
            folder.joinpath(BENCH).write_text(json.dumps(report.to_dict(), indent=2) + "\n", encoding="utf-8")
            folder.joinpath("bench.txt").write_text(report.table() + "\n", encoding="utf-8")
        if record_folder is not None and record_file is not None:
            text = json.dumps(report.record(earlier), indent=2) + "\n"
            record_folder.joinpath(record_file.name).write_text(text, encoding="utf-8")
    worse = [] if recorded is None else find_regressions(report.ratios, recorded)
    for line in worse:
        print(f"napari-gsw: {line}", file=sys.stderr)
    if not arguments.quiet:
        print(report.table())
        if recorded is not None:
            compared = len(set(recorded) & set(report.ratios))
            print(f"\n{compared} of {len(recorded)} recorded ratios compared, {len(worse)} worse than they may be")
    return SLOWER if worse else 0
