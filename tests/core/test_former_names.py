"""Former names of public attributes work and warn."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.settings import Settings


def former(thing, name):
    with pytest.warns(DeprecationWarning, match=rf"\.{name} is deprecated"):
        return getattr(thing, name)


def test_settings_have_their_former_names():
    settings = Settings()
    assert former(Settings, "declarations")() == Settings.setting_fields()
    assert former(settings, "matters")("alpha") == settings.is_active("alpha")
    assert former(settings, "wanted_sites")(10_000) == settings.site_count_for(10_000)


def test_joint_problems_and_results_have_their_former_names():
    rng = np.random.default_rng(0)
    images = [rng.random((24, 24, 3)) for _ in range(2)]
    problem = gsw.prepare(images, site_count=12)
    assert np.array_equal(former(problem, "within")(1), problem.sites_in_image(1))
    assert former(problem, "of_image")(1).sites is problem.view_image(1).sites
    assert former(problem, "coloured") is problem.has_fragments
    result = gsw.segment(images[0], sweeps=3, site_count=12)
    assert former(result, "objects") is result.has_background
    diagnosis = result.diagnosis
    assert former(diagnosis, "sentence") == diagnosis.summary
