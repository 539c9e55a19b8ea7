"""Training of the networks by PyTorch: crops of images, losses, the network as a module, and training steps.

All pixels of all images lie in one array on the device, and crops are looked up in it, rotated, scaled, mirrored and
recoloured at random; only a row of random numbers for each crop is sent to the device. The numbers are drawn beforehand
on the processor, so the same seed gives the same crops.

Several networks are trained side by side by AdamW with a rate that rises and falls, and an average of the weights over
about the last thousand steps, for which means and variances of the normalizations are estimated again at the end. On a
GPU a step is recorded once and replayed, each network in a stream of its own, since such small steps would wait for
Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from napari_gsw.core.array_types import Float32Array, Int64Array
from napari_gsw.core.features.network import EMBEDDING_STRIDE
from napari_gsw.core.features.object_network import OCTAVES
from napari_gsw.research.training.onnx_export import WIDTHS, NetworkPlan, run_plan

# ---- crops


class Augmentation(NamedTuple):
    """How far crops are changed at random."""

    zoom: float  # maximum factor of magnification and reduction
    turn: float  # fraction of crops that are rotated by any angle; the others by at most ten degrees
    gamma: float  # standard deviation of the natural logarithm, likewise gain and contrast
    gain: float
    contrast: float
    grey: float  # fraction of crops without colour
    invert: float = 0.0  # fraction of crops with light and dark exchanged
    shuffle: float = 0.0  # fraction of crops with their channels in another order
    noise: float = 0.0  # maximum width of the noise, of values from 0 to 1


PHOTOGRAPHS = Augmentation(zoom=1.7, turn=0.5, gamma=0.25, gain=0.08, contrast=0.15, grey=0.1, noise=0.02)
MICROGRAPHS = Augmentation(
    zoom=2.0, turn=1.0, gamma=0.4, gain=0.2, contrast=0.3, grey=0.3, invert=0.3, shuffle=0.3, noise=0.06
)
# Columns of a row of random numbers.
IMAGE, POSITION_Y, POSITION_X, ZOOM, ANGLE, MIRROR, GAMMA, GAIN, CONTRAST, GREY, INVERT, ORDER, NOISE, SHIFT = (
    0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 16, 17,
)  # fmt: skip
COLUMNS = 19
# Pixels of the noise that is looked up, along each axis.
NOISE_SIDE = 1024


def draw_crops(
    rng: np.random.Generator, shape: tuple[int, ...], n_images: int, augmentation: Augmentation
) -> Float32Array:
    """Draw (\\*shape, columns) float32 random numbers, a row for each crop."""
    rows = np.zeros((*shape, COLUMNS), np.float32)
    rows[..., IMAGE] = rng.integers(0, n_images, shape)
    rows[..., [POSITION_Y, POSITION_X]] = rng.random((*shape, 2))
    rows[..., ZOOM] = np.exp(rng.uniform(-1, 1, shape) * math.log(augmentation.zoom))
    any_angle = rng.uniform(-math.pi, math.pi, shape)
    rows[..., ANGLE] = np.where(rng.random(shape) < augmentation.turn, any_angle, any_angle / 18)
    rows[..., MIRROR] = np.where(rng.random(shape) < 0.5, -1, 1)
    rows[..., GAMMA] = np.exp(augmentation.gamma * rng.normal(size=shape))
    rows[..., GAIN : GAIN + 3] = np.exp(augmentation.gain * rng.normal(size=(*shape, 3)))
    rows[..., CONTRAST] = np.exp(augmentation.contrast * rng.normal(size=shape))
    rows[..., GREY] = rng.random(shape) < augmentation.grey
    rows[..., INVERT] = rng.random(shape) < augmentation.invert
    mixed = rng.permuted(np.broadcast_to(np.arange(3), (*shape, 3)), axis=-1)
    rows[..., ORDER : ORDER + 3] = np.where((rng.random(shape) < augmentation.shuffle)[..., None], mixed, np.arange(3))
    rows[..., NOISE] = augmentation.noise * rng.random(shape)
    rows[..., SHIFT : SHIFT + 2] = rng.integers(0, NOISE_SIDE, (*shape, 2))
    return rows


def number_labels(labels: NDArray[np.integer[Any]]) -> NDArray[np.int16]:
    """Return labels as numbers 0, 1, 2, ... in their order."""
    numbers: NDArray[np.int16] = np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int16)
    return numbers


class ImageStore:
    """Images (h, w, 3) of any sizes with the labels (h, w) of one annotator or more, pixel after pixel on a device.

    `targets` are further values (h, w, values) of each pixel.
    """

    def __init__(
        self,
        images: Sequence[NDArray[np.uint8]],
        labels: Sequence[Sequence[NDArray[np.int16]]],
        device: torch.device,
        targets: Sequence[NDArray[np.uint8]] | None = None,
    ) -> None:
        n_humans = max(map(len, labels))
        self.start = torch.tensor(np.cumsum([0, *(i.shape[0] * i.shape[1] for i in images)])[:-1], device=device)
        self.shape = torch.tensor([i.shape[:2] for i in images], device=device)
        self.pixels = torch.tensor(np.concatenate([i.reshape(-1, 3) for i in images]), device=device)
        rows, weights = [], np.zeros((len(images), n_humans), np.float32)
        for number, humans in enumerate(labels):
            flat = np.stack([human.ravel() for human in humans], axis=1)
            rows.append(np.pad(flat, ((0, 0), (0, n_humans - len(humans))), mode="edge"))
            weights[number, : len(humans)] = 1 / len(humans)
        self.labels = torch.tensor(np.concatenate(rows), device=device)
        self.human_weight = torch.tensor(weights, device=device)  # (images, annotators), sums to 1 for an image
        self.targets = None
        if targets is not None:
            self.targets = torch.tensor(np.concatenate([t.reshape(-1, t.shape[-1]) for t in targets]), device=device)
        noise = np.random.default_rng(0).normal(size=(NOISE_SIDE, NOISE_SIDE)).astype(np.float32)
        self.noise = torch.tensor(noise, device=device)

    def __len__(self) -> int:
        return len(self.start)

    def crops(self, rows: torch.Tensor, side: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Look up the crops of random numbers (b, columns).

        Returns
        -------
        images : (b, 3, side, side) float32 sRGB from 0 to 1.
        labels : (b, side, side, annotators) int16.
        targets : (b, side, side, values) float32 from 0 to 1, or None.
        """
        number = rows[:, IMAGE].long()
        shape, start = self.shape[number].float(), self.start[number]
        steps = torch.arange(side, device=rows.device) - (side - 1) / 2
        dy, dx = torch.meshgrid(steps, steps, indexing="ij")
        zoom, angle, mirror = (rows[:, column, None, None] for column in (ZOOM, ANGLE, MIRROR))
        cos, sin = torch.cos(angle) / zoom, torch.sin(angle) / zoom
        # Crops stay within the image, if there is room.
        margin = torch.clamp(0.4 * side / (rows[:, ZOOM, None] * shape), max=0.5)
        centre = (margin + rows[:, POSITION_Y : POSITION_X + 1] * (1 - 2 * margin)) * (shape - 1)
        y = centre[:, 0, None, None] + cos * dy - sin * dx * mirror
        x = centre[:, 1, None, None] + sin * dy + cos * dx * mirror
        y, x = _reflect(y, shape[:, 0, None, None]), _reflect(x, shape[:, 1, None, None])
        width, first = self.shape[number][:, 1, None, None], start[:, None, None]
        nearest = first + torch.round(y).long() * width + torch.round(x).long()
        top, left = torch.floor(y).long(), torch.floor(x).long()
        down = torch.minimum(top + 1, self.shape[number][:, 0, None, None] - 1)
        right = torch.minimum(left + 1, width - 1)
        share_y, share_x = (y - top)[..., None], (x - left)[..., None]

        def at(row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
            return self.pixels[first + row * width + column].float()

        upper = at(top, left) * (1 - share_x) + at(top, right) * share_x
        lower = at(down, left) * (1 - share_x) + at(down, right) * share_x
        images = (upper * (1 - share_y) + lower * share_y).permute(0, 3, 1, 2) / 255
        targets = None if self.targets is None else self.targets[nearest].float() / 255
        return self._recolour(images, rows, side), self.labels[nearest], targets

    def _recolour(self, images: torch.Tensor, rows: torch.Tensor, side: int) -> torch.Tensor:

        def column(first: int, count: int = 1) -> torch.Tensor:
            return rows[:, first : first + count, None, None]

        images = torch.gather(images, 1, column(ORDER, 3).long().expand_as(images))
        images = torch.where(column(INVERT) > 0, 1 - images, images)
        images = torch.where(column(GREY) > 0, images.mean(1, keepdim=True), images)
        images = images.clamp(min=1e-4) ** column(GAMMA) * column(GAIN, 3)
        mean = images.mean((1, 2, 3), keepdim=True)
        images = mean + (images - mean) * column(CONTRAST)
        steps = torch.arange(side, device=rows.device)
        y = (rows[:, SHIFT].long()[:, None] + steps) % NOISE_SIDE
        x = (rows[:, SHIFT + 1].long()[:, None] + steps) % NOISE_SIDE
        noise = self.noise[y[:, :, None], x[:, None, :]]
        return (images + column(NOISE) * noise[:, None]).clamp(0, 1)


def _reflect(position: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    """Reflect positions beyond the ends of an axis into 0..length - 1."""
    folded = torch.remainder(position, 2 * (length - 1).clamp(min=1))
    return torch.minimum(torch.where(folded > length - 1, 2 * (length - 1) - folded, folded), length - 1)


# From linear sRGB to X, Y and Z in units of those of white (D65), as in core/image/normalized_image.py.
TO_XYZ = (
    (0.412453 / 0.95047, 0.357580 / 0.95047, 0.180423 / 0.95047),
    (0.212671, 0.715160, 0.072169),
    (0.019334 / 1.08883, 0.119193 / 1.08883, 0.950227 / 1.08883),
)


def convert_to_lab(images: torch.Tensor) -> torch.Tensor:
    """Convert sRGB images (b, 3, h, w) from 0 to 1 to CIE Lab."""
    linear = torch.where(images > 0.04045, ((images + 0.055) / 1.055).clamp(min=0) ** 2.4, images / 12.92)
    r, g, b = linear.unbind(1)
    xyz = torch.stack([u * r + v * g + w * b for u, v, w in TO_XYZ], dim=1)
    knee = (6 / 29) ** 3
    cube_root = torch.where(xyz > knee, xyz.clamp(min=knee) ** (1 / 3), xyz * (29**2 / (3 * 6**2)) + 4 / 29)
    x, y, z = cube_root.unbind(1)
    return torch.stack((116 * y - 16, 500 * (x - y), 200 * (y - z)), dim=1)


# ---- the network


class NetworkModule(nn.Module):  # type: ignore[misc]  # PyTorch is not there when types are checked
    """A network in training: convolutions with batch normalization, and side outputs.

    The side outputs predict the same as the fine one, from every scale on the way up; they are for training alone.
    ``slope`` (2,) is that of the curve from the squared distance of two places to the log odds of one segment.
    """

    def __init__(self, plan: NetworkPlan) -> None:
        super().__init__()
        self.plan = plan
        self.convolutions, self.norms = nn.ModuleDict(), nn.ModuleDict()
        for c in plan.convolutions():
            bare = c.name in ("fine", "places")
            key = c.name.replace(".", "_")
            self.convolutions[key] = nn.Conv2d(c.inputs, c.outputs, c.size, c.stride, c.size // 2, bias=bare)
            if not bare:
                self.norms[key] = nn.BatchNorm2d(c.outputs)
        # A block begins as the identity: its second normalization is 0.
        for key, norm in self.norms.items():
            if key.endswith("b"):
                nn.init.zeros_(norm.weight)
        self.sides = nn.ModuleDict({str(scale): nn.Conv2d(WIDTHS[scale], plan.fine, 1) for scale in range(3)})
        self.slope = nn.Parameter(torch.tensor([2.0, 1.0]))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None, list[torch.Tensor]]:
        """Return fine (b, fine, h, w), places (b, places, h / 4, w / 4) or None, and side outputs, fine to coarse."""
        outputs = run_plan(self.plan, self, image)
        return outputs.fine, outputs.places, [self.sides[str(s)](x) for s, x in sorted(outputs.scales.items())]

    def convolve(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """Apply a convolution and its normalization."""
        key = name.replace(".", "_")
        y: torch.Tensor = self.convolutions[key](x)
        return self.norms[key](y) if key in self.norms else y

    def rectify(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the rectifier."""
        return torch.relu(x)

    def add(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Add two layers."""
        return x + y

    def double(self, x: torch.Tensor) -> torch.Tensor:
        """Double the size."""
        return nn.functional.interpolate(x, scale_factor=2, mode="nearest")

    def unfold(self, x: torch.Tensor) -> torch.Tensor:
        """Spread channels over four pixels."""
        return nn.functional.pixel_shuffle(x, 2)

    def fuse_weights(self) -> dict[str, NDArray[np.float16]]:
        """Fuse each normalization with its convolution.

        Returns ``NAME.weight`` (outputs, inputs, size, size) and ``NAME.bias`` (outputs,).
        """
        arrays: dict[str, NDArray[np.float16]] = {}
        for c in self.plan.convolutions():
            key = c.name.replace(".", "_")
            convolution: Any = self.convolutions[key]
            weight = convolution.weight.detach().double()
            if key in self.norms:
                norm: Any = self.norms[key]
                gain = norm.weight.detach().double() / torch.sqrt(norm.running_var.double() + norm.eps)
                weight = weight * gain[:, None, None, None]
                bias = norm.bias.detach().double() - norm.running_mean.double() * gain
            else:
                bias = convolution.bias.detach().double()
            arrays[f"{c.name}.weight"] = weight.cpu().numpy().astype(np.float16)
            arrays[f"{c.name}.bias"] = bias.cpu().numpy().astype(np.float16)
        return arrays


# ---- losses

# Subtracted from the lightness, and divisor of Lab, as in core/features/network.py.
LAB_OFFSET, LAB_SCALE = 50.0, 25.0
# Additional weight of pixels on boundaries.
BOUNDARY_WEIGHT = 3.0
# The same of outlines of objects, and of their contacts.
OUTLINE_WEIGHT, CONTACT_WEIGHT = 2.0, 5.0
# Larger than any label.
MAX_LABEL = 1e6
# Weights of the side outputs and of the pairs, relative to the fine output.
SIDE_WEIGHT, PAIR_WEIGHT = 0.3, 0.5


def boundary_loss(
    module: NetworkModule, images: ImageStore, rows: torch.Tensor, pairs: torch.Tensor, side: int
) -> torch.Tensor:
    """Compute the loss of boundaries and of pairs of places.

    A boundary is where labels differ, three pixels wide; its target is the fraction of annotators who draw it. Two
    places should be near each other if annotators put them into one segment.

    Parameters
    ----------
    module, images : NetworkModule, ImageStore
        The network and the images.
    rows : (b, columns) tensor
        Random numbers of crops.
    pairs : (pairs, 2) tensor
        Places in a crop.
    side : int
        Side of a crop in pixels.
    """
    crops, labels, _ = images.crops(rows, side)
    weight = images.human_weight[rows[:, IMAGE].long()]
    boundary = (find_borders(labels.permute(0, 3, 1, 2)) * weight[:, :, None, None]).sum(1, keepdim=True)
    fine, places, sides = _predict(module, crops)
    loss = _boundary_loss(fine, boundary)
    for output in sides:
        large = functional.interpolate(output, scale_factor=side // output.shape[-1], mode="bilinear")
        loss = loss + SIDE_WEIGHT / len(sides) * _boundary_loss(large, boundary)
    if places is None:
        return loss
    half = EMBEDDING_STRIDE // 2
    coarse = labels[:, half::EMBEDDING_STRIDE, half::EMBEDDING_STRIDE].flatten(1, 2)  # (b, places, people)
    flat = places.flatten(2)
    gap = (flat[:, :, pairs[:, 0]] - flat[:, :, pairs[:, 1]]).square().sum(1)
    same = ((coarse[:, pairs[:, 0]] == coarse[:, pairs[:, 1]]).float() * weight[:, None]).sum(-1)
    odds = module.slope[0] - functional.softplus(module.slope[1]) * gap
    return loss + PAIR_WEIGHT * functional.binary_cross_entropy_with_logits(odds, same)


def object_loss(
    module: NetworkModule, images: ImageStore, rows: torch.Tensor, pairs: torch.Tensor, side: int
) -> torch.Tensor:
    """Compute the loss of pixels, outlines, centres, contacts and widths of objects; see :func:`boundary_loss`."""
    crops, labels, targets = images.crops(rows, side)
    assert targets is not None
    numbers = labels.permute(0, 3, 1, 2)
    mask = (numbers > 0).float()
    centre, width = targets.permute(0, 3, 1, 2).split(1, dim=1)
    zoom = torch.log2(rows[:, ZOOM, None, None, None]) / OCTAVES
    outline, contact = find_borders(numbers, thick=False), find_contacts(numbers)
    target = torch.cat((mask, outline, centre * mask, contact, (width + zoom).clamp(0, 1)), dim=1)
    weight = torch.cat(
        (
            torch.ones_like(mask),
            1 + OUTLINE_WEIGHT * outline,
            torch.ones_like(mask),
            1 + CONTACT_WEIGHT * contact,
            mask,
        ),
        dim=1,
    )
    fine, _, sides = _predict(module, crops)
    loss = (functional.binary_cross_entropy_with_logits(fine, target, reduction="none") * weight).mean()
    for output in sides:
        large = functional.interpolate(output, scale_factor=side // output.shape[-1], mode="bilinear")
        part = functional.binary_cross_entropy_with_logits(large, target, reduction="none")
        loss = loss + SIDE_WEIGHT / len(sides) * (part * weight).mean()
    return loss


def find_contacts(labels: torch.Tensor) -> torch.Tensor:
    """Find where two objects of labels (b, k, h, w) are within two pixels, as float32."""
    numbers = labels.to(torch.float32)
    largest = functional.max_pool2d(numbers, 5, 1, 2)
    smallest = -functional.max_pool2d(torch.where(numbers > 0, -numbers, torch.full_like(numbers, -MAX_LABEL)), 5, 1, 2)
    return ((largest > 0) & (smallest < largest)).to(torch.float32)


def find_borders(labels: torch.Tensor, thick: bool = True) -> torch.Tensor:
    """Find where labels (b, k, h, w) differ from the next pixel right or below, as float32.

    Thick borders include all neighbours, others the two pixels on either side.
    """
    down = labels[:, :, 1:] != labels[:, :, :-1]
    right = labels[:, :, :, 1:] != labels[:, :, :, :-1]
    thin = functional.pad(down, (0, 0, 0, 1)) | functional.pad(right, (0, 1, 0, 0))
    if not thick:
        thin = thin | functional.pad(down, (0, 0, 1, 0)) | functional.pad(right, (1, 0, 0, 0))
        return thin.to(torch.float32)
    return functional.max_pool2d(thin.to(torch.float32), 3, 1, 1)


def _predict(
    module: NetworkModule, images: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None, list[torch.Tensor]]:
    """Compute the outputs for sRGB images (b, 3, h, w), in half precision on a GPU."""
    colours = convert_to_lab(images)
    shift = colours.new_zeros(1, 3, 1, 1)
    shift[:, 0] = LAB_OFFSET
    inputs = ((colours - shift) / LAB_SCALE).contiguous(memory_format=torch.channels_last)
    with torch.autocast(images.device.type, torch.bfloat16, images.device.type == "cuda", cache_enabled=False):
        fine, places, sides = module(inputs)
    return fine.float(), None if places is None else places.float(), [output.float() for output in sides]


def _boundary_loss(odds: torch.Tensor, boundary: torch.Tensor) -> torch.Tensor:
    loss = functional.binary_cross_entropy_with_logits(odds, boundary, reduction="none")
    return (loss * (1 + BOUNDARY_WEIGHT * boundary)).mean()


# ---- training

# The loss of a network for crops of images.
Loss = Callable[[NetworkModule, ImageStore, torch.Tensor, torch.Tensor, int], torch.Tensor]
LOSSES: Mapping[str, tuple[Augmentation, Loss]] = {
    "photo": (PHOTOGRAPHS, boundary_loss), "objects": (MICROGRAPHS, object_loss),
}  # fmt: skip
# Sets of pairs of places that are used in turn, and the pairs of each.
PAIR_SETS, PAIRS = 64, 4096
# Fraction of the steps in which the rate rises.
RISE = 0.05
# Batches for the normalizations at the end, and for losses on images not seen.
FINAL_BATCHES, TEST_BATCHES = 100, 4


@dataclass(frozen=True)
class TrainingOptions:
    """Length and parameters of the training."""

    steps: int = 6000
    batch: int = 16  # crops in a step
    side: int = 320  # of a crop, a multiple of 16
    rate: float = 2e-3  # maximum learning rate
    decay: float = 0.02  # weight decay
    memory: float = 0.999  # of the average of the weights, per step
    test_every: int = 500


@dataclass(eq=False)
class TrainingTask:
    """A network, its images, and its losses so far."""

    module: NetworkModule
    images: ImageStore
    others: ImageStore | None  # images not seen
    augmentation: Augmentation
    loss: Loss
    seed: int
    curve: list[tuple[int, float]] = field(default_factory=list)  # steps, loss
    other_curve: list[tuple[int, float]] = field(default_factory=list)


class Trainer:
    """A task on its device."""

    def __init__(self, task: TrainingTask, options: TrainingOptions, device: torch.device) -> None:
        self.task, self.options, self.device = task, options, device
        rng = np.random.default_rng(task.seed)
        shape = (options.steps + FINAL_BATCHES, options.batch)
        self.table = torch.tensor(draw_crops(rng, shape, len(task.images), task.augmentation), device=device)
        if task.others is not None:
            rows = draw_crops(
                np.random.default_rng(0), (TEST_BATCHES, options.batch), len(task.others), task.augmentation
            )
            self.other_table = torch.tensor(rows, device=device)
        self.pairs = torch.tensor(draw_pairs(rng, options.side // 4), device=device)
        self.rates = torch.tensor([rate_at(s, options) for s in range(options.steps)], device=device)
        self.losses = torch.zeros(options.steps, device=device)
        self.counter = torch.zeros(1, dtype=torch.long, device=device)
        self.module = task.module.to(device, memory_format=torch.channels_last)
        self.parameters = list(self.module.parameters())
        self.average = [p.detach().clone() for p in self.parameters]
        on_gpu = device.type == "cuda"
        self.rate = torch.zeros((), device=device)
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=self.rate if on_gpu else options.rate, weight_decay=options.decay, capturable=on_gpu
        )

    def loss(self, images: ImageStore, rows: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
        """Compute the loss of the task."""
        return self.task.loss(self.module, images, rows, pairs, self.options.side)

    def step(self) -> None:
        """Do one step, without waiting for a number from the device."""
        rows = self.table.index_select(0, self.counter)[0]
        pairs = self.pairs.index_select(0, self.counter % PAIR_SETS)[0]
        rate = self.rates.index_select(0, self.counter)[0]
        if self.device.type == "cuda":
            self.rate.copy_(rate)
        else:
            self.optimizer.param_groups[0]["lr"] = float(rate)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.task.images, rows, pairs)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.average, [p.detach() for p in self.parameters], 1 - self.options.memory)
            self.losses.index_copy_(0, self.counter, loss.detach().reshape(1))
            self.counter += 1

    def test(self, step: int) -> None:
        """Record the mean loss, and that on images not seen."""
        span = self.losses[max(0, step - self.options.test_every) : step]
        self.task.curve.append((step, float(span.mean())))
        if self.task.others is not None:
            self.module.eval()
            with torch.no_grad():
                losses = [self.loss(self.task.others, rows, self.pairs[0]) for rows in self.other_table]
            self.module.train()
            self.task.other_curve.append((step, float(torch.stack(losses).mean())))

    def finish(self) -> None:
        """Take the averaged weights, and estimate the normalizations with them."""
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, self.average)
            for norm in self.module.norms.values():
                norm.reset_running_stats()
                norm.momentum = None  # plain means over what follows
            self.module.train()
            for rows in self.table[self.options.steps :]:
                self.loss(self.task.images, rows, self.pairs[0])
        self.module.eval()
        self.test(self.options.steps)


def train(
    tasks: Sequence[TrainingTask],
    options: TrainingOptions,
    device: torch.device,
    report: Callable[[int], None] = lambda step: None,
) -> None:
    """Train all networks side by side, and call `report` with the number of steps now and then."""
    trainers = [Trainer(task, options, device) for task in tasks]
    steps = _record_steps(trainers) if device.type == "cuda" else [trainer.step for trainer in trainers]
    for number in range(int(trainers[0].counter), options.steps):
        for step in steps:
            step()
        if (number + 1) % options.test_every == 0 and number + 1 < options.steps:
            if device.type == "cuda":
                torch.cuda.synchronize()
            for trainer in trainers:
                trainer.test(number + 1)
            report(number + 1)
    if device.type == "cuda":
        torch.cuda.synchronize()
    for trainer in trainers:
        trainer.finish()
    report(options.steps)


def _record_steps(trainers: Sequence[Trainer]) -> list[Callable[[], None]]:
    """Record the step of each trainer, to be replayed in a stream of its own."""
    replays: list[Callable[[], None]] = []
    for trainer in trainers:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):  # sets up what is set up at first use
                trainer.step()
        torch.cuda.synchronize()
        graph: Any = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            trainer.step()
        torch.cuda.synchronize()

        def replay(graph: Any = graph, stream: Any = stream) -> None:
            with torch.cuda.stream(stream):
                graph.replay()

        replays.append(replay)
    return replays


def rate_at(step: int, options: TrainingOptions) -> float:
    """Return the learning rate of a step: up along a line, down along a cosine."""
    rise = max(1.0, RISE * options.steps)
    if step < rise:
        return options.rate * (step + 1) / rise
    return options.rate * (0.005 + 0.995 * 0.5 * (1 + math.cos(math.pi * (step - rise) / (options.steps - rise))))


def draw_pairs(rng: np.random.Generator, side: int) -> Int64Array:
    """Draw (sets, pairs, 2) pairs of places in a square, with distances from 1 to side / 3."""
    shape = (PAIR_SETS, PAIRS)
    distance = np.exp(rng.uniform(0, math.log(side / 3), shape))
    angle = rng.uniform(0, 2 * math.pi, shape)
    y, x = rng.integers(0, side, shape), rng.integers(0, side, shape)
    v = np.clip(np.rint(y + distance * np.sin(angle)).astype(np.int64), 0, side - 1)
    u = np.clip(np.rint(x + distance * np.cos(angle)).astype(np.int64), 0, side - 1)
    return np.stack((y * side + x, v * side + u), axis=-1)
