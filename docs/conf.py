"""The documentation as a site: ``make docs`` writes it to build/site, and every warning is an error."""

from __future__ import annotations

import napari_gsw

project = "napari-gsw"
author = "the napari-gsw developers"
version = release = napari_gsw.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["data"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings give shapes, which say more
napoleon_google_docstring = False
napoleon_use_rtype = False

html_theme = "pydata_sphinx_theme"
html_title = "napari-gsw"
html_theme_options = {
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "navigation_with_keys": False,
}
# The bar above leads to every page; beside a page there would be nothing, and tables are wide.
html_sidebars = {"**": []}
html_show_sourcelink = False
