"""What a command imports comes in undisturbed."""

from __future__ import annotations

import gc

import pytest

from napari_gsw.cli.options import without_gc


@pytest.mark.parametrize("collects", [True, False])
def test_nothing_is_collected_meanwhile_and_afterwards_it_is_as_it_was(collects):
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with without_gc():
            assert not gc.isenabled()
        assert gc.isenabled() == collects
        with pytest.raises(ImportError), without_gc():
            raise ImportError
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()
