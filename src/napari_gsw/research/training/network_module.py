"""The package's networks as modules of PyTorch: what learns, and how what was learnt becomes plain numbers.

The only files of the package that know PyTorch are the ``network_*`` ones of this room; it comes with the extra
``learning``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from napari_gsw.research.training.onnx_export import WIDTHS, NetworkPlan, run_plan


class NetworkModule(nn.Module):  # type: ignore[misc]  # PyTorch is not there when types are checked
    """A network that learns: its convolutions, each followed by batch normalisation, and side outputs.

    The side outputs say the same as the fine one, from every scale on the way up; they are for learning alone.

    Attributes
    ----------
    plan : what it looks like.
    slope : (2,) of the curve from the squared distance of two places to the log odds that they are one segment.
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
        # A block begins as nothing: its second normalisation is 0 at first.
        for key, norm in self.norms.items():
            if key.endswith("b"):
                nn.init.zeros_(norm.weight)
        self.sides = nn.ModuleDict({str(scale): nn.Conv2d(WIDTHS[scale], plan.fine, 1) for scale in range(3)})
        self.slope = nn.Parameter(torch.tensor([2.0, 1.0]))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None, list[torch.Tensor]]:
        """Fine (b, fine, h, w), places (b, places, h / 4, w / 4) or None, and the side outputs from fine to coarse."""
        outputs = run_plan(self.plan, self, image)
        return outputs.fine, outputs.places, [self.sides[str(s)](x) for s, x in sorted(outputs.scales.items())]

    def convolve(self, name: str, x: torch.Tensor) -> torch.Tensor:
        key = name.replace(".", "_")
        y: torch.Tensor = self.convolutions[key](x)
        return self.norms[key](y) if key in self.norms else y

    def rectify(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)

    def add(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    def double(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.interpolate(x, scale_factor=2, mode="nearest")

    def unfold(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.pixel_shuffle(x, 2)

    def numbers(self) -> dict[str, NDArray[np.float16]]:
        """The weights as they ship: each normalisation is part of its convolution.

        ``NAME.weight`` (outputs, inputs, size, size) and ``NAME.bias`` (outputs,).
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
