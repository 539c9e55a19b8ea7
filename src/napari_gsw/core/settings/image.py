"""Settings of the way from an image to its sites."""

from __future__ import annotations

from dataclasses import dataclass

from napari_gsw.core.settings.setting import POSITIVE, Options, setting


@dataclass(frozen=True)
class ImageSettings(Options):
    """How the image is read."""

    axes: str = setting(
        "auto",
        "image",
        "Order of the image's axes, such as YX, YXS (S: RGB samples), CYX or ZYX (C: channels); auto guesses.",
    )
    spacing: str = setting(
        "auto",
        "image",
        "Distance between pixels along each axis of space, such as 5,1,1 for planes that are five times as far apart "
        "as pixels; auto takes that of the file or the layer, or else the same along all.",
    )
    denoise: str = setting(
        "no",
        "superpixels",
        "Whether noise is taken off, where there is much, and colours of little contrast are stretched (auto). A "
        "photograph that is neither noisy nor pale stays as it is.",
        choices=("no", "auto"),
        title="Against noise",
    )
    block_pixels: int = setting(
        2**21,
        "image",
        "Lazy images (zarr, dask) of more than eight times as many pixels are worked on in blocks of about so many.",
        low=2**12,
        title="Pixels of a block",
    )

    @property
    def calm(self) -> bool:
        """Whether noise and weak contrast are looked for."""
        return self.denoise == "auto"


@dataclass(frozen=True)
class SuperpixelSettings(Options):
    """What is looked at, and how pixels are grouped into sites."""

    signal: str = setting(
        "colour",
        "superpixels",
        "What is looked at: perceptual colour, or how far a pixel stands out from the background (objects: "
        "fluorescence, stains).",
        choices=("colour", "objects"),
        title="Look at",
    )
    sites_from: str = setting(
        "auto",
        "superpixels",
        "What sites follow: the image, or a map that is given beside it: features (contrast is then theirs too), or "
        "boundaries (watersheds of the map). auto follows boundaries where they are given and count, else the image.",
        choices=("auto", "image", "features", "boundaries"),
        title="Follow",
    )
    objects: str = setting(
        "classical",
        "superpixels",
        "How objects are found: by a network that has learnt what nuclei look like, whose fragments the posterior puts "
        "together (network: flat images in memory, and small volumes whose objects hardly stand out; needs "
        "onnxruntime), or by how they stand out alone (classical, which is also what is done where a network cannot "
        "look or sees nothing).",
        choices=("classical", "network"),
        active_if=("signal", ("objects",)),
        title="Objects by",
    )
    superpixels: str = setting(
        "slic",
        "superpixels",
        "How pixels are grouped into sites. Those of ridges lie between dark lines, and are as large as these allow.",
        choices=("slic", "felzenszwalb", "watershed", "grid", "ridges"),
        title="Method",
    )
    site_size: int = setting(
        60,
        "superpixels",
        "Mean number of pixels in a site; with a spacing, of cubes of the smallest distance between pixels.",
        low=1,
        active_if=("site_count", (None,)),
        title="Site size",
    )
    site_count: int | None = setting(
        None,
        "superpixels",
        "Number of sites, whatever the size of the image; none goes by the site size.",
        kind=int,
        optional=True,
        low=1,
        title="Number of sites",
    )
    most_sites: int | None = setting(
        500_000,
        "superpixels",
        "Sites of an image at most, where they go by the site size: in a very large image they are larger than that; "
        "none for no limit.",
        kind=int,
        optional=True,
        low=1,
        active_if=("site_count", (None,)),
        title="Most sites",
    )
    compactness: float = setting(
        10.0,
        "superpixels",
        "Large values make sites round and equal, small ones let them follow colour (slic, watershed).",
        **POSITIVE,
        active_if=("superpixels", ("slic", "watershed")),
    )
    refocus: str = setting(
        "no",
        "superpixels",
        "Whether sites of a flat image of plain shapes that is out of focus follow borders drawn half way up its "
        "slopes (auto); others are left as they are, and so is an image that is read in blocks.",
        choices=("no", "auto"),
    )
    smoothing: float = setting(
        0.0, "superpixels", "Width in pixels of the Gaussian blur before sites are made.", low=0.0, high=100.0
    )
