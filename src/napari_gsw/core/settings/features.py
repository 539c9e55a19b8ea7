"""Settings of maps that a user brings beside the image: features, boundaries, foreground."""

from __future__ import annotations

from dataclasses import dataclass

from napari_gsw.core.settings.model import MAX_PARAMETER
from napari_gsw.core.settings.setting import POSITIVE, Options, setting

# How the range of a map's values is written.
RANGE_HELP = "auto guesses, LOW,HIGH such as 0,255, or logits for values that are log odds already."


@dataclass(frozen=True)
class InputMapSettings(Options):
    """What maps mean, and what they are worth beside the image."""

    channel_axis: str = setting(
        "auto",
        "evidence",
        "Which axis of a map of features holds its channels; auto is the one that is not the image's.",
        choices=("auto", "first", "last"),
        title="Channels of features",
    )
    components: int = setting(
        8,
        "evidence",
        "Features of more channels than this are reduced to so many principal components, each of variance 1.",
        low=1,
        high=64,
        title="Most components",
    )
    features_evidence: float | None = setting(
        20.0,
        "evidence",
        "Number of independent draws that a site's pixels are worth in a map of features; none takes every pixel.",
        kind=float,
        optional=True,
        **POSITIVE,
        high=MAX_PARAMETER,
        title="Weight of features",
    )
    boundaries_range: str = setting(
        "auto",
        "evidence",
        f"The values of a map of boundaries that mean no boundary and a certain one: {RANGE_HELP}",
        title="Range of boundaries",
    )
    boundaries_level: float = setting(
        0.5,
        "evidence",
        "Probability of a boundary at which two sites neither attract nor repel each other; smaller values make more "
        "regions.",
        low=0.0,
        exclusive_min=True,
        high=1.0,
        exclusive_max=True,
        title="Neutral probability",
    )
    boundaries_weight: float = setting(
        2.0,
        "evidence",
        "Weight of a map of boundaries: the coupling of two sites for each unit of its log odds between them.",
        low=0.0,
        high=1000.0,
        title="Weight of boundaries",
    )
    foreground_range: str = setting(
        "auto",
        "evidence",
        f"The values of a map of the foreground that mean background and certain foreground: {RANGE_HELP}",
        title="Range of foreground",
    )
    foreground_names: str = setting(
        "background",
        "evidence",
        "Which clusters a map of the foreground names: the background alone (label 1; all else may be many clusters), "
        "or both (the foreground is label 2).",
        choices=("background", "both"),
        title="Foreground names",
    )
    foreground_weight: float = setting(
        1.0,
        "evidence",
        "Weight of a map of the foreground: what a site gains in the right cluster for each unit of its log odds.",
        low=0.0,
        high=1000.0,
        title="Weight of foreground",
    )
