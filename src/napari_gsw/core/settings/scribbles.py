"""Settings of what strokes of a brush, or seeds, mean beyond the sites that they cover."""

from __future__ import annotations

from dataclasses import dataclass

from napari_gsw.core.settings.setting import Options, declare_in

# Laid out by hand, so that a setting takes few lines.
# fmt: off
strokes_setting = declare_in("strokes")


@dataclass(frozen=True)
class ScribbleSettings(Options):
    """What painted labels say about sites that nobody painted."""

    steering: float = strokes_setting(
        1.5, "How strongly strokes speak for sites that they do not touch but that are near and look alike; 0: a "
        "stroke only holds what it covers.", bounds="[0, 1000]", title="Reach of strokes",
    )
    painted_detail: float = strokes_setting(
        1.0, "How many times as many superpixels there are if every label is painted before the run, so that outlines "
        "follow the image more closely.", bounds="[1, 100]", title="Detail of painted labels",
    )
    only_painted: str = strokes_setting(
        "auto", "Whether every pixel gets one of the painted labels (yes) or the model may find more (no); auto is "
        "yes if two or more labels are painted before the first sweep, unless objects are looked for.",
        choices=("auto", "yes", "no"), title="Only my labels",
    )
