"""The benchmark: what it measures is right, its table and JSON tell it, and its guard sees what has become worse."""

from __future__ import annotations

import dataclasses
import json
import types

import numpy as np
import pytest

import napari_gsw as gsw
from exact_posterior import compared, posterior
from napari_gsw.cli import main
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.research.benchmarks import cpp, report, sections
from napari_gsw.research.benchmarks.cases import label_blocks, make_photograph, make_planted, triangulate_grid
from napari_gsw.research.benchmarks.numpy_sampler import NumpySampler
from napari_gsw.research.benchmarks.report import BenchReport, BenchSection, Ratio, find_regressions, read_ratios
from napari_gsw.research.cli.bench import ASKED_FOR, SECTION_NAMES

TINY = sections.Scale(
    sites=(40, 80), clusters=(3, 5), lambdas=(0.0, 10.0), baseline_clusters=(3,), baseline_lambdas=(10.0,), n=40,
    thread_sites=40, memory=(60,), images=((24, 36), (30, 40)), sweeps=5, cold=False, starts=1, seconds=0.01,
)  # fmt: skip


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(sections, "FULL", TINY)
    monkeypatch.setattr(sections, "QUICK", TINY)


@pytest.fixture(scope="module")
def measured():
    """All sections that need no process of their own."""
    return sections.measure([n for n in SECTION_NAMES if n not in ("memory", "startup", *ASKED_FOR)], TINY)


def run(*arguments):
    return main(["bench", *(str(a) for a in arguments)])


# What is measured with and on


def test_a_planted_problem_is_planar_in_scan_order_and_has_its_clusters():
    data = make_planted(60, 4)
    assert data.counts.shape == (60, 120)
    assert (np.asarray(data.counts.sum(axis=1)) == 60).all()
    assert np.array_equal(np.unique(data.truth), np.arange(4))
    left, right = data.edges.T
    assert (left < right).all()
    assert (np.diff(left) >= 0).all()
    assert triangulate_grid(2, 3).tolist() == [
        [0, 1], [0, 3], [0, 4], [1, 2], [1, 4], [1, 5], [2, 5], [3, 4], [4, 5],
    ]  # fmt: skip
    for rows, columns, clusters in ((25, 40, 12), (25, 40, 170), (25, 40, 200), (6, 10, 1), (1, 13, 5)):
        sizes = np.bincount(label_blocks(rows, columns, clusters))
        assert len(sizes) == clusters
        assert sizes.min() > 0


def test_the_picture_is_one_scene_at_every_size():
    small, large = make_photograph(40, 60), make_photograph(80, 120)
    assert small.shape == (40, 60, 3)
    assert small.dtype == np.uint8
    assert np.array_equal(small, make_photograph(40, 60))
    halved = large.reshape(40, 2, 60, 2, 3).mean(axis=(1, 3))
    assert np.corrcoef(small.ravel(), halved.ravel())[0, 1] > 0.8


# The plain numpy sweep


def small(lam, prior=None):
    """Four sites whose data leave many partitions probable, with couplings of both signs, and a plain chain of them."""
    rng = np.random.default_rng(4)
    edges = np.array([(0, 1), (1, 2), (2, 3), (0, 2)])
    counts = [rng.integers(0, 6, (4, 4)), rng.integers(0, 3, (4, 3))]
    problem = gsw.Problem.from_counts(
        counts, edges, [0.7, 0.5, -0.3, 0.4], prior or gsw.PitmanYor(0.5, 0.3), 6.0, evidence=[4.0, None]
    )
    return problem, NumpySampler(problem, [0, 0, 1, 2], lam, seed=1)


@pytest.mark.parametrize(("lam", "prior"), [(0.0, None), (3.0, gsw.DirichletProcess(1.0).truncated(max_size=3))])
def test_the_plain_sweep_samples_the_posterior(lam, prior):
    """An honest rival: the law it visits is the enumerated one, which test_law.py holds the kernel against."""
    problem, oracle = small(lam, prior)
    base = 4 ** np.arange(4)[::-1]
    codes = np.empty(2000, np.int64)
    for t in range(len(codes)):
        oracle.sweep()
        codes[t] = canonical_labels(oracle.labels.astype(np.int32)) @ base
    found = compared(codes, *posterior(problem))
    assert found.stray == 0
    assert found.pair_z < 5
    assert found.total_variation < 2.5 * found.noise


def test_the_plain_sweep_refuses_channels():
    problem = gsw.Problem(2, (gsw.Gaussian.from_values([[0.0], [1.0]]),), [(0, 1)], 0.1, gsw.DirichletProcess(1.0))
    with pytest.raises(gsw.InputError, match="histograms"):
        NumpySampler(problem, [0, 1], 1.0)


# The sections


@pytest.mark.slow
def test_every_section_has_a_row_a_case_and_its_ratios(measured):
    rows = {name: [row[0] for row in s.rows] for name, s in measured.sections.items()}
    assert rows["sites"] == ["40 sites", "80 sites"]
    assert rows["clusters"] == ["3 clusters", "5 clusters"]
    assert rows["lambda"] == ["lambda 0", "lambda 10"]
    assert rows["stages"] == ["36 x 24 (0.00086 Mpixel)", "40 x 30 (0.0012 Mpixel)"]
    names = {
        "sites: growth, 80 sites", "clusters: cost, 5 clusters", "lambda: cost, lambda 10",
        "oracle: speed-up, lambda 10", "threads: efficiency, all cores", "stages: preparation / sampling, 36 x 24",
    }  # fmt: skip
    assert {n for n in measured.ratios if not n.startswith("cpp")} == names
    assert all(r.value > 0 and 0 < r.tolerance < 1 for r in measured.ratios.values())
    for section in measured.sections.values():
        assert all(len(row) == len(section.columns) for row in section.rows)


def test_a_ratio_is_that_of_the_numbers_beside_it(measured):
    (_, _, first, _, one), (_, _, second, _, growth) = measured.sections["sites"].rows
    assert one == 1
    assert growth == pytest.approx(second / first)
    ((_, ours, plain, factor),) = measured.sections["oracle"].rows
    assert factor == pytest.approx(ours / plain)
    head, row = measured.sections["stages"].columns, measured.sections["stages"].rows[0]
    took = dict(zip(head, row, strict=True))
    preparation = sum(took[s] for s in sections.STAGES if s != "sampling")
    assert took["prep./sampling"] == pytest.approx(preparation / took["sampling"])


def test_memory_is_that_of_a_fresh_process_and_not_of_its_parent():
    """A parent that has been large must not hide what its child takes; getrusage on Linux lets it."""
    large = np.ones(30_000_000)
    section = sections.measure_memory((20_000,))
    ((name, traced, resident, whole),) = section.rows
    assert name == "20,000 sites"
    assert traced > make_planted(20_000, 12).make_problem().evidence.table.nbytes / 20_000  # the tables must be in it
    assert whole == pytest.approx(20_000 * traced / 1e6)
    assert whole * 1e6 < large.nbytes
    assert resident is None or resident > traced / 2
    assert list(section.ratios) == ["bytes per site, 20,000 sites"]  # too few for the resident ones


def test_a_slide_is_measured_stage_by_stage(monkeypatch):
    pytest.importorskip("zarr")
    painted = {}
    paint = sections.write_slide
    monkeypatch.setattr(sections, "write_slide", lambda image, *more: (paint(image, *more), painted.update(at=image)))
    section = sections.measure_slide(300)
    assert not painted["at"].exists(), "what was painted stays on the disk"
    assert [row[0] for row in section.rows] == [
        sections.SLIDE_STAGES[name] for name in sections.SLIDE_STAGES if name != "assembly"
    ]
    assert all(seconds > 0 for _, seconds, _, _ in section.rows)
    assert section.facts["pixels"] == 300**2
    assert 300 <= section.facts["sites"] <= 1200
    assert section.facts["sweeps"] == gsw.preset("general").sweeps
    table = BenchReport({}, {"slide": section}).table()
    assert f"{section.facts['sites']:,} sites" in table


@pytest.mark.parametrize("keeps", [True, False])
def test_a_fresh_process_says_how_long_it_took_with_bytecode_or_without(keeps, tmp_path):
    assert min(sections.time_process(sections.SCRIPTS["napari-gsw --help"], tmp_path, keeps)) > 0
    assert any(tmp_path.rglob("cli/__init__*.pyc")) == keeps


def test_start_takes_the_least_of_fresh_processes(monkeypatch):
    asked, folders = [], []
    kept = iter([2.0, 1.0, 0.8, 5.0, 2.5, 1.1, 0.6, 6.0])
    without = iter([4.5, 3.0, 2.5, 9.0, 4.0, 2.0, 1.0, 8.0])

    def seconds_of(script, folder, keeps_bytecode=True, kernels=None):
        asked.append((script, keeps_bytecode))
        if kernels is not None:
            folders.append(kernels)
            return 17.0, [60.0, 50.0][len(folders) - 1]
        processor = next(kept if keeps_bytecode else without)
        return processor, processor + 1

    monkeypatch.setattr(sections, "time_process", seconds_of)
    section = sections.measure_startup(True, repeats=2)
    assert [row[1:] for row in section.rows] == [
        [2.0, 1.0, 4.0, 1.0],
        [1.0, 0.5, 2.0, 0.5],
        [0.6, 0.3, 1.0, 0.25],
        [5.0, 2.5, 8.0, 2.0],
        [None, None, 50.0, 10.0],
    ]
    assert {name: ratio.value for name, ratio in section.ratios.items()} == {
        "import napari_gsw": 0.5,
        "import napari_gsw, without bytecode": 0.5,
        "napari-gsw --help": 0.3,
        "napari-gsw --help, without bytecode": 0.25,
        "segment": 2.5,
        "segment, without bytecode": 2.0,
        "segment, cold, on the wall": 10.0,
    }
    assert asked[:8] == asked[8:16]  # in turn, with the kernels that everybody has
    assert asked[16:] == [(sections.SCRIPTS["segment"], False)] * 2
    assert len(set(folders)) == 2  # nothing is compiled for the second


CPP = dataclasses.replace(TINY, baseline_clusters=(3,), baseline_lambdas=(10.0,))


def test_cpp_says_when_there_is_no_compiler(monkeypatch):
    monkeypatch.setattr(cpp, "find_compiler", lambda: None)
    section = sections.compare_with_cpp(CPP)
    assert section.rows == [["no compiler", None, None, None]]
    assert section.ratios == {}


def test_cpp_is_asked_for_the_same_problem_and_its_best_counts(monkeypatch):
    asked, speeds = [], iter([100.0, 300.0, 400.0, 200.0, 50.0])

    def speed(program, problem, lam, sweeps, init, repeats):
        asked.append((problem.n, lam, len(init), program))
        return {"sweeps_per_second": next(speeds)}

    fake = types.SimpleNamespace(find_compiler=lambda: "c++", build=lambda folder: "built", measure_speed=speed)
    monkeypatch.setattr(sections, "cpp", fake)
    section = sections.compare_with_cpp(CPP)
    ((name, ours, theirs, ratio),) = section.rows
    assert asked == [(40, 10.0, 40, "built")] * 5
    assert (name, theirs) == ("3 clusters, lambda 10", 400.0)
    assert section.ratios[f"ours / C++, {name}"].value == ratio == ours / 400.0


# Table, JSON and guard


def test_the_table_is_aligned(measured):
    lines = measured.table().splitlines()
    assert str(report.count_cores()) in lines[0]
    for name, section in measured.sections.items():
        head = next(i for i, line in enumerate(lines) if line.startswith(f"{name}: "))
        table = lines[head + 1 : head + 2 + len(section.rows)]
        assert len({len(line) for line in table}) == 1
        for column in section.columns[1:]:
            assert column in table[0]
        for row, line in zip(section.rows, table[1:], strict=True):
            assert line.strip().startswith(row[0])


def test_the_machine_is_told_without_names_or_paths():
    import getpass
    import platform

    facts = report.describe_machine()
    assert {"cores", "cpu", "system", "python", "numba", "numpy", "napari-gsw"} <= set(facts)
    text = json.dumps(facts)
    assert platform.node() not in text
    assert "/" not in text.replace(report.cpu_name(), "")
    assert getpass.getuser() not in text


@pytest.mark.parametrize(
    ("ratio", "fine", "worse"), [(Ratio(2, "low", 0.3), 2.5, 2.7), (Ratio(2, "high", 0.3), 1.6, 1.5)]
)
def test_the_guard_flags_what_is_worse_and_nothing_else(ratio, fine, worse):
    def regressions(value):
        return find_regressions({"x": dataclasses.replace(ratio, value=value)}, {"x": ratio, "not measured": ratio})

    assert regressions(fine) == regressions(2 if fine > 2 else 4) == []
    assert [line.partition(" is ")[0] for line in regressions(worse)] == ["x"]


def test_numbers_are_told_with_three_digits():
    values = (None, "x", 1000, 1234.5, 12.345, 1.2345, 0.012345)
    assert [report.cell_text(v) for v in values] == ["-", "x", "1,000", "1,234", "12.3", "1.23", "0.0123"]
    (line,) = find_regressions({"cost": Ratio(1.4, "low", 0.3)}, {"cost": Ratio(1.0, "low", 0.3)})
    assert line == "cost is 1.40, recorded 1.00: worse by 40 %, 30 % allowed"


# The command


def test_bench_prints_writes_and_records(tiny, tmp_path, capsys):
    out, kept = tmp_path / "new" / "out", tmp_path / "benchmarks" / "recorded.json"
    assert run("--quick", "--only", "lambda", "sites", "-o", out, "--record", kept) == 0
    printed = capsys.readouterr().out
    assert sorted(p.name for p in out.iterdir()) == ["bench.json", "bench.txt"]
    assert (out / "bench.txt").read_text() == printed
    assert printed.index("sites: ") < printed.index("lambda: ")  # in the order of the table, not of the request
    made = json.loads((out / "bench.json").read_text())
    assert list(made["sections"]) == ["sites", "lambda"]
    ratios = read_ratios(kept)
    assert ratios == read_ratios(out / "bench.json")
    # What a later run does not measure stays recorded.
    assert run("--only", "clusters", "--record", kept, "-q") == 0
    assert set(read_ratios(kept)) == {*ratios, "clusters: cost, 5 clusters"}
    assert capsys.readouterr().out == ""


def test_exit_code_4_names_what_has_become_worse(tiny, tmp_path, monkeypatch, capsys):
    file = tmp_path / "recorded.json"
    fixed_section = BenchSection("t", ["", "x"], [["a", 1.0]], {"growth": Ratio(2.0, "low", 0.3)})
    monkeypatch.setattr(sections, "measure", lambda names, scale: BenchReport({}, dict.fromkeys(names, fixed_section)))
    assert run("--only", "sites", "--record", file) == 0
    assert run("--only", "sites", "--compare", file) == 0
    assert "1 of 1 recorded ratios compared, 0 worse" in capsys.readouterr().out
    content = json.loads(file.read_text())
    content["ratios"]["sites: growth"]["value"] = 1.5
    file.write_text(json.dumps(content))
    assert run("--only", "sites", "--compare", file, "-q") == 4
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "napari-gsw: sites: growth is 2.00, recorded 1.50: worse by 33 %, 30 % allowed\n"


def test_wrong_input_is_one_line_and_exit_code_2_before_anything_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sections, "measure", lambda *_: pytest.fail("measured"))
    (tmp_path / "text.json").write_text("no JSON")
    (tmp_path / "other.json").write_text("[]")
    cases = [
        (["--only", "sites", "speed"], f"no section 'speed' of the benchmark; there are {', '.join(SECTION_NAMES)}"),
        (["--compare", tmp_path / "missing.json"], "cannot be read: No such file"),
        (["--compare", tmp_path / "text.json"], "holds no ratios"),
        (["--compare", tmp_path / "other.json"], "holds no ratios"),
        (["--record", tmp_path / "other.json"], "holds no ratios"),
        (["-o", tmp_path / "text.json"], "cannot be written"),
        (["--record", tmp_path / "text.json" / "x.json"], "cannot be written"),
    ]
    before = sorted(tmp_path.rglob("*"))
    for arguments, words in cases:
        assert run(*arguments, "-q") == 2, words
        printed = capsys.readouterr()
        assert words in printed.err
        assert printed.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_the_names_on_the_command_line_are_the_sections():
    assert tuple(sections.SECTIONS) == SECTION_NAMES


def test_a_slide_is_measured_by_who_names_it(monkeypatch):
    asked = []
    monkeypatch.setattr(sections, "measure", lambda names, scale: asked.append(list(names)) or BenchReport({}, {}))
    assert run("-q") == run("-q", "--only", "slide") == 0
    assert asked == [[name for name in SECTION_NAMES if name != "slide"], ["slide"]]
