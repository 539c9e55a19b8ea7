"""Commands that come from entry points."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from napari_gsw import cli
from napari_gsw.core.errors import InputError

GOOD = """
def add_parser(subparsers):
    command = subparsers.add_parser("good", help="what is good")
    command.add_argument("--times", type=int)
    command.set_defaults(run=run)

def run(arguments):
    if arguments.times == 0:
        import no_such_package
    return arguments.times
"""


@pytest.fixture(autouse=True)
def plugins(tmp_path, monkeypatch):
    (tmp_path / "good_commands.py").write_text(GOOD)
    (tmp_path / "lacking_commands.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(tmp_path)
    group = cli.COMMAND_GROUP
    registered = EntryPoints(
        [
            EntryPoint("good", "good_commands", group),
            EntryPoint("lacking", "lacking_commands", group),
            EntryPoint("segment", "lacking_commands", group),
        ]
    )
    monkeypatch.setattr(cli, "entry_points", lambda **wanted: registered.select(**wanted))
    yield
    sys.modules.pop("good_commands", None)


def test_command_of_entry_point_runs(capsys):
    assert cli.main(["good", "--times", "3"]) == 3
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert "what is good" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["lacking"], ["lacking", "--any", "option", "-o", "x"], ["good", "--times", "0"]])
def test_missing_package_is_one_line_and_exit_code_two(words, capsys):
    assert cli.main(words) == 2
    line = capsys.readouterr().err
    assert f"{words[0]} needs the package no_such_package" in line
    assert "napari-gsw[research]" in line
    assert line.count("\n") == 1


def test_entry_point_does_not_replace_a_built_in_command(tmp_path):
    with pytest.raises(SystemExit):
        cli.main(["segment", "--help"])


def test_no_entry_points_leave_the_built_in_commands(monkeypatch, capsys):
    monkeypatch.setattr(cli, "entry_points", lambda **_: EntryPoints())
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert "segment" in capsys.readouterr().out


def test_missing_module_of_a_built_in_command_is_a_defect(monkeypatch):
    def run_gui(arguments):
        raise ModuleNotFoundError("No module named 'x'", name="x")

    monkeypatch.setattr(cli, "run_gui", run_gui)
    with pytest.raises(ModuleNotFoundError):
        cli.main(["gui"])


def test_input_error_is_one_line(monkeypatch, capsys):
    def run_gui(arguments):
        raise InputError("no such image")

    monkeypatch.setattr(cli, "run_gui", run_gui)
    assert cli.main(["gui"]) == 2
    assert capsys.readouterr().err == "napari-gsw: no such image\n"
