"""Seeds known bugs one at a time and checks that the tests catch each of them: ``make mutants``.

A bug is a line of the package and what a tired programmer might have written instead, with the tests that must fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Mutant(NamedTuple):
    name: str
    file: str
    line: str
    instead: str
    tests: tuple[str, ...]


LAW = "tests/core/sampler/test_exact_law.py"
FIELD = "tests/core/sampler/test_field_law.py"
MUTANTS = (
    Mutant(
        "of a bonded group only the first site feels the field",
        "core/sampler/moves/sweep_kernels.py",
        "            total += pull[i, s]\n            i = as_int64(next_member[i])",
        "            total += pull[i, s]\n            i = as_int64(-1)",
        (FIELD, "-k", "chain_under_a_field and (lambda-1 or lambda-3)"),
    ),
    Mutant(
        "the field is counted twice",
        "core/sampler/moves/sweep_kernels.py",
        "neighbour_weight[k] += total",
        "neighbour_weight[k] += 2.0 * total",
        (FIELD, "-k", "log_posterior_that_the_kernel_keeps or next_door"),
    ),
    Mutant(
        "the field is forgotten when clusters are split or merged",
        "core/sampler/moves/split_merge_kernels.py",
        "between += field_value(target.field, i, seed)",
        "between += 0.0",
        (FIELD, "-k", "split_merge_moves_alone"),
    ),
    Mutant(
        "the field is forgotten in whole-cluster moves",
        "core/sampler/moves/regroup_kernels.py",
        "energy += field_value(target.field, i, as_int64(block_seed[place[i]]))",
        "energy += 0.0",
        (FIELD, "-k", "whole_cluster_moves"),
    ),
    Mutant(
        "the greedy ascent merges no clusters",
        "core/sampler/greedy.py",
        "has_gained = value[NOW] > 0 or merge_clusters(chain.target, chain.state, MIN_GAIN) > 0",
        "has_gained = value[NOW] > 0",
        ("tests/core/sampler/test_search.py", "-k", "ascent"),
    ),
    Mutant(
        "closed labels leave room for others",
        "core/model/priors.py",
        "log_v[self.k] = 0.0",
        "log_v[self.k :] = 0.0",
        (FIELD, "-k", "closed"),
    ),
    Mutant(
        "edges inside a spin cluster are counted (the paper's formula, read literally)",
        "core/sampler/moves/sweep_kernels.py",
        "if parent[j] != root:",
        "if True:",
        (LAW, "-k", "dirichlet-process-words and (lambda-3 or lambda-array)"),
    ),
    Mutant(
        "the factor 1 - delta is forgotten",
        "core/sampler/moves/sweep_kernels.py",
        "neighbour_weight[k] += beta[e] - x * strength[e]",
        "neighbour_weight[k] += beta[e]",
        (LAW, "-k", "dirichlet-process-words and lambda-3"),
    ),
    Mutant(
        "a drawn bond probability is not used in the conditional",
        "core/sampler/moves/sweep_kernels.py",
        "neighbour_weight[k] += beta[e] - x * strength[e]",
        "neighbour_weight[k] += beta[e] - strength[e]",
        (LAW, "-k", "dirichlet-process-words and bond"),
    ),
    Mutant(
        "spin clusters are visited in an order that looks at the labels",
        "core/sampler/moves/sweep_kernels.py",
        "        if parent[root] != root:\n            continue\n",
        "        if parent[root] != root or (root % 2 == 0 and labels[root] == labels[0]):\n            continue\n",
        (LAW, "-k", "dirichlet-process-words and lambda-0"),
    ),
    Mutant(
        "a new cluster is weighed as if there were one fewer",
        "core/sampler/moves/sweep_kernels.py",
        "score[group.fresh] = log_v[group.others + 1] + log_w[group.members]",
        "score[group.fresh] = log_v[group.others] + log_w[group.members]",
        (LAW, "-k", "dirichlet-process-words and lambda-1"),
    ),
    Mutant(
        "a cluster's present size is not taken out of its weight",
        "core/sampler/moves/sweep_kernels.py",
        "log_w[m + group.members] - log_w[m] if m > 0 else",
        "log_w[m + group.members] if m > 0 else",
        (LAW, "-k", "dirichlet-process-words and lambda-0"),
    ),
    Mutant(
        "seeds move with their spin cluster",
        "core/sampler/moves/sweep_kernels.py",
        "held = held or seeds[i] >= 0",
        "held = False",
        (LAW, "-k", "seeds"),
    ),
    Mutant(
        "whole-cluster moves forget the probabilities of the two deals",
        "core/sampler/moves/regroup_kernels.py",
        "if not math.log(1.0 - rng.random()) < change + log_q[0] - log_q[1]:",
        "if not math.log(1.0 - rng.random()) < change:",
        (LAW, "-k", "whole_cluster_moves_leave"),
    ),
    Mutant(
        "whole-cluster moves put any number of seeds into a block",
        "core/sampler/moves/regroup_kernels.py",
        "if seeds[i] >= 0 and b != owner and (owner >= 0 or block_seed[b] >= 0):",
        "if seeds[i] >= 0 and b != owner and owner >= 0:",
        (LAW, "-k", "seeds"),
    ),
    Mutant(
        "a site joins a neighbour's cluster from one that is not next door, and cannot go back",
        "core/sampler/moves/sweep_kernels.py",
        "if not scan_all and left > 0 and seen[old] != root:",
        "if not scan_all and left > 0 and seen[old] != root and n_adjacent == 0:",
        (LAW, "-k", "next_door"),
    ),
    Mutant(
        "which sweeps are full looks at the state",
        "core/sampler/chain_kernels.py",
        "scan_all = is_full_sweep(schedule.full, counted[SWEEPS])",
        "scan_all = schedule.full == 1.0 or used[CLUSTERS] % 2 == 0",
        (LAW, "-k", "next_door"),
    ),
    Mutant(
        "size limits without whole-cluster moves",
        "core/sampler/options.py",
        "regroups=int(needs_regroups(problem))",
        "regroups=0",
        ("tests/core/sampler/test_chain.py", "-k", "limits_are_crossed"),
    ),
    Mutant(
        "beyond the tables, a group is weighed as if it had not left its cluster",
        "core/sampler/moves/sweep_kernels.py",
        "            step = -unit * more if k == old else unit * more",
        "            step = unit * more",
        ("tests/core/sampler/test_chain.py", "-k", "scaled_together"),
    ),
    Mutant(
        "under size limits, which anchors open a cluster is drawn but not paid for",
        "core/sampler/moves/regroup_kernels.py",
        "            log_q += math.log(opens if open_now else 1.0 - opens)\n",
        "",
        (LAW, "-k", "their_number_has_its_law"),
    ),
    Mutant(
        "under size limits, the sizes of the clusters are drawn but not paid for",
        "core/sampler/moves/regroup_kernels.py",
        "                log_q -= math.log(span)\n",
        "",
        (LAW, "-k", "tight_limits or pitman-yor-both"),
    ),
    Mutant(
        "a chain that is sampled from a prepared image never anneals",
        "core/sampler/options.py",
        "annealing=make_annealing(settings.hot, burn_in) if settings.hot > 1 else NO_ANNEALING,",
        "annealing=NO_ANNEALING,",
        ("tests/core/pipeline/test_segment.py", "-k", "tempers_where"),
    ),
    Mutant(
        "the Gaussian part of a cluster is not renewed when a group leaves",
        "core/sampler/moves/sweep_kernels.py",
        "update_gaussian(evidence, clusters, old)",
        "pass",
        (LAW, "-k", "dirichlet-process-gaussian and lambda-0"),
    ),
    Mutant(
        "a second block of channels is weighed as the first",
        "core/sampler/cluster_statistics.py",
        "        weight = gauss[c, PIXEL_WEIGHT] * pixels",
        "        weight = gauss[0, PIXEL_WEIGHT] * pixels",
        ("tests/core/features/test_input_maps.py", "-k", "two_blocks"),
    ),
    Mutant(
        "a negative coupling makes a negative bond",
        "core/sampler/bonds.py",
        "np.maximum(problem.beta, 0) * delta",
        "problem.beta * delta",
        (LAW, "-k", "negative"),
    ),
    Mutant(
        "the histogram's total is left out",
        "core/likelihood/likelihood_tables.py",
        "_gamma_tail(-1.0, block.phi, block.weight)",
        "_gamma_tail(-1e-9, block.phi, block.weight)",
        ("tests/core/sampler/test_chain.py", "-k", "keeps_the_log_posterior and words"),
    ),
    Mutant(
        "the finite Dirichlet without Gamma(alpha) to the power -k, as in the paper",
        "core/model/priors.py",
        "log_rising_factorial(self.alpha, np.arange(n + 1))",
        "log_gamma(self.alpha + np.arange(n + 1))",
        ("tests/core/model/test_priors.py", "-k", "finite-dirichlet or drops"),
    ),
    Mutant(
        "the chain's float sums are counted again when it is restored",
        "core/sampler/snapshot.py",
        '    chain.state.clusters.moments[:, : gauss.size] = state["moments"]\n',
        "",
        ("tests/core/sampler/test_chain.py", "-k", "restored and (gaussian or mixed)"),
    ),
    Mutant(
        "the generator starts anew when a chain is restored",
        "core/sampler/snapshot.py",
        "    rng.bit_generator.state = inner\n",
        "",
        ("tests/core/sampler/test_chain.py", "-k", "restored"),
    ),
    Mutant(
        "a lock does not weigh more than paint when colours are matched",
        "core/interactive/interactive_run.py",
        "np.where(self.locks, LOCK_WEIGHT, site_pixels(self.problem))",
        "site_pixels(self.problem)",
        ("tests/core/interactive/test_interactive_run.py", "-k", "lock_keeps_its_number"),
    ),
    Mutant(
        "sums of before a correction count after it",
        "core/sampler/chain.py",
        "counted=np.array([sweep, 0, sweep]),",
        "counted=np.array([sweep, 1, sweep]),",
        ("tests/core/interactive/test_interactive_run.py", "-k", "begin_anew"),
    ),
    Mutant(
        "a freed site is bonded to its neighbours while it is drawn",
        "core/sampler/chain.py",
        "gibbs.options.replace(bonds=constant_bonds(chain.problem, 0.0), regroups=0, moves=NO_MOVES)",
        "gibbs.options.replace(regroups=0, moves=NO_MOVES)",
        ("tests/core/interactive/test_interactive_run.py", "-k", "drawn_from_its_law"),
    ),
    Mutant(
        "any paint in a site means the site",
        "core/sites/scribbles.py",
        "is_labelled = 2 * count >= n_pixels",
        "is_labelled = count > 0",
        ("tests/core/sites/test_scribbles.py",),
    ),
    Mutant(
        "the table that moves is counted among the others (rdd-CRP)",
        "research/baselines/crp.py",
        "log_all = math.log(math.exp(prior.log_gamma) + used[TABLES])",
        "log_all = math.log(math.exp(prior.log_gamma) + used[TABLES] + 1)",
        ("tests/research/baselines/test_crp.py", "-k", "exact_law and house"),
    ),
    Mutant(
        "a link to a neighbour that hangs on the site itself is taken for one that leads outside (dd-CRP)",
        "research/baselines/crp.py",
        "if inside[j] == i:\n                score[t] = f + log_own",
        "if False:\n                score[t] = f + log_own",
        ("tests/research/baselines/test_crp.py", "-k", "exact_law and ring"),
    ),
    Mutant(
        "a table of its own always opens a region (rdd-CRP)",
        "research/baselines/crp.py",
        "if k == fresh or (prior.regional and size[k] > 0):",
        "if k == fresh:",
        ("tests/research/baselines/test_crp.py", "-k", "exact_law and ring"),
    ),
)


def caught(mutant: Mutant) -> bool:
    """Return whether the named tests fail in a copy of the package that has the bug."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "napari_gsw"
        shutil.copytree(ROOT / "src" / "napari_gsw", package, ignore=shutil.ignore_patterns("__pycache__"))
        tests = Path(folder) / "tests"
        shutil.copytree(ROOT / "tests", tests, ignore=shutil.ignore_patterns("__pycache__"))
        file = package / mutant.file
        text = file.read_text()
        if mutant.line not in text:
            raise SystemExit(f"the line of this mutant is gone from {mutant.file}: {mutant.line!r}")
        file.write_text(text.replace(mutant.line, mutant.instead))
        options = ["-q", "-x", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), "--rootdir", folder]
        options += ["-o", f"pythonpath={tests}"]
        selected = [str(Path(folder) / t) if t.startswith("tests/") else t for t in mutant.tests]
        if "-k" in selected:  # a bug that needs the long runs is not caught
            selected[-1] = f"({selected[-1]}) and not long"
        run = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *selected],
            env=os.environ | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            cwd=folder,
        )
        if run.returncode not in (0, 1):
            raise SystemExit(f"{mutant.name}: the tests did not run\n{run.stdout[-3000:]}{run.stderr[-2000:]}")
        return run.returncode == 1


def main() -> int:
    with ThreadPoolExecutor(2) as pool:
        survivors = 0
        for mutant, found in zip(MUTANTS, pool.map(caught, MUTANTS), strict=True):
            print("caught  " if found else "SURVIVED", mutant.name, flush=True)
            survivors += not found
    print(f"{len(MUTANTS) - survivors} of {len(MUTANTS)} bugs caught")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
