"""Runs that continue, that start again and that are refused, without a window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from napari_gsw.core.errors import InputError
from napari_gsw.core.settings.presets import preset
from napari_gsw.sample_data import mosaic

pytest.importorskip("napari")


def source_of(image, **choices):
    from napari.layers import Image

    from napari_gsw.widgets.layers.image_source import ImageSource

    return ImageSource(Image(image, name="m"), **choices)


def run_of(source, settings, before=None):
    from napari_gsw.widgets.session.run_plan import RunPlan, make_array_run

    plan = RunPlan(source, settings, 0)
    return make_array_run(plan, source.positions[0], before, None, lambda stage: None, lambda preview: None)


def test_what_the_new_settings_forbid_starts_afresh():
    """Three clusters are more than Microscopy allows; what is locked stays."""
    source = source_of(mosaic()[0][:48, :64, 0])
    first = run_of(source, preset("paper", site_count=40, start="random", start_clusters=3, axes="YX"))
    assert len(set(first.interactive.display_labels)) == 3
    two = preset("paper", site_count=40, prior="finite-dirichlet", K=2, start="random", start_clusters=2, axes="YX")
    afresh = run_of(source, two, first)
    assert "init" not in afresh.interactive.inputs
    assert len(set(afresh.interactive.display_labels)) == 2
    first.interactive.lock([0])
    assert run_of(source, two, first).interactive.locks.sum() == 1
    assert "init" in run_of(source, two.replace(K=3), first).interactive.inputs


def test_photo_says_before_the_run_that_it_is_for_flat_images():
    from napari_gsw.widgets.session.run_plan import adapt_settings

    volume = source_of(np.zeros((4, 8, 8)), depth=3)
    with pytest.raises(InputError, match=r"Photo .* is for flat images"):
        adapt_settings(volume, preset("photo"))
    with pytest.raises(InputError, match=r"Membranes .* is for flat images"):
        adapt_settings(volume, preset("membranes"))
    for choices in ({"depth": 2}, {"depth": 3, "slices": "shared"}):
        adapt_settings(source_of(np.zeros((4, 8, 8)), **choices), preset("photo"))


def test_a_correction_of_a_long_run_is_counted_after_a_while():
    """The burn-in after a correction is no share of a million sweeps."""
    source = source_of(mosaic()[0][:48, :64])
    interactive = run_of(source, preset("paper", site_count=40, sweeps=1_000_000, axes="YXS")).interactive
    interactive.run_for(1_000_000)
    interactive.advance(1)
    interactive.paint([0, 1], 7, True)
    while interactive.sweep < 250:
        interactive.advance()
    assert interactive.summary.is_estimated
    assert interactive.target == interactive.restarted_at + 1_000_000


def segmentation_of(plan):
    from napari_gsw.widgets.session.run_plan import Segmentation

    class NoLayers:
        label_layers = ()

    return Segmentation(plan.unstarted(), NoLayers())


def carried_out(seg, jobs):
    """Make what is to be made."""
    from napari_gsw.widgets.session.array_run import ArrayRun

    for position, job in jobs:
        made = job if isinstance(job, ArrayRun) else job(lambda stage: None, lambda preview: None)
        seg.array_runs[position] = made
    return [isinstance(job, ArrayRun) for _, job in jobs]


def plan_of(source, seed=0, **settings):
    from napari_gsw.widgets.session.run_plan import RunPlan

    return RunPlan(source, preset("paper", axes="YX", **settings), seed, mask_data=source.mask_data())


def test_a_preparation_that_was_stopped_has_changed_nothing():
    """Superpixels, or a seed, that a stopped run was to make are made by the next one."""
    source = source_of(mosaic()[0][:48, :64, 0])
    seg = segmentation_of(plan_of(source, site_count=40))
    assert carried_out(seg, seg.jobs(plan_of(source, site_count=40))) == [False]
    first = seg.array_runs[()]
    seg.jobs(plan_of(source, site_count=12))  # and stopped
    assert carried_out(seg, seg.jobs(plan_of(source, site_count=12))) == [False]
    assert seg.array_runs[()].interactive.problem.n < first.interactive.problem.n
    seg.jobs(plan_of(source, seed=1, site_count=12))  # and stopped
    assert carried_out(seg, seg.jobs(plan_of(source, seed=1, site_count=12))) == [False]
    assert seg.array_runs[()].interactive.seed == 1
    assert carried_out(seg, seg.jobs(plan_of(source, seed=1, site_count=12))) == [True]


def test_a_map_of_a_stack_belongs_to_its_slices():
    import napari_gsw as gsw

    stack, lines = np.random.default_rng(0).random((2, 2, 40, 50))
    source, maps = source_of(stack, depth=2), {"boundaries": source_of(lines).layer}
    plan = replace(plan_of(source), maps=maps)
    seg = segmentation_of(plan)
    carried_out(seg, seg.jobs(plan))
    for z in range(2):
        expected = gsw.prepare(stack[z], preset("paper", axes="YX"), boundaries=lines[z])
        assert np.array_equal(seg.array_runs[z,].interactive.problem.beta, expected.beta)


@pytest.mark.parametrize("kind", ["labels", "shapes"])
def test_a_region_that_was_made_larger_is_segmented(kind):
    from napari.layers import Labels, Shapes

    if kind == "labels":
        data = np.zeros((48, 64), np.uint8)
        data[:20, :20] = 1
        mask = Labels(data)
    else:
        mask = Shapes([[[0, 0], [0, 19], [19, 19], [19, 0]]], shape_type="polygon")
    source = source_of(mosaic()[0][:48, :64, 0], mask=mask)
    seg = segmentation_of(plan_of(source, site_count=40))
    carried_out(seg, seg.jobs(plan_of(source, site_count=40)))
    assert carried_out(seg, seg.jobs(plan_of(source, site_count=40))) == [True]
    before = np.count_nonzero(seg.array_runs[()].sites)
    if kind == "labels":
        mask.data[:40, :40] = 1
    else:
        mask.data = [np.array([[0, 0], [0, 39], [39, 39], [39, 0]])]
    assert carried_out(seg, seg.jobs(plan_of(source, site_count=40))) == [False]
    assert np.count_nonzero(seg.array_runs[()].sites) > 2 * before


def test_a_session_whose_runs_have_other_names_is_refused_in_a_sentence():
    """A script may call its runs what it likes; the window knows them by their place."""
    import napari_gsw as gsw
    from napari_gsw.core.interactive.saved_session import SavedSession
    from napari_gsw.widgets.session.run_plan import check_same_pixels

    source = source_of(np.kron(np.eye(2), np.ones((20, 20))))
    run = gsw.segment(source.layer.data, sweeps=5).run
    check_same_pixels(source, SavedSession({"run": run}))
    for name in ("Zelle", "0", "-1"):
        with pytest.raises(InputError, match="other slices"):
            check_same_pixels(source, SavedSession({name: run}))
