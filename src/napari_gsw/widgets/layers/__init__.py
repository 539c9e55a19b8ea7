"""Layers of the viewer: what an image layer means as arrays, which layers are ours, how results are written to them.

May import `kit`, `core`, Qt and napari; it knows no run and no dock.
"""
