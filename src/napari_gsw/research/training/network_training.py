"""How a network learns: several of them side by side on one device, each from its own pictures.

AdamW with a rate that rises and falls, and an average of the weights over the last thousand steps or so, for which the
means and variances of the normalisations are taken anew at the end. On a GPU a step is recorded once and replayed, each
network in a stream of its own: steps as small as these would else wait for Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from napari_gsw.research.training.network_crops import PictureStore, Recolouring, draws
from napari_gsw.research.training.network_module import NetworkModule

# What a network is taught: the loss of random numbers (b, columns) for crops of pictures.
Loss = Callable[[NetworkModule, PictureStore, torch.Tensor, torch.Tensor, int], torch.Tensor]
# Sets of pairs of places that are looked at in turn, and the pairs of each.
PAIR_SETS, PAIRS = 64, 4096
# Share of the steps in which the rate rises.
RISE = 0.05
# Crops by which normalisations and losses on other pictures are measured, in batches.
SETTLING, LOOKS = 100, 4


@dataclass(frozen=True)
class TrainingOptions:
    """How long and on what a network learns.

    Attributes
    ----------
    steps, batch, side : how many steps, crops in each, pixels of a crop along each axis (a multiple of 16).
    rate, decay : the largest learning rate, and the weight decay.
    memory : what the average of the weights keeps from step to step.
    look_every : steps from one look at pictures that are not learnt from to the next.
    """

    steps: int = 6000
    batch: int = 16
    side: int = 320
    rate: float = 2e-3
    decay: float = 0.02
    memory: float = 0.999
    look_every: int = 500


@dataclass(eq=False)
class Lesson:
    """One network, what it learns from, and how far it is.

    Attributes
    ----------
    pictures, others : what it learns from, and what it has not seen (None for nothing).
    curve : (steps, loss) now and then, and `other_curve` the same on the others.
    """

    module: NetworkModule
    pictures: PictureStore
    others: PictureStore | None
    how: Recolouring
    loss: Loss
    seed: int
    curve: list[tuple[int, float]] = field(default_factory=list)
    other_curve: list[tuple[int, float]] = field(default_factory=list)


class Learner:
    """A lesson on its device: :meth:`step` is one step, and all that it needs is there."""

    def __init__(self, lesson: Lesson, options: TrainingOptions, device: torch.device) -> None:
        self.lesson, self.options, self.device = lesson, options, device
        rng = np.random.default_rng(lesson.seed)
        shape = (options.steps + SETTLING, options.batch)
        self.table = torch.tensor(draws(rng, shape, len(lesson.pictures), lesson.how), device=device)
        if lesson.others is not None:
            rows = draws(np.random.default_rng(0), (LOOKS, options.batch), len(lesson.others), lesson.how)
            self.other_table = torch.tensor(rows, device=device)
        self.pairs = torch.tensor(place_pairs(rng, options.side // 4), device=device)
        self.rates = torch.tensor([rate_at(s, options) for s in range(options.steps)], device=device)
        self.losses = torch.zeros(options.steps, device=device)
        self.counter = torch.zeros(1, dtype=torch.long, device=device)
        self.module = lesson.module.to(device, memory_format=torch.channels_last)
        self.parameters = list(self.module.parameters())
        self.average = [p.detach().clone() for p in self.parameters]
        on_gpu = device.type == "cuda"
        self.rate = torch.zeros((), device=device)
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=self.rate if on_gpu else options.rate, weight_decay=options.decay, capturable=on_gpu
        )

    def loss(self, pictures: PictureStore, rows: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
        """The lesson's loss, with the convolutions in half precision where the device is made for it."""
        return self.lesson.loss(self.module, pictures, rows, pairs, self.options.side)

    def step(self) -> None:
        """One step; nothing in it depends on a number that the processor has to know."""
        rows = self.table.index_select(0, self.counter)[0]
        pairs = self.pairs.index_select(0, self.counter % PAIR_SETS)[0]
        rate = self.rates.index_select(0, self.counter)[0]
        if self.device.type == "cuda":
            self.rate.copy_(rate)
        else:
            self.optimizer.param_groups[0]["lr"] = float(rate)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.lesson.pictures, rows, pairs)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.average, [p.detach() for p in self.parameters], 1 - self.options.memory)
            self.losses.index_copy_(0, self.counter, loss.detach().reshape(1))
            self.counter += 1

    def look(self, step: int) -> None:
        """Write down the losses so far, and that on other pictures."""
        span = self.losses[max(0, step - self.options.look_every) : step]
        self.lesson.curve.append((step, float(span.mean())))
        if self.lesson.others is not None:
            self.module.eval()
            with torch.no_grad():
                losses = [self.loss(self.lesson.others, rows, self.pairs[0]) for rows in self.other_table]
            self.module.train()
            self.lesson.other_curve.append((step, float(torch.stack(losses).mean())))

    def settle(self) -> None:
        """Take the averaged weights, and measure the normalisations anew with them."""
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, self.average)
            for norm in self.module.norms.values():
                norm.reset_running_stats()
                norm.momentum = None  # plain means over what follows
            self.module.train()
            for rows in self.table[self.options.steps :]:
                self.loss(self.lesson.pictures, rows, self.pairs[0])
        self.module.eval()
        self.look(self.options.steps)


def learn(
    lessons: Sequence[Lesson],
    options: TrainingOptions,
    device: torch.device,
    report: Callable[[int], None] = lambda step: None,
) -> None:
    """Teach all networks, side by side; their modules hold the averaged weights in the end.

    Parameters
    ----------
    report : called with the number of steps done, now and then.
    """
    learners = [Learner(lesson, options, device) for lesson in lessons]
    steps = _recorded(learners) if device.type == "cuda" else [learner.step for learner in learners]
    for number in range(int(learners[0].counter), options.steps):
        for step in steps:
            step()
        if (number + 1) % options.look_every == 0 and number + 1 < options.steps:
            if device.type == "cuda":
                torch.cuda.synchronize()
            for learner in learners:
                learner.look(number + 1)
            report(number + 1)
    if device.type == "cuda":
        torch.cuda.synchronize()
    for learner in learners:
        learner.settle()
    report(options.steps)


def _recorded(learners: Sequence[Learner]) -> list[Callable[[], None]]:
    """Of each learner its step as a recording, to be replayed in a stream of its own."""
    replays: list[Callable[[], None]] = []
    for learner in learners:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):  # everything that is set up at first use is set up
                learner.step()
        torch.cuda.synchronize()
        graph: Any = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            learner.step()
        torch.cuda.synchronize()

        def replay(graph: Any = graph, stream: Any = stream) -> None:
            with torch.cuda.stream(stream):
                graph.replay()

        replays.append(replay)
    return replays


def rate_at(step: int, options: TrainingOptions) -> float:
    """The learning rate of a step: up along a line, down along a cosine."""
    rise = max(1.0, RISE * options.steps)
    if step < rise:
        return options.rate * (step + 1) / rise
    return options.rate * (0.005 + 0.995 * 0.5 * (1 + math.cos(math.pi * (step - rise) / (options.steps - rise))))


def place_pairs(rng: np.random.Generator, side: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """(sets, pairs, 2) int64 pairs of places of a square, near ones and far ones: distances from 1 to side / 3."""
    shape = (PAIR_SETS, PAIRS)
    distance = np.exp(rng.uniform(0, math.log(side / 3), shape))
    angle = rng.uniform(0, 2 * math.pi, shape)
    y, x = rng.integers(0, side, shape), rng.integers(0, side, shape)
    v = np.clip(np.rint(y + distance * np.sin(angle)).astype(np.int64), 0, side - 1)
    u = np.clip(np.rint(x + distance * np.cos(angle)).astype(np.int64), 0, side - 1)
    return np.stack((y * side + x, v * side + u), axis=-1)
