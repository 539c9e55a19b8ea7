"""Settings of the way from an image to its sites."""

from __future__ import annotations

from dataclasses import dataclass

from napari_gsw.core.settings.setting import Options, declare_in

# Laid out by hand, so that a setting takes few lines.
# fmt: off
image_setting = declare_in("image")
superpixels_setting = declare_in("superpixels")


@dataclass(frozen=True)
class ImageSettings(Options):
    """Reading of the image."""

    axes: str = image_setting(
        "auto", "Order of the image's axes, such as YX, YXS (S: RGB samples), CYX or ZYX (C: channels); auto guesses.",
    )
    spacing: str = image_setting(
        "auto", "Distance between pixels along each axis of space, such as 5,1,1 for planes that are five times as "
        "far apart as pixels; auto takes that of the file or the layer, or else the same along all.",
    )
    denoise: str = superpixels_setting(
        "no", "Whether noise is taken off, where there is much, and colours of little contrast are stretched (auto). "
        "A photograph that is neither noisy nor pale stays as it is.", choices=("no", "auto"), title="Against noise",
    )
    block_pixels: int = image_setting(
        2**21, "Lazy images (zarr, dask) of more than eight times as many pixels are worked on in blocks of about so "
        "many.", bounds="[4096, inf)", title="Pixels of a block",
    )

    @property
    def calm(self) -> bool:
        """True if noise and weak contrast are looked for."""
        return self.denoise == "auto"


@dataclass(frozen=True)
class SuperpixelSettings(Options):
    """Range and noise of the pixels, and their grouping into sites."""

    signal: str = superpixels_setting(
        "colour", "What is looked at: perceptual colour, or how far a pixel stands out from the background (objects: "
        "fluorescence, stains).", choices=("colour", "objects"), title="Look at",
    )
    sites_from: str = superpixels_setting(
        "auto", "What sites follow: the image, or a map that is given beside it: features (contrast is then theirs "
        "too), or boundaries (watersheds of the map). auto follows boundaries where they are given and count, else "
        "the image.", choices=("auto", "image", "features", "boundaries"), title="Follow",
    )
    objects: str = superpixels_setting(
        "classical", "How objects are found: by a network that has learnt what nuclei look like, whose fragments the "
        "posterior puts together (network: flat images in memory, and small volumes whose objects hardly stand out; "
        "needs onnxruntime), or by how they stand out alone (classical, which is also what is done where a network "
        "cannot look or sees nothing).",
        choices=("classical", "network"), active_if=("signal", ("objects",)), title="Objects by",
    )
    superpixels: str = superpixels_setting(
        "slic", "How pixels are grouped into sites. Those of ridges lie between dark lines, and are as large as these "
        "allow.", choices=("slic", "felzenszwalb", "watershed", "grid", "ridges"), title="Method",
    )
    site_size: int = superpixels_setting(
        60, "Mean number of pixels in a site; with a spacing, of cubes of the smallest distance between pixels.",
        bounds="[1, inf)", active_if=("site_count", (None,)), title="Site size",
    )
    site_count: int | None = superpixels_setting(
        None, "Number of sites, whatever the size of the image; none goes by the site size.",
        bounds="[1, inf)", kind=int, optional=True, title="Number of sites",
    )
    most_sites: int | None = superpixels_setting(
        500_000, "Sites of an image at most, where they go by the site size: in a very large image they are larger "
        "than that; none for no limit.",
        bounds="[1, inf)", optional=True, active_if=("site_count", (None,)), title="Most sites",
    )
    compactness: float = superpixels_setting(
        10.0, "Large values make sites round and equal, small ones let them follow colour (slic, watershed).",
        bounds="(0, inf)", active_if=("superpixels", ("slic", "watershed")),
    )
    refocus: str = superpixels_setting(
        "no", "Whether sites of a flat image of plain shapes that is out of focus follow borders drawn half way up "
        "its slopes (auto); others are left as they are, and so is an image that is read in blocks.",
        choices=("no", "auto"),
    )
    smoothing: float = superpixels_setting(
        0.0, "Width in pixels of the Gaussian blur before sites are made.", bounds="[0, 100]",
    )
