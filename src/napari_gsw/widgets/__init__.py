"""The napari plugin: four docks and the commands of the palette. Nothing else imports Qt or napari.

The subpackages, each of which imports only those before it: `common`, `layers`, then `session`, `superpixels`,
`comparison` and `table`, then `panel`.
"""
