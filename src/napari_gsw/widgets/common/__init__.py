"""Small parts that every dock is built of: buttons, sections, one control for one setting, and how a dock ends.

May import Qt, napari, and of the package the settings, presets and errors of `core`; nothing else of `widgets`.
"""
