"""Accept, merge, cut, delete and draw, as plain label images; and what a later state makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.errors import InputError
from napari_gsw.core.posterior.object_edits import (
    FixedPixels,
    accept_object,
    apply_edits,
    delete_object,
    draw_object,
    edit_from_scribble,
    erase_pixels,
    find_fixed_sites,
    find_unused_labels,
    merge_objects,
    split_objects,
)

# Two objects that touch, 1 and 2, one that stands alone, 3, on a background.
SHOWN = np.zeros((20, 40), np.uint16)
SHOWN[5:15, 2:12] = 1
SHOWN[5:15, 12:22] = 2
SHOWN[5:15, 28:38] = 3
INSIDE = np.ones(SHOWN.shape, bool)
# The same as regions: what was background is 4.
REGIONS = np.where(SHOWN == 0, 4, SHOWN)


def held(edit, **changes):
    fixed = np.zeros(edit.shown.shape, np.int32)
    fixed.reshape(-1)[edit.where] = edit.values
    return FixedPixels(fixed, edit.shown, np.zeros(1, np.int8), edit.unfinished, **changes)


def vertical(column, first=0, last=19):
    return np.array([[first, column], [last, column]], float)


def line(column, first=0, last=19):
    mask = np.zeros(SHOWN.shape, bool)
    mask[first : last + 1, column] = True
    return mask


def test_an_accepted_object_is_fixed_and_nothing_else():
    edit = accept_object(SHOWN, 2, True)
    assert np.array_equal(edit.after, SHOWN)
    assert np.array_equal(held(edit).fixed, np.where(SHOWN == 2, 2, 0))


def test_a_number_that_is_not_there_is_refused_in_a_sentence():
    for number in (0, 9):
        with pytest.raises(InputError, match="no object here"):
            accept_object(SHOWN, number, True)
        with pytest.raises(InputError, match="no region here"):
            delete_object(SHOWN, number, False)


def test_merged_objects_have_the_number_of_the_first_and_take_the_stroke_with_them():
    stroke = np.zeros(SHOWN.shape, bool)
    stroke[10, 18:32] = True
    edit = merge_objects(SHOWN, [2, 3], True, stroke)
    assert np.array_equal(edit.after == 2, np.isin(SHOWN, (2, 3)) | stroke)
    assert not (edit.after == 3).any()
    with pytest.raises(InputError, match="one object only"):
        merge_objects(SHOWN, [2], True)


def test_a_cut_gives_every_pixel_to_one_of_two_pieces():
    edit = split_objects(SHOWN, line(5), True)
    assert np.array_equal(edit.after > 0, SHOWN > 0)
    assert (edit.after[5:15, 6:12] == 1).all()
    assert (edit.after[5:15, 2:5] == 4).all()
    assert np.isin(edit.after[5:15, 5], (1, 4)).all()
    assert np.array_equal(edit.after[:, 12:], SHOWN[:, 12:])


def test_a_slanted_line_cuts_several_objects_with_numbers_of_their_own():
    path = np.array([[2.0, 0.0], [17.0, 23.0]])
    edit = edit_from_scribble(SHOWN, SHOWN, path, True, INSIDE, "cut")
    assert set(np.unique(edit.after).tolist()) == {0, 1, 2, 3, 4, 5}
    assert set(np.unique(edit.after[SHOWN == 1]).tolist()) == {1, 4}
    assert set(np.unique(edit.after[SHOWN == 2]).tolist()) == {2, 5}


def test_a_line_that_ends_inside_or_goes_past_is_refused_in_a_sentence():
    with pytest.raises(InputError, match="does not split object 1"):
        split_objects(SHOWN, line(5, 0, 10), True)
    with pytest.raises(InputError, match="crosses no object"):
        split_objects(SHOWN, line(25), True)


def test_a_line_in_one_slice_cuts_a_volume():
    volume = np.stack([SHOWN] * 4)
    path = np.array([[2.0, 0.0, 5.0], [2.0, 19.0, 5.0]])
    edit = edit_from_scribble(volume, volume, path, True, np.ones(volume.shape, bool), "cut")
    apart = ~line(5)  # the pixels of the line itself are equally near to both
    for plane in edit.after:
        assert np.array_equal(plane[apart], split_objects(SHOWN, line(5), True).after[apart])


def test_a_deleted_object_is_background_and_a_deleted_region_goes_to_the_nearest():
    assert np.array_equal(delete_object(SHOWN, 3, True).after, np.where(SHOWN == 3, 0, SHOWN))
    edit = delete_object(REGIONS, 2, False)
    assert not (edit.after == 2).any()
    assert (edit.after > 0).all()
    assert edit.after[10, 12] == 1
    assert edit.after[10, 21] == 4
    assert edit.unfinished == {1, 4}
    with pytest.raises(InputError, match="no neighbour"):
        delete_object(np.ones((4, 4), np.uint16), 1, False)


def test_a_stroke_means_what_its_number_says():
    path = np.array([[10.0, 15.0], [10.0, 30.0]])
    painted = SHOWN.copy()
    painted[9:12, 15:31] = 2
    merge = edit_from_scribble(SHOWN, painted, path, True, INSIDE)
    assert merge.what == "merge"
    assert np.array_equal(merge.after == 2, np.isin(SHOWN, (2, 3)) | (painted == 2))
    grown = SHOWN.copy()
    grown[1:6, 30] = 3
    more = edit_from_scribble(SHOWN, grown, np.array([[1.0, 30.0], [5.0, 30.0]]), True, INSIDE)
    assert np.array_equal(more.after, grown)
    fresh = SHOWN.copy()
    fresh[16:19, 5:9] = 8
    assert np.array_equal(edit_from_scribble(SHOWN, fresh, np.empty((0, 2)), True, INSIDE).after, fresh)
    assert edit_from_scribble(SHOWN, SHOWN, vertical(3), True, INSIDE) is None
    erased = SHOWN.copy()
    erased[:, 5] = 0
    assert edit_from_scribble(SHOWN, erased, vertical(5), True, INSIDE).what == "cut"


def test_the_eraser_takes_a_corner_away_and_the_rest_stays():
    erased = SHOWN.copy()
    erased[5:8, 35:38] = 0
    edit = edit_from_scribble(SHOWN, erased, np.array([[5.0, 36.0], [6.0, 36.0]]), True, INSIDE)
    assert np.array_equal(edit.after, erased)
    assert np.array_equal(held(edit).fixed == -1, erased != SHOWN)
    with pytest.raises(InputError, match="does not split region"):
        edit_from_scribble(REGIONS, np.where(erased != SHOWN, 0, REGIONS), np.array([[5.0, 36.0]]), False, INSIDE)
    with pytest.raises(InputError, match="no object to erase"):
        erase_pixels(SHOWN, SHOWN == 0)


def test_paint_where_there_is_no_site_means_nothing():
    painted = SHOWN.copy()
    painted[16:19, 5:9] = 8
    assert edit_from_scribble(SHOWN, painted, np.empty((0, 2)), True, SHOWN > 0) is None


def test_numbers_that_are_new():
    assert find_unused_labels(SHOWN, 2) == [4, 5]
    full = np.array([1, 3, 65535])
    assert find_unused_labels(full, 2) == [2, 4]


# ---- what a later state of the chain makes of an edit


def test_a_later_state_leaves_a_cut_a_merged_and_an_accepted_object_alone():
    for edit in (
        split_objects(SHOWN, line(5), True),
        merge_objects(SHOWN, [1, 2], True),
        accept_object(SHOWN, 1, True),
    ):
        for later in (SHOWN, np.where(SHOWN == 3, 0, SHOWN), (SHOWN > 0).astype(np.uint16), np.zeros_like(SHOWN)):
            labels = apply_edits(later, held(edit), 4, True)
            fixed = held(edit).fixed
            for number in np.unique(fixed[fixed > 0]):
                assert np.array_equal(labels == number, fixed == number)


def test_the_others_keep_their_numbers_whatever_the_chain_calls_them():
    later = np.choose(SHOWN, [0, 3, 1, 2])
    labels = apply_edits(later, held(delete_object(SHOWN, 1, True)), 4, True)
    assert np.array_equal(labels, np.where(SHOWN == 1, 0, SHOWN))


def test_a_free_object_never_has_the_number_of_a_fixed_one():
    later = SHOWN.copy()
    later[0:4, 20:26] = 2  # in another place, with the number of the one that is fixed
    labels = apply_edits(later, held(accept_object(SHOWN, 2, True)), 4, True)
    assert np.array_equal(labels == 2, SHOWN == 2)


def test_a_rim_around_a_fixed_object_is_no_object_but_a_neighbour_is():
    later = np.zeros_like(SHOWN)
    later[4:16, 1:22] = 1  # wider by a pixel, and one part
    labels = apply_edits(later, held(accept_object(SHOWN, 1, True)), 4, True)
    assert np.array_equal(labels == 1, SHOWN == 1)
    assert (labels[6:14, 14:20] == 2).all()
    alone = np.where(later[:, :12], later[:, :12], 0)
    labels = apply_edits(np.pad(alone, ((0, 0), (0, 28))), held(accept_object(SHOWN, 1, True)), 4, True)
    assert np.array_equal(labels > 0, SHOWN == 1)


def test_the_heirs_of_a_region_go_on_as_one_with_what_they_were_given():
    edit = delete_object(REGIONS, 2, False)
    labels = apply_edits(REGIONS, held(edit), 4, False)
    assert np.array_equal(labels, edit.after)


def test_sites_are_held_by_the_greater_part_of_their_pixels():
    sites = np.arange(1, 9).reshape(2, 4).repeat(10, 0).repeat(10, 1).astype(np.int32)
    fixed = held(accept_object(SHOWN, 3, True)).fixed
    share = [np.mean(SHOWN[sites == k] == 3) for k in range(1, 9)]
    assert find_fixed_sites(fixed, sites, 8).tolist() == [int(s >= 0.5) for s in share]


def test_drawing_needs_a_number_that_the_screen_can_show():
    with pytest.raises(InputError, match="65535"):
        draw_object(SHOWN, SHOWN == 1, 70_000, True)
