"""Settings of a segmentation, declared once, and presets for kinds of images."""

from napari_gsw.core.settings.settings import MAX_BETA as MAX_BETA
from napari_gsw.core.settings.settings import MAX_PARAMETER as MAX_PARAMETER
from napari_gsw.core.settings.settings import MIN_PARAMETER as MIN_PARAMETER
from napari_gsw.core.settings.settings import MIN_REGION_PIXELS as MIN_REGION_PIXELS
from napari_gsw.core.settings.settings import SECTIONS as SECTIONS
from napari_gsw.core.settings.settings import Settings as Settings
from napari_gsw.core.settings.settings import check_axes as check_axes
from napari_gsw.core.settings.settings import setting_fields as setting_fields
from napari_gsw.core.settings.settings import upgrade_names as upgrade_names
