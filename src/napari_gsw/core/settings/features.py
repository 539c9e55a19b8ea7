"""Settings of maps that a user brings beside the image: features, boundaries, foreground."""

from __future__ import annotations

from dataclasses import dataclass

from napari_gsw.core.settings.model import MAX_PARAMETER
from napari_gsw.core.settings.setting import Options, declare_in

# How the range of a map's values is written.
RANGE_HELP = "auto guesses, LOW,HIGH such as 0,255, or logits for values that are log odds already."

# Laid out by hand, so that a setting takes few lines.
# fmt: off
evidence_setting = declare_in("evidence")


@dataclass(frozen=True)
class InputMapSettings(Options):
    """What maps mean, and what they are worth beside the image."""

    channel_axis: str = evidence_setting(
        "auto", "Which axis of a map of features holds its channels; auto is the one that is not the image's.",
        choices=("auto", "first", "last"), title="Channels of features",
    )
    components: int = evidence_setting(
        8, "Features of more channels than this are reduced to so many principal components, each of variance 1.",
        bounds="[1, 64]", title="Most components",
    )
    features_evidence: float | None = evidence_setting(
        20.0, "Number of independent draws that a site's pixels are worth in a map of features; none takes every "
        "pixel.", bounds=f"(0, {MAX_PARAMETER}]", optional=True, title="Weight of features",
    )
    boundaries_range: str = evidence_setting(
        "auto", f"The values of a map of boundaries that mean no boundary and a certain one: {RANGE_HELP}",
        title="Range of boundaries",
    )
    boundaries_level: float = evidence_setting(
        0.5, "Probability of a boundary at which two sites neither attract nor repel each other; smaller values make "
        "more regions.", bounds="(0, 1)", title="Neutral probability",
    )
    boundaries_weight: float = evidence_setting(
        2.0, "Weight of a map of boundaries: the coupling of two sites for each unit of its log odds between them.",
        bounds="[0, 1000]", title="Weight of boundaries",
    )
    foreground_range: str = evidence_setting(
        "auto", f"The values of a map of the foreground that mean background and certain foreground: {RANGE_HELP}",
        title="Range of foreground",
    )
    foreground_names: str = evidence_setting(
        "background", "Which clusters a map of the foreground names: the background alone (label 1; all else may be "
        "many clusters), or both (the foreground is label 2).",
        choices=("background", "both"), title="Foreground names",
    )
    foreground_weight: float = evidence_setting(
        1.0, "Weight of a map of the foreground: what a site gains in the right cluster for each unit of its log odds.",
        bounds="[0, 1000]", title="Weight of foreground",
    )
