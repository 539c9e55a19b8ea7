"""The dock "Compare segmentations": how well Labels layers agree, in figures and as a picture.

May import `layers`, `kit`, `evaluation` and `core`; it knows nothing of the other docks.
"""
