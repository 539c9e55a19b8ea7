"""Images in blocks: the same problem as in memory, in bounded memory."""

import tracemalloc

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.cli import main
from napari_gsw.core.image.block_grid import Grid, crop, make_grid, spread_tiles
from napari_gsw.core.image.lazy import is_lazy, map_blocks, open_lazy_image
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.pipeline.provenance import hash_array
from napari_gsw.core.sites.blocked_labels import BlockedLabels, CompressedArray
from napari_gsw.core.sites.superpixels import label_connected
from napari_gsw.files.images import read_image
from napari_gsw.research.evaluation.easy_images import EasyImage
from napari_gsw.scores.partitions import adjusted_rand

da = pytest.importorskip("dask.array")
zarr = pytest.importorskip("zarr")


def scene(shape=(150, 130), channels=3, seed=0):
    """Smooth regions of a few colours with noise, 8 bits."""
    rng = np.random.default_rng(seed)
    axes = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
    wave = sum(np.sin(a / (11.0 + 4 * i)) for i, a in enumerate(axes))
    kind = np.digitize(wave, [-0.7, 0.0, 0.8])
    colour = rng.integers(20, 235, (4, channels))
    image = colour[kind] + rng.normal(0, 7, (*shape, channels))
    return np.clip(image, 0, 255).astype(np.uint8)


def stored(image, chunks):
    array = zarr.create_array({}, shape=image.shape, chunks=chunks, dtype=image.dtype)
    array[...] = image
    return array


# ---- grid and mosaic


def mosaic_of(image, block):
    grid = make_grid(image.shape, block, int(np.prod(block)))
    pieces, numbers = [], []
    for index in grid:
        found, local = np.unique(np.append(0, image[grid.slices(index)]), return_inverse=True)
        pieces.append(CompressedArray.of(local[1:].reshape(image[grid.slices(index)].shape)))
        numbers.append(found.astype(np.int32))
    return BlockedLabels(grid, pieces, numbers)


@pytest.mark.parametrize("shape", [(103, 77), (23, 31, 19)])
def test_a_mosaic_reads_like_an_array(shape):
    rng = np.random.default_rng(1)
    image = rng.integers(0, 50, shape).astype(np.int32)
    mosaic = mosaic_of(image, (20,) * len(shape) if len(shape) == 2 else (7, 9, 8))
    assert len(mosaic.grid) > 8
    assert np.array_equal(np.asarray(mosaic), image)
    for _ in range(200):
        key = []
        for n in shape:
            if rng.random() < 0.3:
                key.append(int(rng.integers(-n, n)))
            else:
                a, b = sorted(rng.integers(-n - 3, n + 4, 2).tolist())
                key.append(slice(a, b, int(rng.integers(1, 9))))
        assert np.array_equal(mosaic[tuple(key)], image[tuple(key)]), key
    assert np.array_equal(mosaic[3], image[3])
    assert np.array_equal(mosaic[..., 5], image[..., 5])
    for step in (2, 3, 30):
        every = (slice(None, None, step),) * len(shape)
        assert np.array_equal(np.asarray(mosaic.coarser(step)), image[every])
    for wrong in ((0,) * 5, (slice(None, None, -1),), (shape[0],)):
        with pytest.raises(IndexError):
            mosaic[wrong]


def test_numbers_too_wide_for_16_bits_are_kept():
    wide = np.array([[0, 70_000], [3, 70_000]])
    assert np.array_equal(CompressedArray.of(wide).array(), wide)
    assert CompressedArray.of(np.arange(6).reshape(2, 3)).array().dtype == np.uint16


def test_a_grid_covers_an_image_once():
    for shape, chunks, most in [((100, 90), (13, 17), 700), ((64, 64), (64, 64), 500), ((9, 500), (9, 8), 64)]:
        grid = make_grid(shape, chunks, most)
        seen = np.zeros(shape, int)
        for index in grid:
            seen[grid.slices(index)] += 1
        assert (seen == 1).all()
        assert max(np.prod([s.stop - s.start for s in grid.slices(i)]) for i in grid) <= 3 * most
        parts = [len(range(s.start, s.stop)) for part in spread_tiles(shape, 10, 5) for s in part]
        assert max(parts) <= 5


def test_jobs_come_back_in_their_order_and_errors_come_through():
    assert map_blocks(lambda x: x * x, [(i,) for i in range(20)], lambda done: None) == [i * i for i in range(20)]
    with pytest.raises(ZeroDivisionError):
        map_blocks(lambda x: 1 // x, [(1,), (0,)], lambda done: None)


# ---- one chunk


@pytest.mark.parametrize("make", ["dask", "zarr"])
@pytest.mark.parametrize(
    ("image", "changes"),
    [
        (scene(), dict(preset="general")),
        (scene(), dict(preset="photo")),
        (scene(channels=1)[..., 0], dict(preset="microscopy", objects="classical")),
        (scene((20, 40, 40), 1)[..., 0], dict(preset="general", site_size=60, axes="ZYX")),
    ],
    ids=["general", "photo", "microscopy", "volume"],
)
def test_one_chunk_gives_the_labels_of_the_array_in_memory(image, changes, make):
    lazy = da.from_array(image, chunks=-1) if make == "dask" else stored(image, image.shape)
    here = gsw.segment(image, sweeps=20, seed=3, **changes)
    there = gsw.segment(lazy, sweeps=20, seed=3, **changes)
    assert isinstance(there.labels, da.Array)
    assert there.labels.dtype == here.labels.dtype
    assert np.array_equal(there.labels.compute(), here.labels)
    assert np.array_equal(there.uncertainty.compute(), here.uncertainty)
    assert np.array_equal(there.boundary.compute(), here.boundary)
    assert np.array_equal(there.regions, here.regions)
    assert there.provenance["image"] == here.provenance["image"]
    assert there.n_regions == here.n_regions


def test_a_small_lazy_image_is_taken_whole_whatever_its_chunks():
    image = scene((60, 50))
    here, there = gsw.prepare(image), gsw.prepare(stored(image, (16, 16, 3)))
    assert np.array_equal(here.sites, np.asarray(there.sites))
    assert np.array_equal(here.beta, there.beta)


# ---- blocks


def same_problem(blocks, image, **more):
    """Compare a problem made in blocks with that of its own sites in memory."""
    sites = np.asarray(blocks.sites)
    whole = gsw.prepare(image, blocks.settings, sites=sites, **more)
    assert whole.n == blocks.n, "a site is not connected"
    place = np.zeros(blocks.n, int)
    place[sites[sites > 0] - 1] = whole.sites[sites > 0] - 1
    a, b = blocks.graph, whole.graph
    assert np.array_equal(a.pixels, b.pixels[place])
    assert np.allclose(a.means, b.means[place], atol=1e-4)
    ends = np.sort(place[blocks.edges], axis=1)
    order = (
        np.lexsort((ends[:, 1], ends[:, 0])) if (b.order == 1).all() else np.lexsort((ends[:, 1], ends[:, 0], a.order))
    )
    assert np.array_equal(ends[order], whole.edges)
    assert np.array_equal(a.length[order], b.length)
    assert np.allclose(a.contrast[order], b.contrast, atol=1e-4)
    assert np.allclose(blocks.beta[order], whole.beta, rtol=1e-3, atol=1e-6)
    for x, y in zip(blocks.likelihoods, whole.likelihoods, strict=True):
        if isinstance(x, gsw.DirichletMultinomial):
            assert x.counts.shape == y.counts.shape
            # Filters may round a pixel at a border to the word next to it.
            assert abs(x.counts - y.counts[place]).sum() <= 1e-3 * x.counts.sum()
        else:
            assert np.allclose(x.sums, y.sums[place], rtol=1e-4, atol=1e-2)
            assert np.allclose(x.squares, y.squares[place], rtol=1e-4, atol=1e-2)
            assert np.allclose(x.variance, y.variance, rtol=1e-6)
    return sites


# Noise is measured in parts of an image, and would be a little different from that of all of it.
SMALL = dict(block_pixels=2**12, denoise="no")
SIZES = dict(site_size=80, **SMALL)
# Words of its own, which an image of few colours has, are learnt from parts of it, too.
PHOTO_WORDS = dict(codebook="shipped")


@pytest.mark.parametrize(
    "changes",
    [
        dict(preset="general", **PHOTO_WORDS),
        dict(preset="general", neighbourhood=2, coupling="length", **PHOTO_WORDS),
        dict(preset="photo", **PHOTO_WORDS),
        dict(preset="paper", site_count=300, position=2.0),
        dict(likelihood="luminance", superpixels="watershed"),
        dict(likelihood="gaussian", superpixels="felzenszwalb", position=1.0),
        dict(superpixels="grid", colours="hsv", smoothing=1.0),
    ],
    ids=["general", "second order", "photo", "paper", "luminance", "gaussian", "grid"],
)
def test_blocks_make_the_problem_that_their_sites_make_in_memory(changes):
    image = scene((300, 260))
    blocks = gsw.prepare(stored(image, (64, 64, 3)), **SMALL, **changes)
    assert len(blocks.sites.grid) > 8
    sites = same_problem(blocks, image)
    if changes.get("superpixels") != "grid":  # whose cells end where blocks do
        for axis, cuts in enumerate(blocks.sites.grid.cuts):
            for cut in cuts[1:-1]:
                low, high = np.take(sites, cut - 1, axis), np.take(sites, cut, axis)
                assert (low == high).mean() > 0.4, "hardly a site crosses the border"
    at_once = gsw.prepare(image, blocks.settings).graph.pixels
    small = 0.2 * sites.size / blocks.n
    assert (blocks.graph.pixels < small).mean() < (at_once < small).mean() + 0.03, "borders leave splinters"


def test_a_volume_with_its_own_words_in_blocks():
    # Clipped, so that black and white are the same in a part of the image as in all of it.
    image = scene((20, 64, 60), 1)[..., 0]
    image = np.clip(image, *np.percentile(image, (5, 95)).astype(np.uint8))
    blocks = gsw.prepare(da.from_array(image, chunks=(10, 20, 30)), likelihood="gaussian", texture_words=0, **SIZES)
    assert len(blocks.sites.grid) > 8
    same_problem(blocks, image)
    words = gsw.prepare(stored(image, (10, 20, 30)), words=9, texture_words=4, **SIZES)
    assert [block.counts.shape[1] for block in words.likelihoods] == [9, 4]


def test_a_mask_and_sites_of_the_users_own_in_blocks():
    image = scene((200, 210))
    mask = np.hypot(*np.mgrid[-100:100, -100:110]) < 90
    blocks = gsw.prepare(stored(image, (50, 70, 3)), mask=da.from_array(mask, chunks=50), **SMALL, **PHOTO_WORDS)
    assert np.array_equal(np.asarray(blocks.sites) > 0, mask)
    same_problem(blocks, image, mask=mask)
    own = (np.arange(200)[:, None] // 30 * 7 + np.arange(210) // 37) * mask
    blocks = gsw.prepare(
        stored(image, (50, 70, 3)), sites=stored(own.astype(np.int32), (40, 40)), **SMALL, **PHOTO_WORDS
    )
    assert blocks.n == label_connected(own).max()
    same_problem(blocks, image)
    for wrong in (dict(mask=mask[:-1]), dict(sites=own[:, :-2])):
        with pytest.raises(gsw.InputError, match="shape"):
            gsw.prepare(stored(image, (50, 70, 3)), **wrong, **SMALL)
    with pytest.raises(gsw.InputError, match="no site"):
        gsw.prepare(stored(image, (50, 70, 3)), mask=np.zeros_like(mask), **SMALL)


def test_a_segmentation_in_blocks():
    image = scene((300, 260))
    lazy = stored(image, (64, 64, 3))
    seeds = np.zeros(image.shape[:2], np.uint8)
    seeds[150, 20:25] = 9
    told = []
    found = gsw.segment(
        lazy, sweeps=40, seed=2, seeds=da.from_array(seeds, chunks=100),
        report=lambda stage, snapshot: told.append(stage), **SMALL,
    )  # fmt: skip
    assert any(stage.name == "blocks" and stage.done == stage.total > 1 for stage in told)
    assert found.labels.shape == image.shape[:2]
    assert found.labels.chunks == found.problem.sites.grid.chunks
    labels = found.labels.compute()
    assert labels[150, 22] == 9
    assert np.array_equal(labels, np.append(0, found.regions)[np.asarray(found.problem.sites)])
    assert found.provenance["image"]["sha256"] == hash_array(image)
    assert found.provenance["given"]["seeds"] == hash_array(seeds)
    assert found.uncertainty.max().compute() <= 1
    # Lazily or at once, the boundary image is the same.
    import dataclasses

    from napari_gsw.core.posterior.regions import make_boundary_image

    at_once = dataclasses.replace(found.problem, sites=found.problem.site_image)
    together = found.snapshot.together
    assert np.array_equal(found.boundary.compute(), make_boundary_image(at_once, together))
    # It goes on from its own labels.
    again = gsw.segment(lazy, sweeps=0, init=labels, **SMALL)
    assert again.provenance["given"] == {"init": hash_array(labels)}
    # The same image, settings and seed give the same labels, however the threads come along.
    twin = gsw.segment(da.from_array(image, chunks=(64, 64, 3)), sweeps=40, seed=2, seeds=seeds, **SMALL)
    assert np.array_equal(twin.labels.compute(), labels)


@pytest.mark.parametrize("noise", [1.5, 20.0])
def test_objects_in_blocks_are_those_in_memory(noise):
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:260, :250]
    image = rng.normal(60, noise, y.shape)
    for cy, cx in rng.random((60, 2)) * (260, 250):
        image += 60 * (np.hypot(y - cy, x - cx) < 7)
    image = np.clip(image, 0, 255).astype(np.uint8)
    here = gsw.segment(image, preset="microscopy", objects="classical")
    there = gsw.segment(stored(image, (64, 64)), preset="microscopy", objects="classical", block_pixels=2**12)
    assert len(there.problem.sites.grid) > 8
    assert (there.problem.block_context.levels.noise is None) == (noise < 5)
    labels = there.labels.compute()
    assert ((labels > 0) == (here.labels > 0)).mean() > 0.995
    assert there.n_regions == labels.max()
    assert abs(there.n_regions - here.n_regions) <= 2
    same = {tuple(pair) for pair in np.stack((labels.ravel(), here.labels.ravel()), 1) if 0 not in pair}
    assert len(same) <= here.n_regions + 3


@pytest.mark.parametrize(
    ("axes", "shape", "error"),
    [
        ("YXS", (260, 250, 3), 1e-3),
        ("YXC", (260, 250, 2), 1e-3),
        pytest.param("ZYXC", (40, 60, 70, 1), 0.15, marks=pytest.mark.slow),
    ],
)
def test_noise_is_taken_off_in_blocks_as_in_memory(axes, shape, error):
    """In a volume a block does not look as far as its noise might depend on; errors are in units of the noise."""
    rng = np.random.default_rng(0)
    image = (80 + 90 * (np.indices(shape[:-1]).sum(axis=0) % 90 > 45)[..., np.newaxis] * np.ones(shape[-1])).astype(int)
    image = np.clip(image + rng.normal(0, 20, shape), 0, 255).astype(np.uint8)
    if axes == "YXC":  # a channel without noise, which hardly varies here and there
        image[..., 1] = 255 * (np.arange(250) / 249) ** 4
    blocks = gsw.prepare(stored(image, (30, 30, 30, 1)[-len(shape) :]), axes=axes, block_pixels=2**12)
    context = blocks.block_context
    assert len(blocks.sites.grid) > 8
    assert context.span.noise[0] == pytest.approx(20, rel=0.15)
    whole = normalize_image(image, axes, context.span).channels
    assert np.abs(normalize_image(image, axes, context.span._replace(noise=None)).channels - whole)[..., 0].mean() > 3
    unit = 100 * 20 / (context.span.high - context.span.low).max()
    for index in context.grid:
        around, inside = context.grid.slices(index, context.halo), context.grid.slices(index)
        part = context.picture_of(context.pixels(around)).channels[crop(around, inside)]
        assert np.abs(part - whole[inside]).max() < error * unit


@pytest.mark.parametrize("easy", [
    EasyImage("square", size=256),
    EasyImage("disks", size=256, colour=True, contrast=20, noise=8),
    EasyImage("ramp", size=256, colour=True, contrast=5, noise=0),
], ids=lambda easy: easy.name)  # fmt: skip
def test_an_easy_picture_is_easy_in_blocks(easy):
    scene = easy.read()
    lazy = stored(scene.image, (64, 64, 3)[: scene.image.ndim])
    found = gsw.segment(lazy, axes=scene.axes, seed=0, block_pixels=2**12)
    assert len(found.problem.sites.grid) > 8
    assert adjusted_rand(found.labels.compute(), scene.human_labels[0]) >= 0.98


class Recorder:
    """An array in chunks that makes its values when asked and remembers how many at most."""

    ndim, dtype, chunks = 3, np.dtype(np.uint8), (64, 64, 3)

    def __init__(self, shape):
        self.shape, self.most, self.reads = shape, 0, 0

    def __getitem__(self, key):
        part = [range(n)[k] for n, k in zip(self.shape, key, strict=True)]
        y, x = np.array(part[0])[:, None], np.array(part[1])
        wave = np.sin(y / 31) + np.sin(x / 23)
        image = (
            np.digitize(wave, [-0.5, 0.5])[..., None] * np.array([60, 90, 40]) + (y * 7919 + x * 104729)[..., None] % 13
        )
        self.most, self.reads = max(self.most, image.size), self.reads + 1
        return image.astype(np.uint8)


def test_memory_does_not_grow_with_the_image():
    settings = dict(block_pixels=2**14, site_size=200, texture_words=0, codebook="shipped", denoise="no")
    gsw.prepare(Recorder((400, 400, 3)), **settings)  # what is made once is made here
    peaks, reads = [], []
    for side in (500, 1000):
        image = Recorder((side, side, 3))
        tracemalloc.start()
        problem = gsw.prepare(image, **settings)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        reads.append(image.most)
        assert problem.n > 0.7 * side**2 / 200
    assert reads[1] <= 3 * 2 * 2**14 * 2
    # Four times the pixels; what is left of them are 1,250 sites and 3,750 more.
    assert peaks[1] < 1.5 * peaks[0] + 3750 * 2000


# ---- what comes in


def test_pyramids_and_groups_give_their_finest_level(tmp_path):
    image = scene((80, 90))
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    plane = np.moveaxis(image, -1, 0)[None, :, None]
    group.create_array("full", shape=plane.shape, chunks=(1, 1, 1, 32, 32), dtype="u1")[...] = plane
    group.create_array("half", shape=plane[..., ::2, ::2].shape, dtype="u1")[...] = plane[..., ::2, ::2]
    axes = [{"name": name} for name in "tczyx"]
    levels = [{"path": "full"}, {"path": "half"}]
    group.attrs.update({"ome": {"multiscales": [{"axes": axes, "datasets": levels}]}})
    assert is_lazy(group)
    found = open_lazy_image(group)
    assert (found.letters, found.axes, found.shape) == (".C.YX", "CYX", (80, 90))
    assert np.array_equal(found.read(), plane[0, :, 0])
    fine, coarse = da.from_array(image, chunks=40), da.from_array(image[::2, ::2], chunks=40)
    assert open_lazy_image([fine, coarse]).array is fine
    here = gsw.prepare(image)
    assert np.array_equal(np.asarray(gsw.prepare([fine, coarse]).sites), here.sites)
    group.attrs.update({"ome": {}})
    with pytest.raises(gsw.InputError, match="no multiscale image"):
        gsw.prepare(group)


@pytest.mark.parametrize(
    ("shape", "axes", "words"),
    [
        ((4, 30, 30), "TYX", "time axis of 4"),
        ((30, 30), "YXC", "2 letters"),
        ((30, 30, 5), "XYC", "order"),
        ((30, 30, 5), "YXQ", "axes must be"),
        ((0, 30), "auto", "empty"),
    ],
)
def test_axes_that_cannot_be_are_refused(shape, axes, words):
    with pytest.raises(gsw.InputError, match=words):
        gsw.prepare(da.zeros(shape, chunks=10), axes=axes)


def test_what_is_not_finite_is_named():
    image = scene((150, 130)).astype(float)
    image[120, 3] = np.nan
    with pytest.raises(gsw.InputError, match="NaN"):
        gsw.prepare(stored(image, (50, 50, 3)), block_pixels=2**12)


def test_a_hash_does_not_depend_on_where_the_array_is():
    for array in (np.arange(60.0).reshape(5, 4, 3), np.zeros((0, 3)), np.array(7), scene((50, 40))):
        if array.ndim and array.size:
            assert hash_array(da.from_array(array, chunks=3)) == hash_array(array)
        assert len(hash_array(array)) == 64
    assert hash_array(np.arange(4)) != hash_array(np.arange(4.0))


def test_very_large_images_have_larger_sites():
    assert gsw.preset("general").site_count_for(400_000_000) == 500_000
    assert gsw.preset("general", most_sites=None).site_count_for(1_500_000) == 10_000
    assert gsw.preset("general", site_count=800_000).site_count_for(400_000_000) == 800_000


def test_too_many_sites_for_learnt_couplings_say_what_to_do(monkeypatch):
    monkeypatch.setattr("napari_gsw.core.blocks.assembly.MAX_LEARNT_SITES", 50)
    with pytest.raises(gsw.InputError, match="preset general"):
        gsw.prepare(stored(scene((200, 200)), (50, 50, 3)), preset="photo", **SMALL)


# ---- the command


def test_segment_writes_a_large_zarr_chunk_by_chunk(tmp_path, capsys):
    image = scene((540, 530))
    array = zarr.create_array(str(tmp_path / "in.zarr"), shape=image.shape, chunks=(128, 128, 3), dtype="u1")
    array[...] = image
    given = [
        "segment",
        str(tmp_path / "in.zarr"),
        "--sweeps",
        "20",
        "--site-size",
        "300",
        "--block-pixels",
        "16384",
        "-q",
    ]
    assert main([*given, "-o", str(tmp_path / "out"), "--uncertainty", "--save-plot", "--save-sites"]) == 0
    labels, axes = read_image(tmp_path / "out" / "labels.zarr")
    found = gsw.segment(array, sweeps=20, site_size=300, block_pixels=16384)
    assert np.array_equal(labels, found.labels.compute())
    assert axes == "YX"
    group = zarr.open_group(str(tmp_path / "out" / "labels.zarr"), mode="r")
    assert np.array_equal(group["1"][...], labels[::2, ::2])
    assert group.attrs["napari-gsw"]["settings"]["sweeps"] == 20
    for name, values in (("entropy", found.uncertainty), ("boundary", found.boundary)):
        assert np.array_equal(read_image(tmp_path / "out" / f"{name}.zarr")[0], values.compute())
    for name in ("overlay.png", "uncertainty.png", "posterior.json", "sites.zarr", "finest.zarr"):
        assert (tmp_path / "out" / name).exists()
    # A second run clears away what it does not write.
    assert main([*given, "-o", str(tmp_path / "out")]) == 0
    assert not (tmp_path / "out" / "sites.zarr").exists()
    assert main([*given, "-o", str(tmp_path / "out.tif")]) == 2
    assert "written as .zarr" in capsys.readouterr().err


def test_a_small_zarr_is_segmented_as_any_other_file(tmp_path):
    image = scene((60, 50))
    zarr.create_array(str(tmp_path / "in.zarr"), shape=image.shape, chunks=(20, 20, 3), dtype="u1")[...] = image
    assert main(["segment", str(tmp_path / "in.zarr"), "-o", str(tmp_path), "--sweeps", "10", "-q"]) == 0
    assert np.array_equal(read_image(tmp_path / "labels.tif")[0], gsw.segment(image, sweeps=10).labels)


def test_grids_know_their_neighbours():
    grid = Grid(((0, 5, 10), (0, 4)))
    assert grid.after((0, 0), 0) == (1, 0)
    assert grid.after((1, 0), 0) is None
    assert list(grid) == [(0, 0), (1, 0)]
