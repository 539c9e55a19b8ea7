"""Parts of all docks. Imports Qt, napari, settings and errors of `core`, and nothing else of `widgets`."""
