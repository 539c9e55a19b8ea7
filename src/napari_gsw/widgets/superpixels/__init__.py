"""The dock "Superpixels": cuts an image into sites and lets a person mend them with the brush.

May import `layers`, `kit` and `core`; it knows nothing of the other docks, which find its layers by their mark.
"""
