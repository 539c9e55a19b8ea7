"""Chunked images: superpixels, graph and features block by block."""
