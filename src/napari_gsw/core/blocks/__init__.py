"""Chunked images, block by block: superpixels, graph and features of the whole image."""
