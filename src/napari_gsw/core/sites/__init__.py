"""Pixels -> sites: superpixels, a label image 1..n, in memory or in blocks; and what scribbles mean for them."""
