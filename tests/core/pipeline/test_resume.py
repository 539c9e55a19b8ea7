"""A run that was saved goes on as if it had never stopped."""

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.saved_session import KINDS
from napari_gsw.core.pipeline.saved_run import decode_record, encode_record
from pictures import cells

SWEEPS, STOP = 90, 30


def mosaic_picture(shape):
    """Four coloured fields in noise."""
    rng = np.random.default_rng(0)
    fields = np.kron(rng.integers(40, 200, (2, 2, 3)), np.ones((shape[0] // 2, shape[1] // 2, 1)))
    return np.clip(fields + rng.normal(0, 12, (*shape, 3)), 0, 255).astype(np.uint8)


def halves(image, **more):
    """A run to its end, and one that was stopped, taken apart, put together and gone on with."""
    full = gsw.segment(image, seed=4, sweeps=SWEEPS, **more)
    part = gsw.segment(
        image, seed=4, sweeps=SWEEPS, **more, report=lambda _, one: one is not None and one.sweep >= STOP
    )
    assert part.snapshot.sweep < SWEEPS
    arrays = {}
    tree = encode_record(part.run, KINDS, arrays)
    return full, gsw.resume(decode_record(tree, KINDS, arrays)), part


def assert_same(a, b):
    np.testing.assert_equal(b.labels, a.labels)
    np.testing.assert_array_equal(b.trace.log_posterior, a.trace.log_posterior)
    np.testing.assert_equal(b.uncertainty, a.uncertainty)
    assert b.provenance == a.provenance


STRIPES = np.arange(2400).reshape(40, 60) // 40 + 1
SEEDS = np.zeros((40, 60), int)
SEEDS[5, 5:15], SEEDS[30, 40:55] = 3, 8


@pytest.mark.parametrize(
    "more",
    [
        {"preset": "photo"},
        {"preset": "paper"},
        {"preset": "general", "seeds": SEEDS, "only_painted": "no"},
        {"chains": 2, "replicas": 2},
        {"stop": "agreement", "burn_in": 0.1},
        {"prior": "pitman-yor", "min_size": 2, "likelihood": "gaussian", "sites": STRIPES},
    ],
    ids=lambda more: "-".join(f"{k}" if isinstance(v, np.ndarray) else f"{k}={v}" for k, v in more.items()),
)  # fmt: skip
def test_a_resumed_run_is_the_run_that_never_stopped(more):
    image = mosaic_picture((40, 60))
    full, resumed, _ = halves(image, **more)
    assert_same(full, resumed)


def test_objects_are_the_same_after_a_resumption():
    full, resumed, _ = halves(cells()[0], preset="microscopy")
    assert full.has_background
    assert_same(full, resumed)


def test_several_images_are_resumed_together():
    image = mosaic_picture((40, 60))
    full, resumed, _ = halves([image[:, :30], image[:, 30:]])
    assert isinstance(resumed, gsw.SharedResult)
    assert_same(full, resumed)


def test_without_a_sweep_the_result_is_that_of_the_stop_and_more_sweeps_are_recorded():
    image = mosaic_picture((40, 60))
    _, _, part = halves(image)
    here = gsw.resume(part.run, sweeps=0)
    np.testing.assert_array_equal(here.labels, part.labels)
    longer = gsw.resume(part.run, sweeps=SWEEPS)
    assert longer.snapshot.sweep == part.snapshot.sweep + SWEEPS
    assert not longer.provenance["reproducible"]
    assert longer.provenance["steps"][-1]["sweeps"] == SWEEPS


def test_a_lazy_image_is_resumed_and_its_objects_need_it_again():
    dask_array = pytest.importorskip("dask.array")
    spots = np.tile(cells()[0], (2, 2))
    image = dask_array.from_array(spots, chunks=70)
    more = {"preset": "microscopy", "sweeps": 20, "block_pixels": 4096}
    full = gsw.segment(image, **more)
    part = gsw.segment(image, **more, report=lambda _, one: one is not None and one.sweep >= 5)
    arrays = {}
    tree = encode_record(part.run, KINDS, arrays)
    resumed = gsw.resume(decode_record(tree, KINDS, arrays), image=image)
    np.testing.assert_array_equal(np.asarray(resumed.labels), np.asarray(full.labels))
    with pytest.raises(InputError, match="image"):
        gsw.resume(decode_record(tree, KINDS, arrays))


def test_traces_of_another_run_are_refused():
    image = mosaic_picture((40, 60))
    run = gsw.segment(image, sweeps=20).run
    other = gsw.SavedRun(run.problem, run.settings, run.seed, run.states, (run.traces[0][:10],), run.target)
    with pytest.raises(InputError, match="traces"):
        gsw.resume(other)
