"""Training of the networks by PyTorch: crops of images, the network as a module, its loss, and training steps.

All pixels of all images lie in one array on the device, and crops are looked up in it, rotated, scaled, mirrored and
recoloured at random. The random numbers are drawn beforehand on the processor, so the same seed gives the same crops.

Several networks are trained side by side by AdamW with a rate that rises and falls, and an average of the weights over
about the last thousand steps, for which means and variances of the normalizations are estimated again at the end. On a
GPU a step is recorded once and replayed, each network in a stream of its own, since such small steps would wait for
Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from napari_gsw.core.array_types import Int64Array
from napari_gsw.core.features.network import EMBEDDING_STRIDE
from napari_gsw.core.features.object_network import OCTAVES
from napari_gsw.research.training.onnx_export import IMAGE, WIDTHS, make_plan
from napari_gsw.research.training.pictures import Picture

# Random numbers of crops by name: (crops,) or (crops, 2 or 3).
Crops = Mapping[str, torch.Tensor]

# ---- crops


class Augmentation(NamedTuple):
    """Ranges of the random changes of crops."""

    zoom: float  # maximum factor of magnification and reduction
    turn: float  # fraction of crops that are rotated by any angle; the others by at most ten degrees
    gamma: float  # standard deviation of the natural logarithm, likewise gain and contrast
    gain: float
    contrast: float
    grey: float  # fraction of crops without colour
    invert: float = 0.0  # fraction of crops with light and dark exchanged
    shuffle: float = 0.0  # fraction of crops with their channels in another order
    noise: float = 0.0  # maximum width of the noise, of values from 0 to 1


AUGMENTATIONS: Mapping[str, Augmentation] = {
    "photo": Augmentation(zoom=1.7, turn=0.5, gamma=0.25, gain=0.08, contrast=0.15, grey=0.1, noise=0.02),
    "objects": Augmentation(
        zoom=2.0, turn=1.0, gamma=0.4, gain=0.2, contrast=0.3, grey=0.3, invert=0.3, shuffle=0.3, noise=0.06
    ),
}
# Pixels of the noise that is looked up, along each axis.
NOISE_SIDE = 1024


def draw_crops(
    rng: np.random.Generator, shape: tuple[int, ...], n_images: int, augmentation: Augmentation
) -> dict[str, NDArray[Any]]:
    """Draw the random numbers of crops, arrays (\\*shape,) or (\\*shape, 2 or 3)."""
    a = augmentation
    crops: dict[str, NDArray[Any]] = {
        "image": rng.integers(0, n_images, shape),
        "position": rng.random((*shape, 2)),  # 0..1 along both axes
        "zoom": np.exp(rng.uniform(-1, 1, shape) * math.log(a.zoom)),
        "angle": rng.uniform(-math.pi, math.pi, shape),
    }
    crops["angle"] = np.where(rng.random(shape) < a.turn, crops["angle"], crops["angle"] / 18)
    crops["mirror"] = np.where(rng.random(shape) < 0.5, -1, 1)
    crops["gamma"] = np.exp(a.gamma * rng.normal(size=shape))
    crops["gain"] = np.exp(a.gain * rng.normal(size=(*shape, 3)))
    crops["contrast"] = np.exp(a.contrast * rng.normal(size=shape))
    crops["grey"] = rng.random(shape) < a.grey
    crops["invert"] = rng.random(shape) < a.invert
    mixed = rng.permuted(np.broadcast_to(np.arange(3), (*shape, 3)), axis=-1)
    crops["order"] = np.where((rng.random(shape) < a.shuffle)[..., None], mixed, np.arange(3))
    crops["noise"] = a.noise * rng.random(shape)
    crops["shift"] = rng.integers(0, NOISE_SIDE, (*shape, 2))
    return {name: v.astype(np.float32) if v.dtype == np.float64 else v for name, v in crops.items()}


class ImageStore:
    """Images of any sizes with their labels and targets, pixel after pixel on a device."""

    def __init__(self, pictures: Sequence[Picture], device: torch.device) -> None:
        def put(values: Any) -> torch.Tensor:
            return torch.tensor(np.asarray(values), device=device)

        images, labels, targets = zip(*pictures, strict=True)
        n_humans = max(map(len, labels))
        self.device = device
        self.start = put(np.cumsum([0, *(i.shape[0] * i.shape[1] for i in images)])[:-1])
        self.shape = put([i.shape[:2] for i in images])
        self.pixels = put(np.concatenate([i.reshape(-1, 3) for i in images]))
        rows, weights = [], np.zeros((len(images), n_humans), np.float32)
        for number, humans in enumerate(labels):
            flat = np.stack([human.ravel() for human in humans], axis=1)
            rows.append(np.pad(flat, ((0, 0), (0, n_humans - len(humans))), mode="edge"))
            weights[number, : len(humans)] = 1 / len(humans)
        self.labels = put(np.concatenate(rows))
        self.human_weight = put(weights)  # (images, annotators), sums to 1 for an image
        has_targets = targets[0] is not None
        self.targets = put(np.concatenate([t.reshape(-1, t.shape[-1]) for t in targets])) if has_targets else None
        self.noise = put(np.random.default_rng(0).normal(size=(NOISE_SIDE, NOISE_SIDE)).astype(np.float32))

    def __len__(self) -> int:
        return len(self.start)

    def look_up(self, crops: Crops, side: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Look up b crops.

        Returns
        -------
        images : (b, 3, side, side) float32 sRGB from 0 to 1.
        labels : (b, annotators, side, side) int16.
        targets : (b, values, side, side) float32 from 0 to 1, or None.
        """
        number = crops["image"]
        size, start = self.shape[number], self.start[number]
        shape = size.float()
        steps = torch.arange(side, device=self.device) - (side - 1) / 2
        dy, dx = torch.meshgrid(steps, steps, indexing="ij")
        zoom, angle, mirror = (crops[name][:, None, None] for name in ("zoom", "angle", "mirror"))
        cos, sin = torch.cos(angle) / zoom, torch.sin(angle) / zoom
        # Crops stay within the image, if there is room.
        margin = torch.clamp(0.4 * side / (crops["zoom"][:, None] * shape), max=0.5)
        centre = (margin + crops["position"] * (1 - 2 * margin)) * (shape - 1)
        y = centre[:, 0, None, None] + cos * dy - sin * dx * mirror
        x = centre[:, 1, None, None] + sin * dy + cos * dx * mirror
        y, x = _reflect(y, shape[:, 0, None, None]), _reflect(x, shape[:, 1, None, None])
        height, width, first = size[:, 0, None, None], size[:, 1, None, None], start[:, None, None]
        nearest = first + torch.round(y).long() * width + torch.round(x).long()
        top, left = torch.floor(y).long(), torch.floor(x).long()
        down, right = torch.minimum(top + 1, height - 1), torch.minimum(left + 1, width - 1)
        share_y, share_x = (y - top)[..., None], (x - left)[..., None]

        def at(row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
            return self.pixels[first + row * width + column].float()

        upper = at(top, left) * (1 - share_x) + at(top, right) * share_x
        lower = at(down, left) * (1 - share_x) + at(down, right) * share_x
        images = (upper * (1 - share_y) + lower * share_y).permute(0, 3, 1, 2) / 255
        targets = None if self.targets is None else self.targets[nearest].permute(0, 3, 1, 2).float() / 255
        return self._recolour(images, crops, side), self.labels[nearest].permute(0, 3, 1, 2), targets

    def _recolour(self, images: torch.Tensor, crops: Crops, side: int) -> torch.Tensor:
        c = {name: values.reshape(len(values), -1, 1, 1) for name, values in crops.items()}
        images = torch.gather(images, 1, c["order"].expand_as(images))
        images = torch.where(c["invert"], 1 - images, images)
        images = torch.where(c["grey"], images.mean(1, keepdim=True), images)
        images = images.clamp(min=1e-4) ** c["gamma"] * c["gain"]
        mean = images.mean((1, 2, 3), keepdim=True)
        images = mean + (images - mean) * c["contrast"]
        y, x = ((crops["shift"][..., None] + torch.arange(side, device=self.device)) % NOISE_SIDE).unbind(1)
        return (images + c["noise"] * self.noise[y[:, :, None], x[:, None, :]][:, None]).clamp(0, 1)


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

OPERATIONS: Mapping[str, Callable[..., torch.Tensor]] = {
    "Relu": torch.relu,
    "Add": torch.add,
    "Resize": partial(functional.interpolate, scale_factor=2, mode="nearest"),
    "DepthToSpace": partial(functional.pixel_shuffle, upscale_factor=2),
}


class NetworkModule(nn.Module):  # type: ignore[misc]  # PyTorch is not there when types are checked
    """A network in training: convolutions with batch normalization, and side outputs.

    The side outputs predict the same as the fine one, from every scale on the way up; they are for training alone.
    ``slope`` (2,) is that of the curve from the squared distance of two places to the log odds of one segment.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.plan = make_plan(kind)
        self.convolutions, self.norms = nn.ModuleDict(), nn.ModuleDict()
        for c in self.plan.convolutions:
            bare = c.name in ("fine", "places")
            key = c.name.replace(".", "_")
            self.convolutions[key] = nn.Conv2d(c.inputs, c.outputs, c.size, c.stride, c.size // 2, bias=bare)
            if not bare:
                self.norms[key] = nn.BatchNorm2d(c.outputs)
        # A block begins as the identity: its second normalization is 0.
        for key, norm in self.norms.items():
            if key.endswith("b"):
                nn.init.zeros_(norm.weight)
        self.sides = nn.ModuleDict({str(scale): nn.Conv2d(WIDTHS[scale], self.plan.n_fine, 1) for scale in range(3)})
        self.slope = nn.Parameter(torch.tensor([2.0, 1.0]))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None, list[torch.Tensor]]:
        """Return fine (b, fine, h, w), places (b, places, h / 4, w / 4) or None, and side outputs, fine to coarse."""
        arrays = {IMAGE: image}
        for number, (operation, inputs, c) in enumerate(self.plan.steps):
            values = [arrays[k] for k in inputs]
            if c is None:
                arrays[number] = OPERATIONS[operation](*values)
            else:
                key = c.name.replace(".", "_")
                y = self.convolutions[key](*values)
                arrays[number] = self.norms[key](y) if key in self.norms else y
        places = None if self.plan.places is None else arrays[self.plan.places]
        sides = [self.sides[str(scale)](arrays[k]) for scale, k in sorted(self.plan.scales.items())]
        return arrays[self.plan.fine], places, sides

    def fuse_weights(self) -> dict[str, NDArray[np.float16]]:
        """Fuse each normalization with its convolution.

        Returns ``NAME.weight`` (outputs, inputs, size, size) and ``NAME.bias`` (outputs,).
        """
        arrays: dict[str, NDArray[np.float16]] = {}
        for c in self.plan.convolutions:
            key = c.name.replace(".", "_")
            weight = self.convolutions[key].weight.detach().double()
            if key in self.norms:
                norm: Any = self.norms[key]
                gain = norm.weight.detach().double() / torch.sqrt(norm.running_var.double() + norm.eps)
                weight = weight * gain[:, None, None, None]
                bias = norm.bias.detach().double() - norm.running_mean.double() * gain
            else:
                bias = self.convolutions[key].bias.detach().double()
            arrays[f"{c.name}.weight"] = weight.cpu().numpy().astype(np.float16)
            arrays[f"{c.name}.bias"] = bias.cpu().numpy().astype(np.float16)
        return arrays


# ---- the loss

# Subtracted from the lightness, and divisor of Lab, as in core/features/network.py.
LAB_OFFSET, LAB_SCALE = 50.0, 25.0
# Additional weight of pixels on boundaries, on outlines of objects, and at their contacts.
BOUNDARY_WEIGHT, OUTLINE_WEIGHT, CONTACT_WEIGHT = 3.0, 2.0, 5.0
# Larger than any label.
MAX_LABEL = 1e6
# Weights of the side outputs and of the pairs, relative to the fine output.
SIDE_WEIGHT, PAIR_WEIGHT = 0.3, 0.5


def compute_loss(
    module: NetworkModule, images: ImageStore, crops: Crops, pairs: torch.Tensor, side: int
) -> torch.Tensor:
    """Compute the loss of the fine and side outputs for crops of a side, and of pairs (pairs, 2) of places in a crop.

    A boundary is where labels differ, three pixels wide; its target is the fraction of annotators who draw it. Two
    places should be near each other if annotators put them into one segment. Of objects the targets are pixels,
    outlines, centres, contacts and widths.
    """
    pictures, labels, targets = images.look_up(crops, side)
    human_weight = images.human_weight[crops["image"]]
    if targets is None:
        target = (find_borders(labels) * human_weight[:, :, None, None]).sum(1, keepdim=True)
        weight = 1 + BOUNDARY_WEIGHT * target
    else:
        target, weight = make_object_targets(labels, targets, crops["zoom"])

    def loss_of(odds: torch.Tensor) -> torch.Tensor:
        return (functional.binary_cross_entropy_with_logits(odds.float(), target, reduction="none") * weight).mean()

    colours = convert_to_lab(pictures)
    shift = colours.new_zeros(1, 3, 1, 1)
    shift[:, 0] = LAB_OFFSET
    inputs = ((colours - shift) / LAB_SCALE).contiguous(memory_format=torch.channels_last)
    # In half precision on a GPU.
    with torch.autocast(inputs.device.type, torch.bfloat16, inputs.device.type == "cuda", cache_enabled=False):
        fine, places, sides = module(inputs)
    loss = loss_of(fine)
    for output in sides:
        large = functional.interpolate(output.float(), scale_factor=side // output.shape[-1], mode="bilinear")
        loss = loss + SIDE_WEIGHT / len(sides) * loss_of(large)
    if places is None:
        return loss
    half = EMBEDDING_STRIDE // 2
    coarse = labels[:, :, half::EMBEDDING_STRIDE, half::EMBEDDING_STRIDE].flatten(2)  # (b, people, places)
    flat = places.float().flatten(2)
    gap = (flat[:, :, pairs[:, 0]] - flat[:, :, pairs[:, 1]]).square().sum(1)
    same = ((coarse[:, :, pairs[:, 0]] == coarse[:, :, pairs[:, 1]]).float() * human_weight[:, :, None]).sum(1)
    odds = module.slope[0] - functional.softplus(module.slope[1]) * gap
    return loss + PAIR_WEIGHT * functional.binary_cross_entropy_with_logits(odds, same)


def make_object_targets(
    labels: torch.Tensor, targets: torch.Tensor, zoom: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Make the targets (b, 5, h, w) of objects, and the weights of pixels, from crops magnified by `zoom` (b,)."""
    mask, ones = (labels > 0).float(), torch.ones_like(labels, dtype=torch.float32)
    centre, width = targets.split(1, dim=1)
    width = (width + torch.log2(zoom[:, None, None, None]) / OCTAVES).clamp(0, 1)
    outline, contact = find_borders(labels, thick=False), find_contacts(labels)
    target = torch.cat((mask, outline, centre * mask, contact, width), dim=1)
    weight = torch.cat((ones, 1 + OUTLINE_WEIGHT * outline, ones, 1 + CONTACT_WEIGHT * contact, mask), dim=1)
    return target, weight


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


# ---- training

# Maximum learning rate, the fraction of the steps in which it rises, and the weight decay.
RATE, RISE, DECAY = 2e-3, 0.05, 0.02
# Memory of the average of the weights, per step.
MEMORY = 0.999
# Sets of pairs of places that are used in turn, and the pairs of each.
PAIR_SETS, PAIRS = 64, 4096
# Steps between two reports, and batches for losses on images not seen, and for the normalizations at the end.
TEST_EVERY, TEST_BATCHES, FINAL_BATCHES = 500, 4, 100


class TrainingOptions(NamedTuple):
    """Length of the training and size of a step."""

    steps: int
    batch: int  # crops in a step
    side: int  # of a crop, a multiple of 16


class Trainer:
    """A network in training, with its images, images not seen, and its losses so far as (step, loss)."""

    def __init__(
        self, kind: str, images: ImageStore, others: ImageStore | None, options: TrainingOptions, seed: int
    ) -> None:
        self.images, self.others, self.options, self.seed = images, others, options, seed
        self.curve: list[tuple[int, float]] = []
        self.test_curve: list[tuple[int, float]] = []
        self.device = device = images.device
        rng = np.random.default_rng(seed)

        def put(crops: Mapping[str, NDArray[Any]]) -> Crops:
            return {name: torch.tensor(values, device=device) for name, values in crops.items()}

        shape = (options.steps + FINAL_BATCHES, options.batch)
        self.crops = put(draw_crops(rng, shape, len(images), AUGMENTATIONS[kind]))
        if others is not None:
            shape = (TEST_BATCHES, options.batch)
            self.test_crops = put(draw_crops(np.random.default_rng(0), shape, len(others), AUGMENTATIONS[kind]))
        self.pairs = torch.tensor(draw_pairs(rng, options.side // 4), device=device)
        self.rates = torch.tensor([rate_at(s, options.steps) for s in range(options.steps)], device=device)
        self.losses = torch.zeros(options.steps, device=device)
        self.counter = torch.zeros(1, dtype=torch.long, device=device)
        torch.manual_seed(seed)
        self.module = NetworkModule(kind).to(device, memory_format=torch.channels_last)
        self.parameters = list(self.module.parameters())
        self.average = [p.detach().clone() for p in self.parameters]
        on_gpu = device.type == "cuda"
        self.rate = torch.zeros((), device=device)
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=self.rate if on_gpu else RATE, weight_decay=DECAY, capturable=on_gpu
        )

    def loss(self, images: ImageStore, crops: Crops, batch: int, pairs: torch.Tensor) -> torch.Tensor:
        """Compute the loss for one batch of crops."""
        rows = {name: values[batch] for name, values in crops.items()}
        return compute_loss(self.module, images, rows, pairs, self.options.side)

    def step(self) -> None:
        """Do one step, without waiting for a number from the device."""
        rows = {name: values.index_select(0, self.counter)[0] for name, values in self.crops.items()}
        pairs = self.pairs.index_select(0, self.counter % PAIR_SETS)[0]
        rate = self.rates.index_select(0, self.counter)[0]
        if self.device.type == "cuda":
            self.rate.copy_(rate)
        else:
            self.optimizer.param_groups[0]["lr"] = float(rate)
        self.optimizer.zero_grad(set_to_none=True)
        loss = compute_loss(self.module, self.images, rows, pairs, self.options.side)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.average, [p.detach() for p in self.parameters], 1 - MEMORY)
            self.losses.index_copy_(0, self.counter, loss.detach().reshape(1))
            self.counter += 1

    def record(self) -> Callable[[], None]:
        """Return the step, on a GPU recorded, to be replayed in a stream of its own."""
        if self.device.type != "cuda":
            return self.step
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):  # sets up what is set up at first use
                self.step()
        torch.cuda.synchronize()
        graph: Any = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self.step()
        torch.cuda.synchronize()

        def replay() -> None:
            with torch.cuda.stream(stream):
                graph.replay()

        return replay

    def test(self, step: int) -> None:
        """Record the mean loss, and that on images not seen."""
        self.curve.append((step, float(self.losses[max(0, step - TEST_EVERY) : step].mean())))
        if self.others is not None:
            self.module.eval()
            with torch.no_grad():
                losses = [self.loss(self.others, self.test_crops, k, self.pairs[0]) for k in range(TEST_BATCHES)]
            self.module.train()
            self.test_curve.append((step, float(torch.stack(losses).mean())))

    def finish(self) -> None:
        """Take the averaged weights, and estimate the normalizations with them."""
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, self.average)
            for norm in self.module.norms.values():
                norm.reset_running_stats()
                norm.momentum = None  # plain means over what follows
            self.module.train()
            for batch in range(self.options.steps, self.options.steps + FINAL_BATCHES):
                self.loss(self.images, self.crops, batch, self.pairs[0])
        self.module.eval()
        self.test(self.options.steps)


def train(trainers: Sequence[Trainer], report: Callable[[int], None]) -> None:
    """Train all networks side by side, and call `report` with the number of steps now and then."""
    steps = [trainer.record() for trainer in trainers]
    n_steps = trainers[0].options.steps
    for number in range(int(trainers[0].counter) + 1, n_steps):
        for step in steps:
            step()
        if number % TEST_EVERY == 0:
            _synchronize()
            for trainer in trainers:
                trainer.test(number)
            report(number)
    for step in steps:
        step()
    _synchronize()
    for trainer in trainers:
        trainer.finish()
    report(n_steps)


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def rate_at(step: int, steps: int) -> float:
    """Return the learning rate of a step: up along a line, down along a cosine."""
    rise = max(1.0, RISE * steps)
    if step < rise:
        return RATE * (step + 1) / rise
    return RATE * (0.005 + 0.995 * 0.5 * (1 + math.cos(math.pi * (step - rise) / (steps - rise))))


def draw_pairs(rng: np.random.Generator, side: int) -> Int64Array:
    """Draw (sets, pairs, 2) pairs of places in a square, with distances from 1 to side / 3."""
    shape = (PAIR_SETS, PAIRS)
    distance = np.exp(rng.uniform(0, math.log(side / 3), shape))
    angle = rng.uniform(0, 2 * math.pi, shape)
    y, x = rng.integers(0, side, shape), rng.integers(0, side, shape)
    v = np.clip(np.rint(y + distance * np.sin(angle)).astype(np.int64), 0, side - 1)
    u = np.clip(np.rint(x + distance * np.cos(angle)).astype(np.int64), 0, side - 1)
    return np.stack((y * side + x, v * side + u), axis=-1)
