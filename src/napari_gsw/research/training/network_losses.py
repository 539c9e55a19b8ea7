"""What the networks are taught: the boundaries that people draw, what they put together, and objects."""

from __future__ import annotations

import torch
from torch.nn import functional

from napari_gsw.core.features.network import EMBEDDING_STRIDE
from napari_gsw.core.features.object_network import OCTAVES
from napari_gsw.research.training.network_crops import PICTURE, ZOOM, PictureStore, lab
from napari_gsw.research.training.network_module import NetworkModule

# What is subtracted from Lab, and by what it is divided, before a network sees it: as in core/features/network.py.
MIDDLE, SPREAD = 50.0, 25.0
# How much more a pixel on a boundary counts than one off it.
DRAWN_WEIGHT = 3.0
# The same for the outlines of objects, and for where two of them touch.
OUTLINE_WEIGHT, CONTACT_WEIGHT = 2.0, 5.0
# More than any label.
MANY = 1e6
# What the side outputs and the pairs count beside the fine output.
SIDE, PAIR = 0.3, 0.5


def boundary_loss(
    module: NetworkModule, pictures: PictureStore, rows: torch.Tensor, pairs: torch.Tensor, side: int
) -> torch.Tensor:
    """How wrong a network is about boundaries and about what belongs together.

    A boundary is where labels differ, three pixels wide to both sides together with the one next to it, and its target
    the share of the people who draw it. Two places are to be near each other where people put them into one segment.

    Parameters
    ----------
    rows : (b, columns) random numbers of crops. pairs : (pairs, 2) of places in a crop. side : pixels of a crop along
        each axis.
    """
    images, labels, _ = pictures.crops(rows, side)
    people = pictures.people[rows[:, PICTURE].long()]
    drawn = (borders(labels.permute(0, 3, 1, 2)) * people[:, :, None, None]).sum(1, keepdim=True)
    fine, places, sides = _computed(module, images)
    loss = _balanced(fine, drawn)
    for output in sides:
        large = functional.interpolate(output, scale_factor=side // output.shape[-1], mode="bilinear")
        loss = loss + SIDE / len(sides) * _balanced(large, drawn)
    if places is None:
        return loss
    half = EMBEDDING_STRIDE // 2
    coarse = labels[:, half::EMBEDDING_STRIDE, half::EMBEDDING_STRIDE].flatten(1, 2)  # (b, places, people)
    flat = places.flatten(2)
    gap = (flat[:, :, pairs[:, 0]] - flat[:, :, pairs[:, 1]]).square().sum(1)
    same = ((coarse[:, pairs[:, 0]] == coarse[:, pairs[:, 1]]).float() * people[:, None]).sum(-1)
    odds = module.slope[0] - functional.softplus(module.slope[1]) * gap
    return loss + PAIR * functional.binary_cross_entropy_with_logits(odds, same)


def object_loss(
    module: NetworkModule, pictures: PictureStore, rows: torch.Tensor, pairs: torch.Tensor, side: int
) -> torch.Tensor:
    """How wrong a network is about objects: their pixels, borders and middles, where they touch, and how wide they are.

    The parameters are those of :func:`boundary_loss`.
    """
    images, labels, extra = pictures.crops(rows, side)
    assert extra is not None
    names = labels.permute(0, 3, 1, 2)
    inside = (names > 0).float()
    middle, width = extra.permute(0, 3, 1, 2).split(1, dim=1)
    zoom = torch.log2(rows[:, ZOOM, None, None, None]) / OCTAVES
    outline, contact = borders(names, thick=False), contacts(names)
    target = torch.cat((inside, outline, middle * inside, contact, (width + zoom).clamp(0, 1)), dim=1)
    weight = torch.cat(
        (
            torch.ones_like(inside),
            1 + OUTLINE_WEIGHT * outline,
            torch.ones_like(inside),
            1 + CONTACT_WEIGHT * contact,
            inside,
        ),
        dim=1,
    )
    fine, _, sides = _computed(module, images)
    loss = (functional.binary_cross_entropy_with_logits(fine, target, reduction="none") * weight).mean()
    for output in sides:
        large = functional.interpolate(output, scale_factor=side // output.shape[-1], mode="bilinear")
        part = functional.binary_cross_entropy_with_logits(large, target, reduction="none")
        loss = loss + SIDE / len(sides) * (part * weight).mean()
    return loss


def contacts(labels: torch.Tensor) -> torch.Tensor:
    """(b, k, h, w) float32 1 where two objects of labels (b, k, h, w) are within two pixels."""
    names = labels.to(torch.float32)
    largest = functional.max_pool2d(names, 5, 1, 2)
    smallest = -functional.max_pool2d(torch.where(names > 0, -names, torch.full_like(names, -MANY)), 5, 1, 2)
    return ((largest > 0) & (smallest < largest)).to(torch.float32)


def borders(labels: torch.Tensor, thick: bool = True) -> torch.Tensor:
    """(b, k, h, w) float32 1 at and next to pixels of labels (b, k, h, w) that differ from the one right or below.

    Those that are not thick are the two pixels on either side alone.
    """
    down = labels[:, :, 1:] != labels[:, :, :-1]
    right = labels[:, :, :, 1:] != labels[:, :, :, :-1]
    thin = functional.pad(down, (0, 0, 0, 1)) | functional.pad(right, (0, 1, 0, 0))
    if not thick:
        thin = thin | functional.pad(down, (0, 0, 1, 0)) | functional.pad(right, (1, 0, 0, 0))
        return thin.to(torch.float32)
    return functional.max_pool2d(thin.to(torch.float32), 3, 1, 1)


def _computed(
    module: NetworkModule, images: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None, list[torch.Tensor]]:
    """The outputs of a network for sRGB images (b, 3, h, w), in single precision."""
    colours = lab(images)
    shift = colours.new_zeros(1, 3, 1, 1)
    shift[:, 0] = MIDDLE
    inputs = ((colours - shift) / SPREAD).contiguous(memory_format=torch.channels_last)
    with torch.autocast(images.device.type, torch.bfloat16, images.device.type == "cuda", cache_enabled=False):
        fine, places, sides = module(inputs)
    return fine.float(), None if places is None else places.float(), [output.float() for output in sides]


def _balanced(odds: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
    """Cross entropy in which the few pixels on boundaries count more."""
    loss = functional.binary_cross_entropy_with_logits(odds, drawn, reduction="none")
    return (loss * (1 + DRAWN_WEIGHT * drawn)).mean()
