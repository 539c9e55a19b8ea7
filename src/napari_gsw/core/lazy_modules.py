"""Modules of other packages that take long to import and that few segmentations need: imported when they are used."""

from __future__ import annotations

from typing import Any

import lazy_loader

# As long as all the rest of scikit-image that is in use; only objects need it.
morphology: Any = lazy_loader.load("skimage.morphology", suppress_warning=True)
