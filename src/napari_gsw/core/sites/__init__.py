"""Pixels -> sites: superpixels, a label image 1..n, in memory or as a mosaic of blocks.

Also what lies on a site (means, the commonest label) and what a stroke of a brush means to it. May import image and the
ground of core.
"""
