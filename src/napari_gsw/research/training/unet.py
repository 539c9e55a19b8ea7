"""The networks of the package in PyTorch: layers, loss, training, and export of the weights.

A U-Net on four scales, the finest at half of the pixels along each axis. It must have the layers of the graphs in
``data/network_KIND.onnx``, which onnxruntime computes with the exported weights.

    pixels -> 24 -> 48 -> 96 -> 144        channels, from fine to coarse
               |     |     |     |
    fine   <- 24 <- 48 <- 96 <---
                     |
    places <---------                      the embedding, at a quarter of the pixels along each axis

A network of small objects sees every pixel again at the end: the finest scale is spread over four pixels and added to
a first convolution of the pixels.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch.optim import swa_utils
from torch.utils.data import DataLoader

from napari_gsw.research.training.pictures import Crops

WIDTHS = (24, 48, 96, 144)
# Residual blocks on each scale, on the way down and on the way up.
DOWN_BLOCKS, UP_BLOCKS = (1, 1, 1, 3), (0, 1, 1)
# The scale of the embedding.
EMBEDDING_SCALE = 1
# Log odds for every pixel, coordinates of the embedding (0 for none), and channels at all pixels (0 for none). Of
# photographs: boundaries. Of objects: see the channels in core/features/network.py.
KINDS = {"photo": (1, 8, 0), "objects": (5, 0, 16)}


class Layer(nn.Sequential):  # type: ignore[misc]  # PyTorch is not there when types are checked
    """A convolution and its batch normalization, which become one convolution when weights are exported."""

    def __init__(self, inputs: int, outputs: int, size: int = 3, stride: int = 1) -> None:
        super().__init__(nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs))


class Block(nn.Module):  # type: ignore[misc]
    """A residual block, which begins as the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.b = Layer(width, width), Layer(width, width)
        nn.init.zeros_(self.b[1].weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the two convolutions to what comes in."""
        return torch.relu(x + self.b(torch.relu(self.a(x))))


class UNet(nn.Module):  # type: ignore[misc]
    """A network of a kind.

    The side outputs predict the same as the fine one, from every scale on the way up; they are for training alone.
    ``slope`` (2,) is that of the curve from the squared distance of two places to the log odds of one segment.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        n_fine, n_places, n_sharp = KINDS[kind]
        sizes = (5, 3, 3, 3)
        self.down = nn.ModuleList(map(Layer, (3, *WIDTHS[:-1]), WIDTHS, sizes, (2,) * 4))
        self.up = nn.ModuleList(Layer(coarse, fine, 1) for fine, coarse in itertools.pairwise(WIDTHS))
        self.down_blocks, self.up_blocks = (
            nn.ModuleList(nn.Sequential(*(Block(w) for _ in range(n))) for w, n in zip(WIDTHS, counts, strict=False))
            for counts in (DOWN_BLOCKS, UP_BLOCKS)
        )
        self.sides = nn.ModuleList(nn.Conv2d(width, n_fine, 1) for width in WIDTHS[:-1])
        self.places = nn.Conv2d(WIDTHS[EMBEDDING_SCALE], n_places, 1) if n_places else None
        self.last = Layer(WIDTHS[0], WIDTHS[0])
        self.is_sharp = n_sharp > 0
        if n_sharp:
            self.spread = Layer(WIDTHS[0], 4 * n_sharp)
            self.pixels, self.sharp = Layer(3, n_sharp, 5), Layer(n_sharp, n_sharp)
        self.fine = nn.Conv2d(n_sharp or WIDTHS[0], n_fine if n_sharp else 4 * n_fine, 3, padding=1)
        self.slope = nn.Parameter(torch.tensor([2.0, 1.0]))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None, list[torch.Tensor]]:
        """Return fine (b, fine, h, w), places (b, places, h / 4, w / 4) or None, and side outputs, coarse to fine."""
        x, scales, places = image, [], None
        for down, blocks in zip(self.down, self.down_blocks, strict=True):
            x = blocks(torch.relu(down(x)))
            scales.append(x)
        sides = []
        for scale in reversed(range(len(self.up))):
            large = functional.interpolate(self.up[scale](x), scale_factor=2, mode="nearest")
            x = self.up_blocks[scale](torch.relu(large + scales[scale]))
            sides.append(self.sides[scale](x))
            if scale == EMBEDDING_SCALE and self.places is not None:
                places = self.places(x)
        x = torch.relu(self.last(x))
        if not self.is_sharp:
            return functional.pixel_shuffle(self.fine(x), 2), places, sides
        x = torch.relu(functional.pixel_shuffle(self.spread(x), 2) + self.pixels(image))
        return self.fine(torch.relu(self.sharp(x))), places, sides

    def export_weights(self) -> dict[str, NDArray[np.float16]]:
        """Return the weights of the ONNX graph by name, with each normalization fused into its convolution."""
        arrays = {}
        for name, layer in copy.deepcopy(self).cpu().double().eval().named_modules():
            if isinstance(layer, Layer):
                layer = fuse_conv_bn_eval(*layer)
            elif name not in ("fine", "places"):
                continue
            # down_blocks.3.0.a is down3.0a there
            key = re.sub(r"\.(\d)\.(\w)$", r".\1\2", re.sub(r"^(down|up)(_blocks)?\.", r"\1", name))
            for part in ("weight", "bias"):
                arrays[f"{key}.{part}"] = getattr(layer, part).detach().numpy().astype(np.float16)
        return arrays


# Weights of the side outputs and of the pairs, relative to the fine output.
SIDE_WEIGHT, PAIR_WEIGHT = 0.3, 0.5


def compute_loss(module: UNet, crops: dict[str, torch.Tensor]) -> torch.Tensor:
    """Compute the loss of the fine and side outputs for a batch of crops, and of pairs of places in a crop.

    Two places should be near each other if annotators put them into one segment.
    """
    target, weight = crops["target"], crops["weight"]

    def loss_of(odds: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(odds.float(), target, weight)

    image = crops["image"].contiguous(memory_format=torch.channels_last)
    with torch.autocast(image.device.type, torch.bfloat16, image.device.type == "cuda"):
        fine, places, sides = module(image)
    loss = loss_of(fine)
    for side in sides:
        large = functional.interpolate(side.float(), target.shape[-2:], mode="bilinear")
        loss = loss + SIDE_WEIGHT / len(sides) * loss_of(large)
    if places is None:
        return loss
    flat = places.float().flatten(2)
    first, second = (index[:, None].expand(-1, flat.shape[1], -1) for index in crops["pairs"].unbind(-1))
    gap = (flat.gather(2, first) - flat.gather(2, second)).square().sum(1)
    odds = module.slope[0] - functional.softplus(module.slope[1]) * gap
    return loss + PAIR_WEIGHT * functional.binary_cross_entropy_with_logits(odds, crops["same"])


# Maximum learning rate, the fraction of the steps in which it rises, and the weight decay.
RATE, RISE, DECAY = 2e-3, 0.05, 0.02
# Memory of the average of the weights, per step.
MEMORY = 0.999
# Steps between two reports, and batches for losses on images not seen, and for the normalizations at the end.
TEST_EVERY, TEST_BATCHES, FINAL_BATCHES = 500, 4, 100

# Losses so far as (step, loss).
Curve = list[tuple[int, float]]


def train(
    crops: Crops, unseen: Crops | None, batch: int, device: torch.device, n_workers: int, report: Callable[[str], None]
) -> tuple[UNet, Curve, Curve]:
    """Train a network on crops, and return it with the losses on these and on images not seen.

    AdamW with a rate that rises along a line and falls along a cosine. The weights are averages over about the last
    thousand steps, for which the normalizations are estimated again at the end.
    """
    steps = crops.count // batch

    def load(data: Crops) -> Any:
        return DataLoader(data, batch, num_workers=n_workers)

    def put(batch_of_crops: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: values.to(device) for name, values in batch_of_crops.items()}

    def rate_at(step: int) -> float:
        rise = max(1.0, RISE * steps)
        fall = 0.005 + 0.995 * 0.5 * (1 + math.cos(math.pi * (step - rise) / max(steps - rise, 1)))
        return (step + 1) / rise if step < rise else fall

    torch.manual_seed(crops.seed)
    module = UNet(crops.kind).to(device, memory_format=torch.channels_last)
    average = swa_utils.AveragedModel(module, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(MEMORY))
    optimizer = torch.optim.AdamW(module.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate_at)
    tests = [] if unseen is None else [put(some) for some in load(replace(unseen, count=TEST_BATCHES * batch, seed=0))]
    curve: Curve = []
    test_curve: Curve = []
    losses = []
    for step, some in enumerate(load(crops), 1):
        loss = compute_loss(module, put(some))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        average.update_parameters(module)
        losses.append(loss.detach())
        if step % TEST_EVERY == 0 or step == steps:
            curve.append((step, float(torch.stack(losses).mean())))
            losses.clear()
            module.eval()
            with torch.no_grad():
                test_losses = [float(compute_loss(module, test)) for test in tests]
            module.train()
            test_curve += [(step, float(np.mean(test_losses)))] if tests else []
            report(f"step {step}: {curve[-1][1]:.4f}" + (f" ({test_curve[-1][1]:.4f} on others)" if tests else ""))
    more = load(replace(crops, count=FINAL_BATCHES * batch, seed=crops.seed + 1000))
    swa_utils.update_bn((some["image"] for some in more), average, device)
    return average.module.eval(), curve, test_curve
