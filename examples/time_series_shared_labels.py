"""A time series as one problem: a label means the same in every frame, and a stroke in one frame teaches all."""

import numpy as np

import napari_gsw as gsw

rng = np.random.default_rng(0)
y, x = np.mgrid[:64, :96]


def frame(t):
    """A bright disk that wanders over two halves of different grey."""
    halves = np.where(x < 48, 60.0, 110.0)
    disk = (y - 32) ** 2 + (x - 20 - 12 * t) ** 2 < 100
    return (np.where(disk, 200.0, halves) + rng.normal(0, 8, y.shape)).clip(0, 255).astype(np.uint8)


frames = [frame(t) for t in range(4)]
painted = np.zeros(y.shape, np.int32)
painted[30:34, 16:24] = 1  # the disk
painted[5:9, 5:20] = 2  # the left half
painted[5:9, 70:90] = 3  # the right half
result = gsw.segment(frames, seeds=[painted, None, None, None], seed=0, linked=True)
for t, labels in enumerate(result.labels):
    rows, columns = np.nonzero(labels == 1)
    print(f"frame {t}: the disk is at ({rows.mean():.0f}, {columns.mean():.0f})")
