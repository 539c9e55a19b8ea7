"""Figures of the pages on the model and on shared labels, of `napari-gsw reproduce limits shown shared`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from docs_tables import DATA, share, table


def _content(name: str) -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads((DATA / "reproduction" / f"{name}.json").read_text())
    return content


def _from_to(values: Sequence[float], form: str = "{:,}") -> str:
    """The least and the greatest, or the one that all are.

    >>> _from_to([4, 7, 5]), _from_to([2, 2])
    ('4 to 7', '2')
    """
    return " to ".join(dict.fromkeys(form.format(value) for value in (min(values), max(values))))


def limits_law() -> str:
    """Chains without data beside the exact law of the number of clusters."""
    content = _content("limits")
    rows = [
        [
            f"{row['n']:,}",
            f"{row['low']} to {row['high']:,}",
            f"{_from_to(row['likely'])}, mean {row['mean']:.2f}",
            _from_to(row["changes"]),
            _from_to(row["distance"], "{:.2f}"),
        ]
        for row in content["law"]
    ]
    changes = f"changes of k in {content['sweeps']:,} sweeps"
    return table(("n", "sizes", "k with probability > .001, exact mean", changes, "distance from the exact law"), rows)


def limits_photograph() -> str:
    """Chains from different starts on one photograph."""
    content = _content("limits")["photograph"]
    rows = [
        [
            name,
            ", ".join(f"{k:.1f}" for k in row["k"]),
            ", ".join(f"{count:,}" for count in row["changes"]),
            ", ".join(f"{value:,.0f}" for value in row["log_posterior"]),
            "they agree" if row["agree"] else "not settled yet",
        ]
        for name, row in content.items()
    ]
    sites = {row["sites"] for row in content.values()}
    head = ("limits and moves", "mean k of each chain", "changes of k in each", "mean log posterior of each", "verdict")
    return f"{_from_to(sorted(sites))} sites:\n\n" + table(head, rows)


def shown() -> str:
    """States of a run, and what is made of them."""
    content = _content("shown")["presets"]
    names = {
        "best": "best state: `r.snapshot.best`",
        "last": "last state: `r.snapshot`",
        "late": "states after the burn-in, mean and standard deviation",
        "consensus": "consensus: `gsw.log_posterior(r.problem, r.clusters)`",
        "regions": "regions, what is shown: `gsw.log_posterior(r.problem, r.regions)`",
    }
    rows = []
    for kind, words in names.items():
        cells = []
        for of in content.values():
            one = of[kind]
            if kind == "late":
                cells += [f"{one['mean']:,.1f}, {one['deviation']:.1f}", _from_to(one["clusters"])]
            else:
                cells += [f"{one['log_posterior']:,.1f}", str(one["clusters"])]
        rows.append([words, *cells])
    sweep = ["sweep of the best state", *(cell for of in content.values() for cell in (str(of["best_sweep"]), ""))]
    way = ["from it to the consensus", *(cell for of in content.values() for cell in (f"{of['bits']:.2f} bits", ""))]
    head = (" ", *(cell for name in content for cell in (f"`{name}`: log posterior", "clusters")))
    sites = sorted({of["sites"] for of in content.values()})
    return f"{_from_to(sites)} sites:\n\n" + table(head, [*rows, sweep, way])


def couplings() -> str:
    """Measure the couplings of each preset on one photograph, and how many of them repel."""
    rows = [
        [
            f"`{name}`",
            f"{of['couplings']['least']:.1f}",
            f"{of['couplings']['most']:.1f}",
            f"{of['couplings']['repel']:.0%}",
        ]
        for name, of in _content("shown")["presets"].items()
    ]
    return table(("sample `astronaut`", "weakest beta_ij", "strongest", "edges that repel"), rows)


def shared() -> str:
    """Measure how often paint in some images is understood in all of them."""
    content = _content("shared")
    rows = [
        [name, *(f"{of['right']} of {of['runs']}, {share(of['pixels'])} of the pixels" for of in scenes.values())]
        for name, scenes in content["moves"].items()
    ]
    return table(("moves", *next(iter(content["moves"].values()))), rows)
