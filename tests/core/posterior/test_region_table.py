"""The table of labels against scikit-image and slow obvious code, in memory and in blocks, for every view."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from skimage.measure import regionprops

import napari_gsw as gsw
from napari_gsw.core.errors import InputError
from napari_gsw.core.posterior.region_table import measure_labels
from napari_gsw.sample_data import mosaic, mosaic_3d


def blobs(shape, seed=0):
    """Labels with gaps between their numbers, some in several parts, on a background; and an image of two channels."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 8, [-(-n // 5) for n in shape])
    labels = coarse
    for axis in range(len(shape)):
        labels = labels.repeat(5, axis)
    labels = labels[tuple(slice(n) for n in shape)] * 3
    labels[(3,) * len(shape)] = 100  # one pixel
    return labels.astype(np.uint16), rng.normal(1000, 5, (*shape, 2))


def neighbours_of(labels, number):
    """The slow obvious way: shift the mask by a pixel each way."""
    inside = np.pad(labels == number, 1)
    grown = np.zeros_like(inside)
    for axis, step in itertools.product(range(labels.ndim), (-1, 1)):
        grown |= np.roll(inside, step, axis)
    return sorted(set(np.unique(np.pad(labels, 1)[grown])) - {0, number})


@pytest.mark.parametrize(("shape", "scale"), [((33, 41), (1, 1)), ((33, 41), (0.5, 0.5)), ((12, 17, 21), (2, 0.5, 1))])
def test_every_column_against_scikit_image_and_slow_code(shape, scale):
    labels, image = blobs(shape)
    letters = "zyx"[-len(shape) :]
    table = measure_labels(labels, image, letters.upper() + "C", scale=scale, unit="µm", names=("a", "b"))
    regions = regionprops(labels, spacing=scale)
    assert table["index"].tolist() == [region.label for region in regions]
    flat = len(shape) == 2
    for row, region in enumerate(regions):
        inside = labels == region.label
        expected = {
            "pixels": inside.sum(),
            "area (µm²)" if flat else "volume (µm³)": region.area,
            "share (%)": 100 * inside.mean(),
            "mean_a": image[inside, 0].mean(),
            "median_b": np.median(image[inside, 1]),
            "sd_b": image[inside, 1].std(),
            "major_axis (µm)": region.axis_major_length,
            **{f"centroid_{a} (µm)": c for a, c in zip(letters, region.centroid, strict=True)},
            **{f"first_{a}": c for a, c in zip(letters, region.bbox, strict=False)},
            **{f"end_{a}": c for a, c in zip(letters, region.bbox[len(shape) :], strict=True)},
        }
        if inside.sum() > 1:  # scikit-image has no solidity of uneven voxels in a cube of one
            expected["solidity"] = region.solidity
        if flat:
            expected |= {"perimeter (µm)": region.perimeter, "eccentricity": region.eccentricity}
            expected |= {"minor_axis (µm)": region.axis_minor_length}
        for name, value in expected.items():
            assert table[name][row] == pytest.approx(value, rel=1e-9, abs=1e-6), name
        assert table["neighbours"][row] == " ".join(map(str, neighbours_of(labels, region.label)))


def test_blocks_give_what_the_image_in_memory_gives():
    dask = pytest.importorskip("dask.array")
    labels, image = blobs((37, 53), 1)
    near = measure_labels(labels, image, "YXC", scale=(2, 2))
    far = measure_labels(
        dask.from_array(labels, chunks=(10, 16)), dask.from_array(image, chunks=(20, 9, 1)), "YXC", scale=(2, 2)
    )
    assert set(near) - set(far) == {"median_1", "median_2", "perimeter", "solidity"}
    for name, column in far.items():
        if column.dtype == object:
            assert column.tolist() == near[name].tolist()
        else:
            assert column == pytest.approx(near[name], rel=1e-9, abs=1e-6), name


def test_large_numbers_and_no_label_at_all():
    labels = np.zeros((6, 7), np.uint32)
    assert all(len(column) == 0 for column in measure_labels(labels, np.ones((6, 7)), "YX").values())
    labels[:3, :2], labels[3:, :2] = 4_000_000_000, 4_294_967_295
    table = measure_labels(labels)
    assert table["index"].tolist() == [4_000_000_000, 4_294_967_295]
    assert table["neighbours"].tolist() == ["4294967295", "4000000000"]


@pytest.mark.parametrize(
    ("labels", "given", "word"),
    [
        (np.ones((4, 4)), {}, "whole numbers"),
        (np.ones(4, int), {}, "2 or 3 dimensions"),
        (np.ones((4, 4), int), {"scale": (1,)}, "scale"),
        (np.ones((4, 4), int), {"scale": (0, 1)}, "scale"),
        (np.ones((4, 4), int), {"image": np.ones((4, 5))}, "do not lie on"),
    ],
)
def test_what_cannot_be_measured_is_said(labels, given, word):
    with pytest.raises(InputError, match=word):
        measure_labels(labels, **given)


SMALL = {"sweeps": 12, "min_region": 8}
PICTURES = {"2D": (mosaic()[0][:48, :56], "YXS"), "3D": (mosaic_3d()[0][:8, :24, :24], "ZYX")}


@pytest.mark.parametrize("view", ["clusters", "regions", "objects"])
@pytest.mark.parametrize(
    ("preset", "picture"),
    [("general", "3D"), ("photo", "2D"), ("microscopy", "2D"), ("membranes", "2D"), ("paper", "2D")],
)
def test_every_label_has_its_row_and_its_area(preset, picture, view):
    image, axes = PICTURES[picture]
    result = gsw.segment(image, preset=preset, axes=axes, view=view, **SMALL)
    table = result.table(image, axes)
    numbers, pixels = np.unique(result.labels[result.labels > 0], return_counts=True)
    assert table["index"].tolist() == numbers.tolist()
    assert table["pixels"].tolist() == pixels.tolist()
    assert table["area" if picture == "2D" else "volume"].tolist() == pixels.tolist()
    for name in ("stability", "one_object"):
        known = table[name][np.isfinite(table[name])]
        assert ((known >= 0) & (known <= 1)).all()
    if view == "clusters":
        assert table["cluster"].tolist() == numbers.tolist()
        assert table["sites"].sum() == result.n_sites


def test_how_sure_a_label_is_against_slow_obvious_code():
    image, axes = PICTURES["2D"]
    result = gsw.segment(image, axes=axes, view="regions", **SMALL | {"sweeps": 40})
    table, problem, together = result.table(image, axes), result.problem, result.snapshot.together
    numbers, clusters = result.regions, result.clusters
    assert len(result.draws)
    for row, number in enumerate(table["index"]):
        total = weight = 0.0
        for (i, j), p, length in zip(problem.edges, together, problem.graph.length, strict=True):
            ends = [numbers[i], numbers[j]]
            shown = p if ends[0] == ends[1] else 1 - p
            if number in ends and (ends[0] == ends[1] or clusters[i] != clusters[j]):
                total += ends.count(number) * length * shown
                weight += ends.count(number) * length
        assert table["stability"][row] == (
            pytest.approx(total / weight) if weight else pytest.approx(np.nan, nan_ok=True)
        )
        inside = numbers == number
        size = problem.graph.pixels
        largest = [np.bincount(draw[inside], size[inside]).max() for draw in result.draws]
        one = np.array(largest) >= 0.9 * size[inside].sum()
        assert table["one_object"][row] == pytest.approx(np.mean(one))
        assert table["sites"][row] == inside.sum()
