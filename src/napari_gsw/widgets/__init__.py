"""The plugin in napari: four docks and the commands of the palette. Nothing outside this folder knows Qt or napari.

Rooms from the ground up: `kit`, `layers`; on them `session`, `superpixels` and `comparison`; then `panel`, and
`commands` on top. A room imports only those below it, and whatever it needs of the headless package.
"""
