"""Layers of the viewer: images as arrays, our own layers, and results on them. Imports `common` and `core`."""
