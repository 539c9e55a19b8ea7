"""The dock "Table of regions": a row for each label of a layer, tied to the picture.

May import `layers`, `kit`, `files` and `core`; it knows nothing of the other docks and reads what they leave in
``layer.features``.
"""
