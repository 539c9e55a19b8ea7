"""The command line ``napari-gsw``.

Packages add commands by entry points of the group ``napari_gsw.commands``. Each names a module with the functions
``add_parser(subparsers)`` and ``run(arguments) -> int``. The commands for experiments come from `napari_gsw.research`
in this way.

Exit codes: 0 done; 1 a defect of the program; 2 an error that the user can mend, printed as one line; 3 done except for
some images, each named; 4 slower than recorded; 130 stopped by Ctrl+C; 143 stopped by SIGTERM.

The modules import what a command needs when the command runs, so that ``--help`` is fast.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, NoReturn

from napari_gsw.batch.interruption import exit_code, raise_on_sigterm
from napari_gsw.cli import batch, segment
from napari_gsw.cli.options import SAMPLE, open_named_image
from napari_gsw.core.errors import InputError
from napari_gsw.core.versions import package_version

COMMAND_GROUP = "napari_gsw.commands"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Command line without the program's name. By default, that of the process.
    """
    arguments = parser().parse_args(argv)
    try:
        with raise_on_sigterm():
            return int(arguments.run(arguments))
    except InputError as error:
        print(f"napari-gsw: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if not hasattr(arguments, "plugin"):
            raise
        return _report_missing_package(arguments.plugin, error)
    except KeyboardInterrupt as error:
        print("napari-gsw: stopped, nothing was written", file=sys.stderr)
        return exit_code(error)


class Parser(argparse.ArgumentParser):
    """Parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with code 2."""
        self.exit(2, f"napari-gsw: {message}; {self.prog} --help tells more\n")


def parser() -> argparse.ArgumentParser:
    """Make the parser of all commands and their options."""
    program = Parser(prog="napari-gsw", description="Bayesian image segmentation.", allow_abbrev=False)
    program.add_argument("--version", action="version", version=f"napari-gsw {package_version()}")
    commands = program.add_subparsers(required=True, metavar="COMMAND")
    segment.add_parser(commands)
    segment.add_replay_parser(commands)
    batch.add_parser(commands)
    text = "open napari with the widget docked"
    gui = commands.add_parser("gui", help=text, description=f"{text.capitalize()}.")
    gui.set_defaults(run=lambda arguments: run_gui(arguments.image))
    gui.add_argument("image", metavar="IMAGE", nargs="?", help="image file, or a sample such as sample:astronaut")
    plugins = {entry_point.name: entry_point for entry_point in reversed(entry_points(group=COMMAND_GROUP))}
    for name in sorted(plugins.keys() - commands.choices.keys()):
        _add_plugin(commands, name, plugins[name])
    return program


def _add_plugin(commands: Any, name: str, entry_point: EntryPoint) -> None:
    try:
        entry_point.load().add_parser(commands)
    except ModuleNotFoundError as error:
        missing = error
        # No argument begins with NUL, so every option counts as a plain word.
        text = f"not available: the package {error.name} is missing"
        command = commands.add_parser(name, help=text, add_help=False, prefix_chars="\0")
        command.add_argument("words", nargs="*")
        command.set_defaults(run=lambda _: _report_missing_package(name, missing))
    else:
        commands.choices[name].set_defaults(plugin=name)


def run_gui(name: str | None) -> int:
    """Open napari, with the image of a file or a sample."""
    from napari_gsw.core.image.lazy import is_lazy, to_dask_pyramid

    try:
        import napari
    except ImportError:
        raise InputError('napari is not installed; try: pip install "napari-gsw[all]"') from None
    image = None if name is None else open_named_image(name)[0]
    viewer = napari.Viewer()
    if name is not None:
        pixels = to_dask_pyramid(image) if is_lazy(image) else image
        viewer.add_image(pixels, name=Path(name.removeprefix(SAMPLE)).stem)
    viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    napari.run()
    return 0


def _report_missing_package(command: str, error: ModuleNotFoundError) -> int:
    print(
        f"napari-gsw: {command} needs the package {error.name}, which is missing; "
        'try: pip install "napari-gsw[research]"',
        file=sys.stderr,
    )
    return 2
