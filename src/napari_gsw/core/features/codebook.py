"""Words: the centres of k-means in a perceptual space, learnt from one image or from many."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import ChannelImage
from napari_gsw.core.errors import InputError, check_integer, check_number, check_seed, to_array, to_float_array
from napari_gsw.core.features.word_kernels import nearest
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.sites.adjacency_kernels import sum_over_sites

# Pixels that k-means looks at; more of them move the words by less than the words' own scatter.
LEARNING_PIXELS = 20_000
ROUNDS = 15
# Far beyond any colour; the square of a larger one might not be finite.
MOST_SOFTNESS = 1e100


@dataclass(frozen=True, eq=False)
class Codebook:
    """A list of words, each a point of a feature space.

    Attributes
    ----------
    centres : (words, channels) float32.
    space : what the channels are: ``lab``, ``hsv``, ``channels`` or ``texture``; a codebook only fits its own space.
    softness : within about what distance words are shades of one, so that a pixel of one counts for the others too;
        0 where each stands for itself.
    """

    centres: ChannelImage
    space: str
    softness: float = 0.0

    def __post_init__(self) -> None:
        centres = to_float_array("centres", self.centres)
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(centres, dtype=np.float32)
        if rows.ndim != 2 or rows.size == 0 or not np.isfinite(rows).all():
            raise InputError(f"centres must be rows of finite numbers of one length, not shape {rows.shape}")
        object.__setattr__(self, "centres", rows)
        object.__setattr__(self, "softness", check_number("softness", self.softness, 0, MOST_SOFTNESS))

    @classmethod
    def fit(
        cls, images: ArrayLike | Sequence[ArrayLike], words: int = 120, axes: str = "auto", seed: int = 0
    ) -> Codebook:
        """Learn colour words from one image (an array) or from many (a list of arrays).

        Parameters
        ----------
        images : as :func:`~napari_gsw.core.image.normalized_image.normalize_image` takes them.
            Each of several images has the same weight.
        words : number of words. Fewer come back when the images have fewer different colours.
        axes : order of the axes, for all images.
        seed : the same seed gives the same words.
        """
        words, seed = check_integer("words", words, 1), check_seed(seed)
        many: Sequence[Any] = images if isinstance(images, (list, tuple)) else [images]
        pictures = [normalize_image(image, axes) for image in many]
        if len({p.rgb for p in pictures}) > 1:
            raise InputError("a codebook needs images that are all RGB or all not")
        space = "lab" if pictures and pictures[0].rgb else "channels"
        return cls.learn([p.channels for p in pictures], words, space, seed)

    @classmethod
    def learn(
        cls, arrays: Sequence[ChannelImage], words: int, space: str, seed: int = 0, pixels: int = LEARNING_PIXELS
    ) -> Codebook:
        """Learn words from `pixels` of the values that have been computed already, each array (..., channels)."""
        if not arrays:
            raise InputError("a codebook needs at least one image to learn from")
        if len({a.shape[-1] for a in arrays}) > 1:
            raise InputError("a codebook needs images with the same number of channels")
        rng = np.random.default_rng(seed)
        share = -(-pixels // len(arrays))
        rows = [a.reshape(-1, a.shape[-1]) for a in arrays]
        sample = np.concatenate(
            [r if len(r) <= share else r[np.sort(rng.choice(len(r), share, replace=False))] for r in rows]
        ).astype(np.float32)
        centres = find_distinct_rows(sample)
        if len(centres) > words:
            centres = run_kmeans(sample, centres[rng.choice(len(centres), words, replace=False)])
        order = np.lexsort(centres.T[::-1])
        return cls(np.ascontiguousarray(centres[order]), space)

    def thinned(self, gap: float) -> Codebook:
        """The same words without those that are nearer than a gap to one that comes before."""
        if gap <= 0:
            return self
        kept: list[int] = []
        for k, centre in enumerate(self.centres):
            if not kept or np.linalg.norm(self.centres[kept] - centre, axis=1).min() >= gap:
                kept.append(k)
        return replace(self, centres=self.centres[kept])

    def words(self, values: ChannelImage) -> NDArray[np.int32]:
        """The word of each pixel: (..., channels) -> (...)."""
        values = to_array("values", values)
        if values.dtype.kind not in "buif":
            raise InputError(f"values must hold numbers, not {values.dtype}")
        channels, own = values.shape[-1] if values.ndim else 0, self.centres.shape[1]
        if channels != own:
            raise InputError(f"the codebook has words of {own} channels, but the image has {channels}")
        with np.errstate(over="ignore"):
            flat = np.ascontiguousarray(values.reshape(-1, values.shape[-1]), dtype=np.float32)
        if values.dtype != np.float32 and np.isinf(flat).any():
            raise InputError(f"values must be numbers up to {np.finfo(np.float32).max:.3g}; scale them down")
        return nearest(flat, self.centres).reshape(values.shape[:-1])

    def save(self, path: str | PathLike[str]) -> None:
        """Write the codebook as JSON: its space, and the centres as numbers that are read back exactly."""
        rows = ",\n".join(json.dumps([float(f"{x:.9g}") for x in row]) for row in self.centres)
        soft = f'"softness": {json.dumps(self.softness)}, ' if self.softness else ""
        text = f'{{"space": {json.dumps(self.space)}, {soft}"centres": [\n{rows}\n]}}\n'
        target = Path(path)
        new = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            new.write_text(text, encoding="utf-8")
            os.replace(new, target)  # what was there stays until the new one is complete
        except OSError as reason:
            raise InputError(f"codebook {str(path)!r} cannot be written: {reason.strerror or reason}") from None
        finally:
            with suppress(OSError):
                new.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Codebook:
        """Read a codebook that :meth:`save` wrote; anything else is an :class:`InputError`."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            with np.errstate(over="ignore"):  # what float32 does not hold is refused below, as infinite
                centres = np.array(content["centres"], dtype=np.float32)
            space = str(content["space"])
            softness = check_number("softness", content.get("softness", 0.0), 0, MOST_SOFTNESS)
        except OSError as reason:
            raise InputError(f"codebook {str(path)!r} cannot be read: {reason.strerror}") from None
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as reason:
            raise InputError(f"{str(path)!r} is not a codebook: {reason}") from None
        if centres.ndim != 2 or centres.size == 0 or not np.isfinite(centres).all():
            raise InputError(f"{str(path)!r} is not a codebook: centres must be rows of finite numbers of one length")
        return cls(centres, space, softness)


def find_distinct_rows(values: ChannelImage) -> ChannelImage:
    """The rows of (pixels, channels) that differ, each once and in ascending order."""
    ordered = values[np.lexsort(values.T[::-1])]
    new = np.ones(len(ordered), bool)
    np.any(ordered[1:] != ordered[:-1], axis=1, out=new[1:])
    return ordered[new]


def run_kmeans(values: ChannelImage, centres: ChannelImage) -> ChannelImage:
    """K-means of (pixels, channels) from given centres. A centre that is nobody's nearest stays where it is."""
    before = np.empty(0, np.int32)
    for _ in range(ROUNDS):
        words = nearest(values, centres)
        if np.array_equal(words, before):
            break
        total, pixels = sum_over_sites(values, words + np.int32(1), len(centres))
        means = (total / np.maximum(pixels, 1)[:, np.newaxis]).astype(np.float32)
        centres, before = np.where(pixels[:, np.newaxis] > 0, means, centres), words
    return centres


@lru_cache
def load_builtin_codebook(space: str) -> Codebook:
    """The words that come with the package, learnt from photographs: ``lab``, ``hsv`` or ``texture``."""
    with resources.as_file(resources.files("napari_gsw") / "data" / f"codebook_{space}.json") as path:
        return Codebook.load(path)
