"""The dock "Table of regions": a row for each label of a layer, tied to the image.

Imports `layers`, `common`, `files` and `core`, and no other dock: it reads what they leave in ``layer.features``.
"""
