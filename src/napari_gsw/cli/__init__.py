"""The command line, one module a command: ``napari-gsw segment IMAGE -o OUT`` and so on.

Exit codes: 0 done, 1 a defect of the program, 2 something the user can mend (said in one line), 3 done but for some
images (each named), 4 slower than recorded (each ratio named), 130 stopped by Ctrl+C and 143 by the system's SIGTERM
(what was found until then is kept).

What lives here may import everything but the window; what a command needs it imports when it runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from napari_gsw.batch.interruption import exit_code, raise_on_sigterm
from napari_gsw.cli import batch, gui, replay, segment
from napari_gsw.core.errors import InputError
from napari_gsw.core.versions import package_version
from napari_gsw.research.cli import bench, evaluate, reproduce


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Parameters
    ----------
    argv : the words of the command line without the program's name; None takes those of the process.
    """
    arguments = parser().parse_args(argv)
    try:
        with raise_on_sigterm():
            return int(arguments.run(arguments))
    except InputError as reason:
        print(f"napari-gsw: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as reason:
        print("napari-gsw: stopped, nothing was written", file=sys.stderr)
        return exit_code(reason)


class Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line, like every other error."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"napari-gsw: {message}; {self.prog} --help tells more\n")


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    program = Parser(prog="napari-gsw", description="Bayesian image segmentation.", allow_abbrev=False)
    program.add_argument("--version", action="version", version=f"napari-gsw {package_version()}")
    commands = program.add_subparsers(required=True, metavar="COMMAND")
    for module in (segment, replay, batch, evaluate, reproduce, bench, gui):
        module.add_parser(commands)
    return program
